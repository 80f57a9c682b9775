//! The natural logarithm, correctly rounded: the only `ln` in this crate.
//!
//! It is called once per row (ln of the normalizing sum, for entropy), so it uses integers only, without a fast phase.
//!
//! Write x = 2^k·m with m in [√½, √2), z = (m − 1)/(m + 1), |z| ≤ 0.1716. Then ln x = k·ln 2 + 2·z·P with
//! P = Σ z^(2i)/(2i + 1) (Gregory's series for the inverse hyperbolic tangent), i ≤ 25: the first term left out is
//! below 2^-137.
//!
//! * z = s·2^-e with s in [1, 2): 126 fraction bits, cut (error 1 unit of 2^-126).
//! * P by a Horner scheme: each step errs by at most 2 units and passes on less than 0.03 of what came before.
//! * s·P < 2.02 errs by less than 7 units of 2^-126. For k = 0 it is the result up to a power of two, so the relative
//!   error is below 2^-122, also next to 1 where ln is small.
//! * For k ≠ 0 the sum is made with F = 125 − ⌈log2(|k| + 1)⌉ fraction bits, ln 2 from 190. It errs by less than 4 units,
//!   and |ln x| > 0.5·|k|·ln 2: relative error below 2^-121.
//!
//! The hardest arguments of ln in double precision come as near as 2^-118 to a double or a midpoint, relatively (Lefèvre & Muller,
//! "Worst cases for correct rounding of the elementary functions in double precision", ARITH-15, 2001). An exact tie is
//! impossible: ln x of a rational x ≠ 1 is transcendental (Lindemann).

use super::exp::{LN2, LN2_NEXT, multiply};

/// ln x, rounded to the nearest double, for every double.
///
/// `ln(0)` is −∞, `ln(+inf)` is +∞; NaN below 0 and for NaN.
///
/// ```
/// assert_eq!(quillmate_sampler::ln(1.0), 0.0);
/// assert_eq!(quillmate_sampler::ln(2.0).to_bits(), 0x3fe6_2e42_fefa_39ef);
/// ```
#[must_use]
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // x = significand·2^exponent, the significand of 53 bits.
    let bits = x.to_bits();
    let (mut significand, mut exponent) = (bits & ((1 << 52) - 1), (bits >> 52) as i32 - 1075);
    if exponent == -1075 {
        let shift = significand.leading_zeros() - 11;
        significand <<= shift;
        exponent = -1074 - shift as i32;
    } else {
        significand |= 1 << 52;
    }
    // The significand of √2: above it, half of x is nearer to a power of two.
    let half = if significand > 0x16_a09e_667f_3bcc { 53 } else { 52 };
    let (k, one) = (exponent + half, 1u64 << half);
    let (negative, difference) = (significand < one, significand.abs_diff(one));
    if difference == 0 && k == 0 {
        return 0.0;
    }
    // ln m = ±tail·2^-(125 + e).
    let (tail, e) = if difference == 0 { (0, 0) } else { atanh2(difference, significand + one) };
    if k == 0 {
        return round(tail, 125 + e, negative);
    }
    let fraction = 125 - (32 - k.unsigned_abs().leading_zeros());
    let multiple = {
        let k = u128::from(k.unsigned_abs());
        let (high, low) = (k * (LN2 >> 64), k * (LN2 & u128::from(u64::MAX)) + ((k * u128::from(LN2_NEXT)) >> 64));
        // k·ln 2 with 126 fraction bits is below 2^137: cut to `fraction` of them without leaving 128 bits.
        let cut = 126 - fraction;
        ((high + (low >> 64)) << (64 - cut)) | ((low & u128::from(u64::MAX)) >> cut)
    };
    let tail = shift_right(tail, 125 + e - fraction) as i128;
    let multiple = multiple as i128;
    let sum = if k < 0 { -multiple } else { multiple } + if negative { -tail } else { tail };
    round(sum.unsigned_abs(), fraction, sum < 0)
}

/// 2·atanh(a/b) = t·2^-(125 + e) as (t, e), for 0 < a/b ≤ 0.1716, a and b below 2^55.
fn atanh2(a: u64, b: u64) -> (u128, u32) {
    // z = s·2^-e, s in [1, 2) with 126 fraction bits.
    let mut e = 0;
    let mut numerator = a;
    while numerator < b {
        numerator <<= 1;
        e += 1;
    }
    let s = quotient(numerator, b, 9);
    let square = shift_right(multiply(s, s >> 1), 2 * e - 1);
    let mut p = quotient(1, 51, 42);
    let mut i = 25;
    while i > 0 {
        i -= 1;
        p = quotient(1, 2 * i + 1, 42) + multiply(p, square);
    }
    // 2·s·P·2^-e with 126 fraction bits is s·P with 125.
    (multiply(p, s >> 1) << 1, e)
}

/// a·2^126/b, rounded down: digit by digit of so many bits, which divide 126; a < 2b, b·2^bits ≤ 2^64.
fn quotient(a: u64, b: u64, bits: u32) -> u128 {
    let (mut quotient, mut rest) = (u128::from(a / b), a % b);
    for _ in 0..126 / bits {
        rest <<= bits;
        quotient = quotient << bits | u128::from(rest / b);
        rest %= b;
    }
    quotient
}

/// As `>>`, and 0 where all bits are shifted out.
fn shift_right(value: u128, by: u32) -> u128 {
    value.checked_shr(by).unwrap_or(0)
}

/// ±value·2^-fraction, rounded to nearest. The results of ln are never subnormal: the smallest is 2^-53.
fn round(value: u128, fraction: u32, negative: bool) -> f64 {
    let length = 128 - value.leading_zeros();
    let lost = length - 53;
    let significand = ((value >> (lost - 1)) + 1) >> 1;
    // The leading bit of the significand adds one to the exponent field; a carry to 2^53 adds another.
    let field = (1022 + length as i32 - fraction as i32 - 1) as u64;
    let magnitude = (field << 52) + significand as u64;
    f64::from_bits(magnitude | u64::from(negative) << 63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(-0.0), f64::NEG_INFINITY);
        assert_eq!(ln(f64::INFINITY), f64::INFINITY);
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan() && ln(f64::NEG_INFINITY).is_nan());
        assert_eq!(ln(1.0).to_bits(), 0);
    }

    /// The argument whose logarithm lies nearest to a double or the midpoint of two (Lefèvre & Muller).
    #[test]
    fn the_hardest_case() {
        assert_eq!(ln(f64::from_bits(0x6a56_2a88_6136_29b6)).to_bits(), 0x407d_6479_eba7_c971);
    }
}
