//! The arithmetic of a forward pass, each number by one fixed sequence of operations.
//!
//! What is promised: a function here gives the same bits for the same arguments whatever the number of threads, whichever
//! other rows are computed beside, and whichever instruction set is used. It is had by construction:
//!
//! * A dot product with quantized weights is a sum over blocks of 32. Inside a block everything is integers, which are
//!   exact in any order; between blocks it is f32, in ascending order of the blocks, one accumulator per column:
//!   `sum = sum + ((d·n)·a + m·s)`, each operation rounded by itself.
//! * Multiplication and addition are never fused, so SSE2, AVX2 and NEON round alike; no `exp`, `sin` or `pow` of a
//!   platform's library is called.
//! * Instructions are chosen by [`Isa`]; a kernel is either written once and compiled twice, or written twice and tested
//!   for equality. Vectors hold different columns, keys or dimensions side by side and never parts of one f32 sum.
//!   The one sum that has lanes, that of squares in [`rms_norm`], has eight of them by definition.
//!
//! What is not: equal bits where the processor is told to flush subnormal numbers to zero, which nothing here does.
//!
//! Weights come in blocks named as in ggml (`ggml-common.h`): `block_q4_0` (f16 scale `d`, 16 bytes of two 4-bit values,
//! the value being d·(q − 8)), `block_q4_1` (f16 `d` and `m`, 16 bytes; d·q + m) and `block_q8_0` (f16 `d`, 32 signed
//! bytes; d·q). They are laid out anew when they are loaded: eight columns side by side, four consecutive values of each
//! at a time, so that one vector of 32-bit lanes holds eight columns' sums. A `block_q4_0` becomes a `block_q4_1` with
//! m = −8·d, which is exact.

// Loads of vectors through pointers and calls of functions compiled for a named instruction set have no safe form. Each
// block says why it is sound; everything else in the server stays without.
#![allow(unsafe_code)]

use half::f16;
use rayon::prelude::*;

/// Values in a block, of weights and of activations alike.
pub const BLOCK: usize = 32;
/// Columns of a matrix that lie side by side.
pub const TILE: usize = 8;
/// Positions in a page of keys and values.
pub const PAGE: usize = 32;
/// Heads are computed by this many dimensions at a time, and their size must be a multiple of it.
pub const HEAD_UNIT: usize = 64;

/// Which instructions the kernels use. It changes how long they take and not a bit of what they give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Plain,
    // Made by `detect` alone: to hold one is to know that the processor has AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Isa {
    /// The best this processor has.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("f16c") {
            return Self(Kind::Avx2);
        }
        Self::plain()
    }

    /// Plain Rust, for every processor.
    #[must_use]
    pub fn plain() -> Self {
        Self(Kind::Plain)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
        }
    }
}

/// Calls a body that is written once, compiled for the instructions at hand.
macro_rules! compiled_for {
    ($isa:expr, $body:ident($($name:ident: $kind:ty),*)) => {
        match $isa.0 {
            Kind::Plain => $body($($name),*),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => {
                #[target_feature(enable = "avx2")]
                fn avx2($($name: $kind),*) {
                    $body($($name),*)
                }
                // SAFETY: `Kind::Avx2` exists only where AVX2 was found.
                unsafe { avx2($($name),*) }
            }
        }
    };
}

/// A block of 32 activations, like ggml's `block_q8_1` with its two scales in f32: value i is about `d * q[i]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Activations {
    /// Numbers from −127 to 127; never −128, which the signed kernels could not negate.
    q: [i8; BLOCK],
    /// The largest magnitude over 127.
    d: f32,
    /// `d` times the sum of `q`: what a block's minimum is multiplied with.
    s: f32,
}

/// Quantizes rows of activations, whose length is a multiple of [`BLOCK`]: d = max|x| / 127, q = x·(127/max|x|) rounded to
/// nearest even. A block that is all but zero (below 2^-100) is zero; one with an infinity or NaN is all NaN.
pub fn quantize(isa: Isa, values: &[f32], out: &mut [Activations]) {
    compiled_for!(isa, quantize_body(values: &[f32], out: &mut [Activations]));
}

#[inline(always)]
fn quantize_body(values: &[f32], out: &mut [Activations]) {
    /// 1.5·2^23: adding and subtracting it rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    /// 2^-100.
    const TINY: f32 = f32::from_bits(27 << 23);
    for (values, out) in values.as_chunks::<BLOCK>().0.iter().zip(out) {
        // Without their signs the bits of f32 order as the numbers do, and NaN is the greatest.
        let mut greatest = 0;
        for value in values {
            let bits = value.to_bits() & 0x7fff_ffff;
            greatest = if bits > greatest { bits } else { greatest };
        }
        let greatest = f32::from_bits(greatest);
        if !greatest.is_finite() {
            *out = Activations { q: [0; BLOCK], d: f32::NAN, s: f32::NAN };
            continue;
        }
        if greatest < TINY {
            *out = Activations { q: [0; BLOCK], d: 0.0, s: 0.0 };
            continue;
        }
        let (d, inverse) = (greatest / 127.0, 127.0 / greatest);
        let mut sum = 0;
        for (value, q) in values.iter().zip(&mut out.q) {
            // At most 127·(1 + 2^-23) in magnitude before it is rounded. The low bits of the shifted number are the
            // integer.
            let rounded = (value * inverse + ROUND).to_bits() as i8;
            *q = rounded;
            sum += i32::from(rounded);
        }
        out.d = d;
        out.s = d * sum as f32;
    }
}

/// Block b of eight columns of 4-bit weights: column c's value i is `d[c] * q + m[c]`. Byte 32v + 4c + i holds column c's
/// values 4v + i (low half) and 16 + 4v + i (high half).
#[derive(Debug, Clone)]
#[repr(C, align(32))]
struct Nibbles {
    q: [u8; 128],
    d: [f16; TILE],
    m: [f16; TILE],
}

/// Block b of eight columns of 8-bit weights: column c's value i is `d[c] * q`. Byte 32v + 4c + i holds column c's value
/// 4v + i.
#[derive(Debug, Clone)]
#[repr(C, align(16))]
struct Bytes {
    q: [i8; 256],
    d: [f16; TILE],
}

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

    /// Blocks in a column, and in a row that is multiplied with it.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
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
    /// If `rows` is not `count` times [`blocks`](Self::blocks).
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

/// A tile's kernel for R rows: for each row, eight columns' dot products.
trait Kernel: Sized {
    fn plain(tile: &[Self], row: &[Activations]) -> [f32; TILE];
    /// To be called where AVX2 and F16C are.
    #[cfg(target_arch = "x86_64")]
    unsafe fn avx2<const R: usize>(tile: &[Self], rows: [&[Activations]; R], out: &mut [[f32; TILE]; R]);
}

/// As many rows at once as registers allow: a block's weights are unpacked once for four rows.
fn rows_by_four<K: Kernel>(isa: Isa, tile: &[K], rows: &[Activations], out: &mut [f32]) {
    let out = out.as_chunks_mut::<TILE>().0;
    match isa.0 {
        Kind::Plain => {
            for (row, out) in rows.chunks_exact(tile.len()).zip(out) {
                *out = K::plain(tile, row);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => {
            let (fours, rest) = out.as_chunks_mut::<4>();
            let mut rows = rows.chunks_exact(tile.len());
            let mut next = || rows.next().unwrap_or_default();
            // SAFETY: `Kind::Avx2` exists only where AVX2 and F16C were found.
            unsafe {
                for four in fours {
                    K::avx2(tile, [next(), next(), next(), next()], four);
                }
                match rest {
                    [a] => K::avx2(tile, [next()], std::array::from_mut(a)),
                    [a, b] => {
                        let mut two = [[0.0; TILE]; 2];
                        K::avx2(tile, [next(), next()], &mut two);
                        [*a, *b] = two;
                    }
                    [a, b, c] => {
                        let mut three = [[0.0; TILE]; 3];
                        K::avx2(tile, [next(), next(), next()], &mut three);
                        [*a, *b, *c] = three;
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Kernel for Nibbles {
    /// `sum = sum + ((d·n)·a.d + m·a.s)` over the blocks, n being the block's integer dot product.
    fn plain(tile: &[Self], row: &[Activations]) -> [f32; TILE] {
        let mut sums = [0.0; TILE];
        for (weights, a) in tile.iter().zip(row) {
            let mut integers = [0_i32; TILE];
            for (v, bytes) in weights.q.as_chunks::<32>().0.iter().enumerate() {
                for i in 0..4 {
                    let (low, high) = (i32::from(a.q[4 * v + i]), i32::from(a.q[16 + 4 * v + i]));
                    for column in 0..TILE {
                        let byte = bytes[4 * column + i];
                        integers[column] += i32::from(byte & 15) * low + i32::from(byte >> 4) * high;
                    }
                }
            }
            for column in 0..TILE {
                let scaled = weights.d[column].to_f32() * integers[column] as f32;
                sums[column] += scaled * a.d + weights.m[column].to_f32() * a.s;
            }
        }
        sums
    }

    /// The same numbers. Two neighbouring products of a 4-bit and an 8-bit number are at most 2·15·127 and eight such
    /// sums at most 30,480, so 16 bits hold a block's partial sums exactly.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn avx2<const R: usize>(tile: &[Self], rows: [&[Activations]; R], out: &mut [[f32; TILE]; R]) {
        use std::arch::x86_64::*;
        let low_half = _mm256_set1_epi8(15);
        let ones = _mm256_set1_epi16(1);
        let rows = rows.map(|row| &row[..tile.len()]);
        let mut sums = [_mm256_setzero_ps(); R];
        for (block, weights) in tile.iter().enumerate() {
            // SAFETY: the loads read whole fields: 4 times 32 bytes of `q`, 16 bytes of `d`, 16 of `m`.
            let (q, d, m) = unsafe {
                let q = weights.q.as_ptr().cast::<__m256i>();
                (
                    [
                        _mm256_load_si256(q),
                        _mm256_load_si256(q.add(1)),
                        _mm256_load_si256(q.add(2)),
                        _mm256_load_si256(q.add(3)),
                    ],
                    _mm256_cvtph_ps(_mm_loadu_si128(weights.d.as_ptr().cast())),
                    _mm256_cvtph_ps(_mm_loadu_si128(weights.m.as_ptr().cast())),
                )
            };
            let low = q.map(|q| _mm256_and_si256(q, low_half));
            let high = q.map(|q| _mm256_and_si256(_mm256_srli_epi16::<4>(q), low_half));
            for row in 0..R {
                let a = &rows[row][block];
                let mut pairs = _mm256_setzero_si256();
                for v in 0..4 {
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(low[v], four(a, v)));
                    pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(high[v], four(a, v + 4)));
                }
                let integers = _mm256_cvtepi32_ps(_mm256_madd_epi16(pairs, ones));
                let scaled = _mm256_mul_ps(_mm256_mul_ps(d, integers), _mm256_set1_ps(a.d));
                let term = _mm256_add_ps(scaled, _mm256_mul_ps(m, _mm256_set1_ps(a.s)));
                sums[row] = _mm256_add_ps(sums[row], term);
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            // SAFETY: `out` is eight numbers.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sum) };
        }
    }
}

impl Kernel for Bytes {
    /// `sum = sum + (d·n)·a.d` over the blocks, n being the block's integer dot product.
    fn plain(tile: &[Self], row: &[Activations]) -> [f32; TILE] {
        let mut sums = [0.0; TILE];
        for (weights, a) in tile.iter().zip(row) {
            let mut integers = [0_i32; TILE];
            for (v, bytes) in weights.q.as_chunks::<32>().0.iter().enumerate() {
                for i in 0..4 {
                    let value = i32::from(a.q[4 * v + i]);
                    for column in 0..TILE {
                        integers[column] += i32::from(bytes[4 * column + i]) * value;
                    }
                }
            }
            for column in 0..TILE {
                sums[column] += weights.d[column].to_f32() * integers[column] as f32 * a.d;
            }
        }
        sums
    }

    /// The same numbers. The multiplication wants one unsigned factor: |w|·(±a), the sign of w moved to a. A pair of
    /// products is at most 2·128·127 = 32,512 and is widened to 32 bits before anything is added.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn avx2<const R: usize>(tile: &[Self], rows: [&[Activations]; R], out: &mut [[f32; TILE]; R]) {
        use std::arch::x86_64::*;
        let ones = _mm256_set1_epi16(1);
        let rows = rows.map(|row| &row[..tile.len()]);
        let mut sums = [_mm256_setzero_ps(); R];
        for (block, weights) in tile.iter().enumerate() {
            let mut integers = [_mm256_setzero_si256(); R];
            for v in 0..8 {
                // SAFETY: v is below 8, and `q` has 8 times 32 bytes.
                let q = unsafe { _mm256_loadu_si256(weights.q.as_ptr().cast::<__m256i>().add(v)) };
                let magnitude = _mm256_abs_epi8(q);
                for row in 0..R {
                    let signed = _mm256_sign_epi8(four(&rows[row][block], v), q);
                    let pairs = _mm256_maddubs_epi16(magnitude, signed);
                    integers[row] = _mm256_add_epi32(integers[row], _mm256_madd_epi16(pairs, ones));
                }
            }
            // SAFETY: the load reads the 16 bytes of `d`.
            let d = unsafe { _mm256_cvtph_ps(_mm_loadu_si128(weights.d.as_ptr().cast())) };
            for row in 0..R {
                let scaled = _mm256_mul_ps(d, _mm256_cvtepi32_ps(integers[row]));
                sums[row] = _mm256_add_ps(sums[row], _mm256_mul_ps(scaled, _mm256_set1_ps(rows[row][block].d)));
            }
        }
        for (out, sum) in out.iter_mut().zip(sums) {
            // SAFETY: `out` is eight numbers.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), sum) };
        }
    }
}

/// Values 4v to 4v + 3 of a block, in every 32-bit lane.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
fn four(a: &Activations, v: usize) -> std::arch::x86_64::__m256i {
    let q = a.q.as_chunks::<4>().0[v];
    std::arch::x86_64::_mm256_set1_epi32(i32::from_le_bytes(q.map(i8::cast_unsigned)))
}

/// Root-mean-square normalization of one row: x / √(mean(x²) + ε), times the weight. The squares are summed in f64, in
/// eight lanes by index modulo 8, and the lanes in a tree.
pub fn rms_norm(isa: Isa, x: &[f32], weight: &[f32], epsilon: f64, out: &mut [f32]) {
    compiled_for!(isa, rms_norm_body(x: &[f32], weight: &[f32], epsilon: f64, out: &mut [f32]));
}

#[inline(always)]
fn rms_norm_body(x: &[f32], weight: &[f32], epsilon: f64, out: &mut [f32]) {
    let mut lanes = [0.0; 8];
    let (eights, rest) = x.as_chunks::<8>();
    for eight in eights {
        for (lane, &x) in lanes.iter_mut().zip(eight) {
            *lane += f64::from(x) * f64::from(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(x) * f64::from(x);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
    let scale = (1.0 / (sum / x.len() as f64 + epsilon).sqrt()) as f32;
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// e^x in f32 for x from −87 to 88, beyond which it is as at the ends: x = n·ln 2 + r, and Cephes' polynomial of degree 7
/// (`expf.c`, S. L. Moshier) in r. Within 2 units in the last place; what matters here is that it is the same everywhere.
#[inline(always)]
fn exp(x: f32) -> f32 {
    /// 1.5·2^23: adding and subtracting it rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    /// The first bits of ln 2, so few that n times them is exact, and the rest.
    const LN2_HEAD: f32 = f32::from_bits(0x3f31_8000);
    const LN2_TAIL: f32 = -2.121_944_4e-4;
    let x = if x > -87.0 { x } else { -87.0 };
    let x = if x < 88.0 { x } else { 88.0 };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN2_HEAD) - n * LN2_TAIL;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    (p * (r * r) + r + 1.0) * power
}

/// The gated activation of a row: silu(gate)·up, with silu(x) = x / (1 + e^−x). The row holds all gates, then all ups.
pub fn silu_gate(isa: Isa, row: &[f32], out: &mut [f32]) {
    compiled_for!(isa, silu_gate_body(row: &[f32], out: &mut [f32]));
}

#[inline(always)]
fn silu_gate_body(row: &[f32], out: &mut [f32]) {
    let (gates, ups) = row.split_at(out.len());
    for ((out, &gate), &up) in out.iter_mut().zip(gates).zip(ups) {
        *out = gate / (1.0 + exp(-gate)) * up;
    }
}

/// Adds a row to another.
pub fn add(isa: Isa, x: &mut [f32], y: &[f32]) {
    compiled_for!(isa, add_body(x: &mut [f32], y: &[f32]));
}

#[inline(always)]
fn add_body(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// Turns pairs (x₀, x₁), (x₂, x₃), … by the angles whose (cos, sin) are given: llama's rotary embedding in ggml's order.
pub fn rotate(x: &mut [f32], angles: &[(f32, f32)]) {
    for ([a, b], &(cos, sin)) in x.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

/// Where the keys and values of one layer and one head are in a page: dimension d of the key at position p of the page is
/// at `at + PAGE * d + p`, dimension d of its value at `at + PAGE * size + size * p + d`.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The first number's index in the page.
    pub at: usize,
    /// Dimensions of a head, a multiple of [`HEAD_UNIT`].
    pub size: usize,
}

impl Place {
    /// Writes a key and a value.
    pub fn write(self, page: &mut [f32], position: usize, key: &[f32], value: &[f32]) {
        for (d, &key) in key.iter().enumerate() {
            page[self.at + PAGE * d + position] = key;
        }
        let at = self.at + (PAGE + position) * self.size;
        page[at..at + self.size].copy_from_slice(value);
    }
}

/// Attention of one position in one head over the first `count` keys, a softmax of the dot products times the values.
///
/// A dot product is a sum over the dimensions in ascending order; the softmax takes the maximum away and its weights are
/// `exp`; their sum and the weighted sum of the values go over the keys in ascending order. `scores` is room to work in.
pub fn attend<P: AsRef<Vec<f32>>>(
    isa: Isa,
    pages: &[P],
    place: Place,
    query: &[f32],
    count: usize,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    match isa.0 {
        Kind::Plain => attend_body(pages, place, query, count, scores, out),
        #[cfg(target_arch = "x86_64")]
        Kind::Avx2 => {
            #[target_feature(enable = "avx2")]
            fn avx2<P: AsRef<Vec<f32>>>(
                pages: &[P],
                place: Place,
                query: &[f32],
                count: usize,
                scores: &mut Vec<f32>,
                out: &mut [f32],
            ) {
                attend_body(pages, place, query, count, scores, out);
            }
            // SAFETY: `Kind::Avx2` exists only where AVX2 was found.
            unsafe { avx2(pages, place, query, count, scores, out) }
        }
    }
}

#[inline(always)]
fn attend_body<P: AsRef<Vec<f32>>>(
    pages: &[P],
    Place { at, size }: Place,
    query: &[f32],
    count: usize,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    scores.clear();
    let pages = &pages[..count.div_ceil(PAGE)];
    for page in pages {
        let keys = page.as_ref()[at..at + PAGE * size].as_chunks::<PAGE>().0;
        let mut dots = [0.0; PAGE];
        for (&q, keys) in query.iter().zip(keys) {
            for (dot, &key) in dots.iter_mut().zip(keys) {
                *dot += q * key;
            }
        }
        scores.extend_from_slice(&dots);
    }
    // What a page holds beyond the last key was never a key, or no longer is.
    scores.truncate(count);
    let mut greatest = f32::NEG_INFINITY;
    for &score in &*scores {
        greatest = if score > greatest { score } else { greatest };
    }
    for score in &mut *scores {
        *score = exp(*score - greatest);
    }
    for unit in 0..size / HEAD_UNIT {
        let mut sum = 0.0;
        let mut sums = [0.0; HEAD_UNIT];
        for (page, weights) in pages.iter().zip(scores.chunks(PAGE)) {
            let values = &page.as_ref()[at + PAGE * size..at + 2 * PAGE * size];
            for (&weight, value) in weights.iter().zip(values.chunks_exact(size)) {
                sum += weight;
                let value = &value.as_chunks::<HEAD_UNIT>().0[unit];
                for (sum, &value) in sums.iter_mut().zip(value) {
                    *sum += weight * value;
                }
            }
        }
        let inverse = 1.0 / sum;
        for (out, sum) in out[unit * HEAD_UNIT..][..HEAD_UNIT].iter_mut().zip(sums) {
            *out = sum * inverse;
        }
    }
}

/// cos and sin of an angle from 0 to 2^13, good to f32 and the same everywhere: the angle less a multiple of π/2 (in three
/// parts, as fdlibm's `__ieee754_rem_pio2` has them), and Taylor's series in f64.
#[must_use]
pub fn cos_sin(angle: f64) -> (f32, f32) {
    /// 1.5·2^52: adding and subtracting it rounds to the nearest integer.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    /// π/2: its first 33 bits, the next 33, and the rest.
    const PARTS: [f64; 3] = [
        f64::from_bits(0x3ff9_21fb_5440_0000),
        f64::from_bits(0x3dd0_b461_1a60_0000),
        f64::from_bits(0x3ba3_198a_2e03_7073),
    ];
    let quarters = (angle * std::f64::consts::FRAC_2_PI + ROUND) - ROUND;
    let r = ((angle - quarters * PARTS[0]) - quarters * PARTS[1]) - quarters * PARTS[2];
    let square = r * r;
    // 1 − r²/(1·2)·(1 − r²/(3·4)·(…)) and r·(1 − r²/(2·3)·(1 − r²/(4·5)·(…))), up to r^18 and r^19.
    let (mut cos, mut sin) = (1.0, 1.0);
    for n in (1..=9).rev() {
        let n = f64::from(2 * n);
        cos = 1.0 - square / ((n - 1.0) * n) * cos;
        sin = 1.0 - square / (n * (n + 1.0)) * sin;
    }
    sin *= r;
    let (cos, sin) = match quarters as i64 & 3 {
        0 => (cos, sin),
        1 => (-sin, cos),
        2 => (-cos, -sin),
        _ => (sin, -cos),
    };
    (cos as f32, sin as f32)
}

/// base^(−exponent) for a base from 1 to 10^12 and an exponent from 0 to 1, by the sampler's correctly rounded exp.
#[must_use]
pub fn inverse_power(base: f64, exponent: f64) -> f64 {
    // ln(base), by Newton's method on e^y = base: from above it falls by at most 1 a step at first, and then doubles its
    // digits with each.
    let mut ln = 28.0;
    for _ in 0..40 {
        ln += base * quillmate_sampler::exp(-ln) - 1.0;
    }
    quillmate_sampler::exp(-exponent * ln)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64, as numbers of every kind.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }

        fn float(&mut self) -> f32 {
            (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
        }

        fn floats(&mut self, count: usize) -> Vec<f32> {
            (0..count).map(|_| self.float()).collect()
        }

        fn bytes(&mut self, format: Format, blocks: usize) -> Vec<u8> {
            let mut bytes: Vec<u8> = (0..blocks * format.block_bytes()).map(|_| self.next() as u8).collect();
            for block in bytes.chunks_exact_mut(format.block_bytes()) {
                block[..2].copy_from_slice(&f16::from_f32(self.float() * 0.01).to_le_bytes());
                if format == Format::Q4_1 {
                    block[2..4].copy_from_slice(&f16::from_f32(self.float() * 0.1).to_le_bytes());
                }
            }
            bytes
        }
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    fn quantized(values: &[f32]) -> Vec<Activations> {
        let mut out = vec![Activations::default(); values.len() / BLOCK];
        quantize(Isa::plain(), values, &mut out);
        out
    }

    #[test]
    fn both_ways_give_the_same_bits_and_the_right_ones() {
        let mut random = Random(1);
        for format in [Format::Q4_0, Format::Q4_1, Format::Q8_0] {
            for (columns, width, count) in [(8, 32, 1), (21, 96, 2), (40, 576, 3), (64, 1536, 9), (1, 64, 5)] {
                let mut bytes = random.bytes(format, columns * width / BLOCK);
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
                        let blocks = matrix.blocks();
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

    #[test]
    fn blocks_of_activations_at_their_limits() {
        let mut values = [0.0; BLOCK];
        assert_eq!(quantized(&values)[0].d, 0.0);
        values[3] = 1e-40;
        assert_eq!((quantized(&values)[0].d, quantized(&values)[0].q), (0.0, [0; BLOCK]));
        values[3] = -f32::MAX;
        values[4] = f32::MAX;
        assert_eq!(quantized(&values)[0].q[3..5], [-127, 127]);
        values[3] = f32::NAN;
        assert!(quantized(&values)[0].d.is_nan());
        values[3] = f32::INFINITY;
        assert!(quantized(&values)[0].s.is_nan());
        let mut random = Random(2);
        for scale in [1e-30, 1e-20, 3e-3, 1.0, 1e10, 1e35] {
            let values: Vec<f32> = random.floats(3200).iter().map(|value| value * scale).collect();
            let plain = quantized(&values);
            let mut best = plain.clone();
            quantize(Isa::detect(), &values, &mut best);
            for ((plain, best), values) in plain.iter().zip(&best).zip(values.chunks(BLOCK)) {
                assert_eq!(
                    (plain.q, plain.d.to_bits(), plain.s.to_bits()),
                    (best.q, best.d.to_bits(), best.s.to_bits())
                );
                assert!(plain.q.iter().any(|q| q.unsigned_abs() == 127) && !plain.q.contains(&-128));
                for (&value, &q) in values.iter().zip(&plain.q) {
                    assert!((value - f32::from(q) * plain.d).abs() <= plain.d * 0.501);
                }
            }
        }
    }

    #[test]
    fn the_other_kernels_give_the_same_bits_both_ways() {
        let mut random = Random(3);
        let (x, weight) = (random.floats(581), random.floats(581));
        let both = |run: &dyn Fn(Isa) -> Vec<f32>| {
            let plain = run(Isa::plain());
            assert_eq!(bits(&plain), bits(&run(Isa::detect())));
            plain
        };
        both(&|isa| {
            let mut out = vec![0.0; x.len()];
            rms_norm(isa, &x, &weight, 1e-5, &mut out);
            out
        });
        let row: Vec<f32> = random.floats(200).iter().map(|x| x * 100.0).collect();
        let gated = both(&|isa| {
            let mut out = vec![0.0; 100];
            silu_gate(isa, &row, &mut out);
            out
        });
        for (at, gated) in gated.iter().enumerate() {
            let (gate, up) = (f64::from(row[at]), f64::from(row[100 + at]));
            let exact = gate / (1.0 + quillmate_sampler::exp(-gate)) * up;
            assert!((f64::from(*gated) - exact).abs() <= exact.abs() * 1e-5 + 1e-30);
        }
        for size in [64, 128] {
            let place = Place { at: 7, size };
            let pages: Vec<Vec<f32>> = (0..3).map(|_| random.floats(7 + 2 * PAGE * size)).collect();
            let query = random.floats(size);
            for count in [1, 2, 31, 32, 33, 96] {
                let out = both(&|isa| {
                    let mut out = vec![0.0; size];
                    attend(isa, &pages, place, &query, count, &mut Vec::new(), &mut out);
                    out
                });
                // The same from the definition, in f64.
                let scores: Vec<f64> = (0..count)
                    .map(|key| {
                        let page = &pages[key / PAGE];
                        (0..size)
                            .map(|d| f64::from(query[d]) * f64::from(page[7 + PAGE * d + key % PAGE]))
                            .fold(0.0, |a, b| a + b)
                    })
                    .collect();
                let weights: Vec<f64> = scores.iter().map(|&score| quillmate_sampler::exp(score)).collect();
                let sum = weights.iter().fold(0.0, |a, b| a + b);
                for (d, &out) in out.iter().enumerate() {
                    let exact = (0..count).fold(0.0, |total, key| {
                        total + weights[key] / sum * f64::from(pages[key / PAGE][7 + (PAGE + key % PAGE) * size + d])
                    });
                    assert!((f64::from(out) - exact).abs() < 1e-5);
                }
            }
        }
    }

    #[test]
    fn elementary_functions_are_what_they_say() {
        for step in -86_999..88_000 {
            let x = step as f32 * 0.001;
            let exact = quillmate_sampler::exp(f64::from(x));
            assert!((f64::from(exp(x)) / exact - 1.0).abs() < 2.5e-7, "{x}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-1e9), exp(-87.0));
        for step in 0..100_000 {
            let angle = f64::from(step) * 0.081_92;
            let (cos, sin) = cos_sin(angle);
            assert!((f64::from(cos) - angle.cos()).abs() < 6e-8 && (f64::from(sin) - angle.sin()).abs() < 6e-8);
        }
        for base in [1.0, 2.0, 10_000.0, 100_000.0, 1e6, 1e12] {
            assert_eq!(inverse_power(base, 0.0), 1.0);
            assert!((inverse_power(base, 1.0) * base - 1.0).abs() < 1e-13);
            assert!((inverse_power(base, 0.5) * base.sqrt() - 1.0).abs() < 1e-13);
        }
    }
}
