//! Elementary functions, each the same everywhere.

/// e^x in f32 for x from −87 to 88, beyond which it is as at the ends: x = n·ln 2 + r, and Cephes' polynomial of degree 7
/// (`expf.c`, S. L. Moshier) in r. Within 2 units in the last place; what matters here is that it is the same everywhere.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
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

/// base^(−exponent) for a base from 1 to 10^12 and an exponent from 0 to 1, by the sampler's correctly rounded exp and ln.
#[must_use]
pub fn inverse_power(base: f64, exponent: f64) -> f64 {
    quillmate_sampler::exp(-exponent * quillmate_sampler::ln(base))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// `inverse_power` once had a logarithm of its own, by Newton's method on e^y = base, and runs are stored that were
    /// written with it. The two logarithms may differ in the last places of f64, but frequencies are rounded to f32. Among
    /// the bases below, which hold those of known models, none has a frequency of other bits. Bases that are no round
    /// numbers can have one: 48153.1484375 does, in one of the 128 of a head of 256 dimensions.
    #[test]
    fn frequencies_keep_the_bits_they_had_under_another_logarithm() {
        let newton = |base: f64| {
            let mut ln = 28.0;
            for _ in 0..40 {
                ln += base * quillmate_sampler::exp(-ln) - 1.0;
            }
            ln
        };
        let mut other_logarithms = 0;
        for base in (1..=10_000).chain((1..=10_000).map(|thousands| thousands * 1000)) {
            let base = f64::from(base);
            let ln = newton(base);
            if ln.to_bits() == quillmate_sampler::ln(base).to_bits() {
                continue;
            }
            other_logarithms += 1;
            // Of heads of 64, 128 and 256 dimensions.
            for pair in 0..128 {
                let exponent = 2.0 * f64::from(pair) / 256.0;
                let before = quillmate_sampler::exp(-exponent * ln) as f32;
                assert_eq!((inverse_power(base, exponent) as f32).to_bits(), before.to_bits(), "{base} {pair}");
            }
        }
        assert!(other_logarithms > 0, "nothing was compared");
    }
}
