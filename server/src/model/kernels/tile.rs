//! Dot products of rows with a tile: eight columns of quantized weights, side by side.

use half::f16;

use super::activations::Activations;
use super::isa::{Isa, Kind};

/// Columns of a matrix that lie side by side.
pub const TILE: usize = 8;

/// Block b of eight columns of 4-bit weights: column c's value i is `d[c] * q + m[c]`. Byte 32v + 4c + i holds column c's
/// values 4v + i (low half) and 16 + 4v + i (high half).
#[derive(Debug, Clone)]
#[repr(C, align(32))]
pub struct Nibbles {
    pub q: [u8; 128],
    pub d: [f16; TILE],
    pub m: [f16; TILE],
}

/// Block b of eight columns of 8-bit weights: column c's value i is `d[c] * q`. Byte 32v + 4c + i holds column c's value
/// 4v + i.
#[derive(Debug, Clone)]
#[repr(C, align(16))]
pub struct Bytes {
    pub q: [i8; 256],
    pub d: [f16; TILE],
}

/// A tile's kernel for R rows: for each row, eight columns' dot products.
pub trait Kernel: Sized {
    fn plain(tile: &[Self], row: &[Activations]) -> [f32; TILE];
    /// To be called where AVX2 and F16C are.
    #[cfg(target_arch = "x86_64")]
    unsafe fn avx2<const R: usize>(tile: &[Self], rows: [&[Activations]; R], out: &mut [[f32; TILE]; R]);
}

/// As many rows at once as registers allow: a block's weights are unpacked once for four rows.
pub fn rows_by_four<K: Kernel>(isa: Isa, tile: &[K], rows: &[Activations], out: &mut [f32]) {
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
