//! Compares a function of the crate with a correctly rounded one.

use quillmate_sampler::draw;

/// Compares on `count` arguments made from the stream of a seed.
pub fn compare(ours: fn(f64) -> f64, oracle: fn(f64) -> f64, seed: u64, count: u64, argument: impl Fn(u64) -> f64) {
    let mut compared = 0u64;
    for step in 0..count {
        let x = argument(draw(seed, step, 0));
        let (ours, oracle) = (ours(x), oracle(x));
        assert!(
            ours.to_bits() == oracle.to_bits() || (ours.is_nan() && oracle.is_nan()),
            "at {x:e} (bits {:#018x}): {ours:e}, but the oracle says {oracle:e}",
            x.to_bits()
        );
        compared += 1;
    }
    assert_eq!(compared, count);
}
