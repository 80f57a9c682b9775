//! Attention: rotary embedding, keys and values in pages, and the softmax over them.

use super::elementary::exp;
use super::isa::{Isa, Kind};

/// Positions in a page of keys and values.
pub const PAGE: usize = 32;
/// Heads are computed by this many dimensions at a time, and their size must be a multiple of it.
pub const HEAD_UNIT: usize = 64;

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

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, both_ways};
    use super::*;

    #[test]
    fn attention_is_a_softmax_and_has_the_same_bits_both_ways() {
        let mut random = Random(4);
        for size in [64, 128] {
            let place = Place { at: 7, size };
            let pages: Vec<Vec<f32>> = (0..3).map(|_| random.floats(7 + 2 * PAGE * size)).collect();
            let query = random.floats(size);
            for count in [1, 2, 31, 32, 33, 96] {
                let out = both_ways(|isa| {
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
}
