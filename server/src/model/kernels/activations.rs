//! Activations, quantized to 8 bits in blocks as ggml does it.

use super::isa::{Isa, compiled_for};

/// Values in a block, of weights and of activations alike.
pub const BLOCK: usize = 32;

/// A block of 32 activations, like ggml's `block_q8_1` with its two scales in f32: value i is about `d * q[i]`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub struct Activations {
    /// Numbers from −127 to 127; never −128, which the signed kernels could not negate.
    pub(super) q: [i8; BLOCK],
    /// The largest magnitude over 127.
    pub(super) d: f32,
    /// `d` times the sum of `q`: what a block's minimum is multiplied with.
    pub(super) s: f32,
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

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, quantized};
    use super::*;

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
}
