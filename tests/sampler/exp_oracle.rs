//! exp against CORE-MATH (Zimmermann et al., <https://core-math.gitlabpages.inria.fr>), which is correctly rounded.

use crate::oracle;
use quillmate_sampler::exp;

fn compare(seed: u64, count: u64, argument: impl Fn(u64) -> f64) {
    oracle::compare(exp, core_math::exp, seed, count, argument);
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn weights_of_usual_logits() {
    compare(1, 6_000_000, |bits| -40.0 * unit(bits));
}

#[test]
fn the_whole_range() {
    compare(2, 4_000_000, |bits| -746.0 * unit(bits));
}

#[test]
fn subnormal_results() {
    compare(3, 1_000_000, |bits| -745.2 + 37.0 * unit(bits));
}

#[test]
fn positive_arguments() {
    compare(4, 1_000_000, |bits| 710.0 * unit(bits));
}

#[test]
fn any_bits_at_all() {
    compare(5, 1_000_000, f64::from_bits);
}

#[test]
fn arguments_near_zero() {
    // Exponents from 2^-70 to 1: the fast phase, the cut at 2^-54 and both signs.
    compare(6, 1_000_000, |bits| f64::from_bits((bits & !(0x7ff << 52)) | ((953 + bits % 71) << 52)));
}

/// x = RN(ln(midpoint of two neighbouring doubles)): results as near to a midpoint as a double argument allows.
#[test]
fn arguments_near_a_midpoint() {
    // ln by the platform is good enough: its neighbours are tried too.
    #[expect(clippy::disallowed_methods, reason = "makes arguments, not results")]
    fn argument(bits: u64) -> f64 {
        let value = f64::from_bits(bits % 0x3ff0_0000_0000_0000);
        let step = (bits >> 32) % 3;
        f64::from_bits(value.ln().to_bits().wrapping_add(step).wrapping_sub(1))
    }
    compare(7, 1_000_000, argument);
}

#[test]
fn the_ends() {
    for (x, expected) in [
        (0.0, 1.0),
        (-0.0, 1.0),
        (f64::NEG_INFINITY, 0.0),
        (f64::INFINITY, f64::INFINITY),
        (-f64::MAX, 0.0),
        (f64::MAX, f64::INFINITY),
        (-f64::from_bits(1), 1.0),
        // The last argument whose result rounds to the least subnormal, and its neighbour below.
        (f64::from_bits(0xc087_4910_d52d_3051), f64::from_bits(1)),
        (f64::from_bits(0xc087_4910_d52d_3052), 0.0),
        // The last finite result.
        (f64::from_bits(0x4086_2e42_fefa_39ef), f64::from_bits(0x7fef_ffff_ffff_ff2a)),
        (f64::from_bits(0x4086_2e42_fefa_39f0), f64::INFINITY),
    ] {
        assert_eq!(exp(x).to_bits(), expected.to_bits(), "exp({x:e})");
        assert_eq!(core_math::exp(x).to_bits(), expected.to_bits(), "the oracle at {x:e}");
    }
    assert!(exp(f64::NAN).is_nan());
}
