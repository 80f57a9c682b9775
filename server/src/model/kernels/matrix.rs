//! Matrices of quantized weights, laid out in tiles.
//!
//! Weights come in blocks named as in ggml (`ggml-common.h`): `block_q4_0` (f16 scale `d`, 16 bytes of two 4-bit values,
//! the value being d·(q − 8)), `block_q4_1` (f16 `d` and `m`, 16 bytes; d·q + m) and `block_q8_0` (f16 `d`, 32 signed
//! bytes; d·q). They are laid out anew when they are loaded: eight columns side by side, four consecutive values of each
//! at a time, so that one vector of 32-bit lanes holds eight columns' sums. A `block_q4_0` becomes a `block_q4_1` with
//! m = −8·d, which is exact.

use half::f16;
use rayon::prelude::*;

use super::activations::{Activations, BLOCK};
use super::isa::Isa;
use super::tile::{Bytes, Nibbles, TILE, rows_by_four};

/// How a tensor's weights are stored in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `block_q4_0`.
    Q4_0,
    /// `block_q4_1`.
    Q4_1,
    /// `block_q8_0`.
    Q8_0,
}

impl Format {
    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(self) -> usize {
        match self {
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q8_0 => 34,
        }
    }
}

/// Why bytes are no matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The number of bytes is not what the shape needs.
    #[error("{found} bytes where {needed} are needed")]
    Length {
        /// Bytes there are.
        found: usize,
        /// Bytes there must be.
        needed: usize,
    },
    /// A column is not a whole number of blocks.
    #[error("columns of {0} values are not whole blocks of {BLOCK}")]
    Width(usize),
    /// A scale is infinite, not a number, or too large.
    #[error("the scale of block {0} is not finite")]
    Scale(usize),
}

#[derive(Debug)]
enum Tiles {
    Nibbles(Vec<Nibbles>),
    Bytes(Vec<Bytes>),
}

#[derive(Debug)]
struct Part {
    first_tile: usize,
    tiles: Tiles,
}

/// A matrix of quantized weights: so many columns, each as long as the rows it is multiplied with. It may be put together
/// from several tensors, so that they are gone through in one go.
#[derive(Debug)]
pub struct Matrix {
    parts: Vec<Part>,
    columns: usize,
    tiles: usize,
    /// Blocks in a column, and in a row that is multiplied with it.
    blocks: usize,
}

impl Matrix {
    /// Lays out a tensor as it is in the file: `columns` times `width` values, column by column.
    pub fn pack(format: Format, bytes: &[u8], columns: usize, width: usize) -> Result<Self, PackError> {
        if width == 0 || !width.is_multiple_of(BLOCK) {
            return Err(PackError::Width(width));
        }
        let blocks = width / BLOCK;
        let size = format.block_bytes();
        let needed = columns.saturating_mul(blocks).saturating_mul(size);
        if bytes.len() != needed {
            return Err(PackError::Length { found: bytes.len(), needed });
        }
        let tiles = columns.div_ceil(TILE);
        let scale = |block: usize, at: usize| {
            let at = block * size + at;
            let scale = f16::from_le_bytes([bytes[at], bytes[at + 1]]);
            if scale.is_finite() { Ok(scale) } else { Err(PackError::Scale(block)) }
        };
        // Calls `put` with the index of a block among the tiles, its column there, and the block in the file.
        let each = |put: &mut dyn FnMut(usize, usize, usize) -> Result<(), PackError>| {
            for column in 0..columns {
                for block in 0..blocks {
                    put(column / TILE * blocks + block, column % TILE, column * blocks + block)?;
                }
            }
            Ok(())
        };
        let packed = if format == Format::Q8_0 {
            let mut packed = vec![Bytes { q: [0; 256], d: [f16::ZERO; TILE] }; tiles * blocks];
            each(&mut |to, column, from| {
                let tile = &mut packed[to];
                tile.d[column] = scale(from, 0)?;
                for (i, &byte) in bytes[from * size + 2..(from + 1) * size].iter().enumerate() {
                    tile.q[i / 4 * 32 + column * 4 + i % 4] = byte.cast_signed();
                }
                Ok(())
            })?;
            Tiles::Bytes(packed)
        } else {
            let mut packed = vec![Nibbles { q: [0; 128], d: [f16::ZERO; TILE], m: [f16::ZERO; TILE] }; tiles * blocks];
            each(&mut |to, column, from| {
                let tile = &mut packed[to];
                let d = scale(from, 0)?;
                tile.d[column] = d;
                let start = if format == Format::Q4_1 {
                    tile.m[column] = scale(from, 2)?;
                    4
                } else {
                    let m = f16::from_f32(-8.0 * d.to_f32());
                    if !m.is_finite() {
                        return Err(PackError::Scale(from));
                    }
                    tile.m[column] = m;
                    2
                };
                for (i, &byte) in bytes[from * size + start..(from + 1) * size].iter().enumerate() {
                    tile.q[i / 4 * 32 + column * 4 + i % 4] = byte;
                }
                Ok(())
            })?;
            Tiles::Nibbles(packed)
        };
        Ok(Self { parts: vec![Part { first_tile: 0, tiles: packed }], columns, tiles, blocks })
    }

    /// Several matrices side by side. `None` unless they are of one width and all but the last are whole tiles.
    #[must_use]
    pub fn beside(matrices: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all: Option<Self> = None;
        for matrix in matrices {
            let Some(left) = &mut all else {
                all = Some(matrix);
                continue;
            };
            if left.blocks != matrix.blocks || !left.columns.is_multiple_of(TILE) {
                return None;
            }
            let tiles = left.tiles;
            left.parts.extend(
                matrix.parts.into_iter().map(|part| Part { first_tile: part.first_tile + tiles, tiles: part.tiles }),
            );
            left.columns += matrix.columns;
            left.tiles += matrix.tiles;
        }
        all
    }

    /// Columns.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The values of a column.
    ///
    /// # Panics
    ///
    /// If there is no such column.
    pub fn column(&self, column: usize, out: &mut Vec<f32>) {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        out.clear();
        let (tile, lane) = (column / TILE, column % TILE);
        for block in 0..self.blocks {
            match self.part(tile) {
                (Tiles::Nibbles(tiles), tile) => {
                    let tile = &tiles[tile * self.blocks + block];
                    let (d, m) = (tile.d[lane].to_f32(), tile.m[lane].to_f32());
                    out.extend((0..BLOCK).map(|i| {
                        let byte = tile.q[i % 16 / 4 * 32 + lane * 4 + i % 4];
                        let value = if i < 16 { byte & 15 } else { byte >> 4 };
                        d * f32::from(value) + m
                    }));
                }
                (Tiles::Bytes(tiles), tile) => {
                    let tile = &tiles[tile * self.blocks + block];
                    let d = tile.d[lane].to_f32();
                    out.extend((0..BLOCK).map(|i| d * f32::from(tile.q[i / 4 * 32 + lane * 4 + i % 4])));
                }
            }
        }
    }

    /// The part that holds a tile, and the tile's place in it.
    fn part(&self, tile: usize) -> (&Tiles, usize) {
        let after = self.parts.partition_point(|part| part.first_tile <= tile);
        let part = &self.parts[after - 1];
        (&part.tiles, tile - part.first_tile)
    }

    /// Multiplies `count` rows with every column: `out` is row by row, `columns` numbers each.
    ///
    /// The outer loop is over the columns, so that weights are read once for all rows; tiles are shared out among
    /// rayon's threads. A number is made by one thread, in the order of its blocks.
    ///
    /// # Panics
    ///
    /// If `rows` is not `count` rows, each as long as a column.
    pub fn multiply(&self, isa: Isa, rows: &[Activations], count: usize, out: &mut Vec<f32>) {
        assert_eq!(rows.len(), count * self.blocks, "rows of another width");
        let share = (self.tiles / (4 * rayon::current_num_threads())).clamp(1, 64);
        let in_tiles = |out: &mut [f32]| {
            out.par_chunks_mut(share * TILE * count).enumerate().for_each(|(at, out)| {
                for (offset, out) in out.chunks_exact_mut(TILE * count).enumerate() {
                    self.tile(isa, at * share + offset, rows, out);
                }
            });
        };
        if count == 1 {
            out.resize(self.tiles * TILE, 0.0);
            in_tiles(out);
            out.truncate(self.columns);
        } else {
            let mut tiled = vec![0.0; self.tiles * TILE * count];
            in_tiles(&mut tiled);
            out.resize(self.columns * count, 0.0);
            out.par_chunks_mut(self.columns).with_min_len(4).enumerate().for_each(|(row, out)| {
                for (tile, out) in out.chunks_mut(TILE).enumerate() {
                    let at = (tile * count + row) * TILE;
                    out.copy_from_slice(&tiled[at..at + out.len()]);
                }
            });
        }
    }

    /// One tile with every row; `out` has eight numbers per row.
    fn tile(&self, isa: Isa, tile: usize, rows: &[Activations], out: &mut [f32]) {
        let (tiles, tile) = self.part(tile);
        let range = tile * self.blocks..(tile + 1) * self.blocks;
        match tiles {
            Tiles::Nibbles(tiles) => rows_by_four(isa, &tiles[range], rows, out),
            Tiles::Bytes(tiles) => rows_by_four(isa, &tiles[range], rows, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, bits, quantized};
    use super::*;

    fn blocks(random: &mut Random, format: Format, count: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..count * format.block_bytes()).map(|_| random.next() as u8).collect();
        for block in bytes.chunks_exact_mut(format.block_bytes()) {
            block[..2].copy_from_slice(&f16::from_f32(random.float() * 0.01).to_le_bytes());
            if format == Format::Q4_1 {
                block[2..4].copy_from_slice(&f16::from_f32(random.float() * 0.1).to_le_bytes());
            }
        }
        bytes
    }

    #[test]
    fn both_ways_give_the_same_bits_and_the_right_ones() {
        let mut random = Random(1);
        for format in [Format::Q4_0, Format::Q4_1, Format::Q8_0] {
            for (columns, width, count) in [(8, 32, 1), (21, 96, 2), (40, 576, 3), (64, 1536, 9), (1, 64, 5)] {
                let mut bytes = blocks(&mut random, format, columns * width / BLOCK);
                // The extremes as well: nothing may overflow.
                bytes[format.block_bytes() - 16..format.block_bytes()].fill(if format == Format::Q8_0 {
                    0x80
                } else {
                    0xff
                });
                let matrix = Matrix::pack(format, &bytes, columns, width).unwrap();
                let mut values = random.floats(width * count);
                values[..BLOCK].fill(1.0);
                let rows = quantized(&values);
                let (mut plain, mut best) = (Vec::new(), Vec::new());
                matrix.multiply(Isa::plain(), &rows, count, &mut plain);
                matrix.multiply(Isa::detect(), &rows, count, &mut best);
                assert_eq!(bits(&plain), bits(&best));
                let mut column_values = Vec::new();
                for column in 0..columns {
                    matrix.column(column, &mut column_values);
                    for row in 0..count {
                        let mut alone = Vec::new();
                        let blocks = matrix.blocks;
                        matrix.multiply(Isa::detect(), &rows[row * blocks..(row + 1) * blocks], 1, &mut alone);
                        assert_eq!(alone[column].to_bits(), plain[row * columns + column].to_bits());
                        let mut exact = 0.0;
                        for (i, &weight) in column_values.iter().enumerate() {
                            let a = &rows[row * blocks + i / BLOCK];
                            exact += f64::from(weight) * f64::from(a.d) * f64::from(a.q[i % BLOCK]);
                        }
                        assert!((f64::from(plain[row * columns + column]) - exact).abs() < 1e-3, "{format:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn weights_are_read_as_ggml_writes_them() {
        let mut block = vec![0; 20];
        block[..2].copy_from_slice(&f16::from_f32(0.5).to_le_bytes());
        block[2..4].copy_from_slice(&f16::from_f32(-1.0).to_le_bytes());
        block[4] = 0xf2;
        let mut column = Vec::new();
        Matrix::pack(Format::Q4_1, &block, 1, 32).unwrap().column(0, &mut column);
        assert_eq!((column[0], column[1], column[16], column[17]), (0.0, -1.0, 6.5, -1.0));
        block.drain(2..4);
        Matrix::pack(Format::Q4_0, &block, 1, 32).unwrap().column(0, &mut column);
        assert_eq!((column[0], column[1], column[16], column[17]), (-3.0, -4.0, 3.5, -4.0));
        let mut block = vec![0; 34];
        block[..2].copy_from_slice(&f16::from_f32(0.25).to_le_bytes());
        block[2] = 0x80;
        block[33] = 3;
        Matrix::pack(Format::Q8_0, &block, 1, 32).unwrap().column(0, &mut column);
        assert_eq!((column[0], column[31]), (-32.0, 0.75));
    }

    #[test]
    fn what_is_no_matrix_is_refused() {
        assert_eq!(Matrix::pack(Format::Q8_0, &[], 1, 33).unwrap_err(), PackError::Width(33));
        assert_eq!(Matrix::pack(Format::Q8_0, &[], 1, 0).unwrap_err(), PackError::Width(0));
        let short = Matrix::pack(Format::Q4_1, &[0; 39], 2, 32).unwrap_err();
        assert_eq!(short, PackError::Length { found: 39, needed: 40 });
        let huge = Matrix::pack(Format::Q4_1, &[], usize::MAX, 1 << 40).unwrap_err();
        assert!(matches!(huge, PackError::Length { .. }));
        let mut block = vec![0; 40];
        block[22..24].copy_from_slice(&f16::INFINITY.to_le_bytes());
        assert_eq!(Matrix::pack(Format::Q4_1, &block, 2, 32).unwrap_err(), PackError::Scale(1));
        block[..2].copy_from_slice(&f16::MAX.to_le_bytes());
        assert_eq!(Matrix::pack(Format::Q4_0, &block[..18], 1, 32).unwrap_err(), PackError::Scale(0));
        let narrow = |width| Matrix::pack(Format::Q8_0, &vec![0; width / 32 * 34 * 4], 4, width).unwrap();
        assert!(Matrix::beside([narrow(32), narrow(32)]).is_none());
    }
}
