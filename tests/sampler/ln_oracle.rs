//! ln against CORE-MATH (Zimmermann et al., <https://core-math.gitlabpages.inria.fr>), which is correctly rounded.

use crate::oracle;
use quillmate_sampler::{exp, ln};

fn compare(seed: u64, count: u64, argument: impl Fn(u64) -> f64) {
    oracle::compare(ln, core_math::log, seed, count, argument);
}

#[test]
fn any_bits_at_all() {
    compare(1, 1_000_000, f64::from_bits);
}

#[test]
fn sums_of_weights() {
    // 1 to 2^18: what a row of logits sums to.
    compare(2, 1_000_000, |bits| f64::from_bits((bits & !(0xfff << 52)) | ((1023 + bits % 18) << 52)));
}

#[test]
fn arguments_near_one() {
    // 1 ± m·2^-e: ln is small, and its relative error shows.
    compare(3, 1_000_000, |bits| {
        let distance =
            (bits >> 12) as f64 * f64::from_bits((1023 - 53 - bits % 54) << 52) * f64::from_bits(0x3e70_0000_0000_0000);
        if bits & (1 << 11) == 0 { 1.0 + distance } else { 1.0 - distance }
    });
}

#[test]
fn subnormal_arguments() {
    compare(4, 200_000, |bits| f64::from_bits(bits >> (12 + bits % 40)));
}

/// x = RN(e^y) for y with few bits beyond a midpoint: results as near to a midpoint as a double argument allows.
#[test]
fn arguments_near_a_midpoint() {
    compare(5, 1_000_000, |bits| {
        let x = exp(f64::from_bits((bits & !(0xfff << 52)) | ((1023 - bits % 60) << 52)) * 700.0 % 700.0);
        f64::from_bits(x.to_bits().wrapping_add(bits >> 11 & 3).wrapping_sub(1))
    });
}

#[test]
fn powers_of_two() {
    for exponent in 1..2047u64 {
        let x = f64::from_bits(exponent << 52);
        assert_eq!(ln(x).to_bits(), core_math::log(x).to_bits(), "ln({x:e})");
    }
}
