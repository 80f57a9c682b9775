//! SplitMix64 streams addressed by (seed, step, stream), without mutable state.
//!
//! The generator is that of Steele, Lea & Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, with
//! the constants of Vigna's reference code (<https://prng.di.unimi.it/splitmix64.c>). Stream 0 is its output sequence.

/// The golden gamma: 2^64 divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// Streams a run draws from. A number is never reused for another purpose.
pub mod streams {
    /// The tokens of a run.
    pub const TOKENS: u64 = 0;
    /// Acceptance of a draft token.
    pub const ACCEPTANCE: u64 = 1;
    /// Resampling after a rejection.
    pub const RESAMPLING: u64 = 2;
    /// A draft model's own tokens.
    pub const DRAFT: u64 = 3;
    /// Whether XTC acts.
    pub const XTC: u64 = 4;
}

fn mix64(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn base(seed: u64, stream: u64) -> u64 {
    if stream == 0 {
        return seed;
    }
    mix64((seed ^ mix64(stream.wrapping_add(GAMMA))).wrapping_add(GAMMA))
}

/// The 64 bits at (seed, step, stream): output number `step` (from 0) of that stream.
///
/// ```
/// assert_eq!(quillmate_sampler::draw(0, 0, 0), 16294208416658607535);
/// ```
#[must_use]
pub fn draw(seed: u64, step: u64, stream: u64) -> u64 {
    mix64(base(seed, stream).wrapping_add(step.wrapping_add(1).wrapping_mul(GAMMA)))
}

/// The uniform number at (seed, step, stream): the top 53 bits of [`draw`], times 2^−53. In [0, 1), exact.
///
/// ```
/// assert_eq!(quillmate_sampler::uniform(42, 0, 0), 0.7415648787718233);
/// ```
#[must_use]
pub fn uniform(seed: u64, step: u64, stream: u64) -> f64 {
    (draw(seed, step, stream) >> 11) as f64 * f64::from_bits(0x3ca0_0000_0000_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs for seed 1234567, as published with the Rosetta Code task "Pseudo-random numbers/Splitmix64".
    #[test]
    fn stream_0_is_the_published_sequence() {
        let published: [u64; 5] =
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821];
        for (step, expected) in published.into_iter().enumerate() {
            assert_eq!(draw(1234567, step as u64, 0), expected, "step {step}");
        }
    }

    #[test]
    fn a_rounded_seed_is_another_run() {
        assert_eq!(draw((1 << 53) + 1, 0, 0), 386430782533759031);
        assert_eq!(draw(1 << 53, 0, 0), 14898857794701533647);
    }

    #[test]
    fn the_ends_of_every_argument_are_defined() {
        for arguments in [(0, 0, 0), (u64::MAX, u64::MAX, u64::MAX), (0, u64::MAX, 1), (u64::MAX, 0, 3)] {
            let u = uniform(arguments.0, arguments.1, arguments.2);
            assert!((0.0..1.0).contains(&u), "{arguments:?}: {u}");
        }
    }
}
