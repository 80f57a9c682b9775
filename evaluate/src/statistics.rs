//! The arithmetic of a paired comparison: means, and a bootstrap interval of a mean.
//!
//! The interval is Efron's percentile bootstrap (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, chapter
//! 13): draw as many values as there are, with replacement; take their mean; do so [`RESAMPLES`] times; of the sorted
//! means leave out [`TAIL`] at each end. What is drawn are *clusters*: the caller gives one value per prompt, since texts
//! of the same prompt are no independent evidence. Its randomness is the sampler's own stream, so the same values always
//! give the same interval.

use quillmate_sampler::{draw, streams};
use serde::Serialize;

/// How often the values are drawn anew.
pub const RESAMPLES: usize = 10_000;
/// How many of the sorted means are left out at each end: a fortieth, which leaves 95 %.
pub const TAIL: usize = RESAMPLES / 40;
/// The seed of the draws.
pub const SEED: u64 = 0;

/// A 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Whether 0 is outside.
    pub fn excludes_zero(self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sum = 0.0;
    for value in values {
        sum += value;
    }
    Some(sum / values.len() as f64)
}

/// The 95 % interval of the mean of values, one per cluster; `None` of fewer than two, which say nothing about their spread.
pub fn interval(values: &[f64], seed: u64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let count = values.len() as u64;
    let mut means = Vec::with_capacity(RESAMPLES);
    let mut step = 0;
    for _ in 0..RESAMPLES {
        let mut sum = 0.0;
        for _ in 0..count {
            sum += values[below(draw(seed, step, streams::TOKENS), count)];
            step += 1;
        }
        means.push(sum / count as f64);
    }
    means.sort_by(f64::total_cmp);
    Some(Interval { low: means[TAIL], high: means[RESAMPLES - 1 - TAIL] })
}

/// A number below `count` from 64 random bits: their product's upper half, which favours none by more than count · 2^-64.
fn below(bits: u64, count: u64) -> usize {
    ((u128::from(bits) * u128::from(count)) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use quillmate_sampler::uniform;

    #[test]
    fn a_mean_is_the_sum_by_the_number() {
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn a_constant_difference_has_an_interval_without_width() {
        for value in [0.0, 0.25, -3.0] {
            assert_eq!(interval(&[value; 60], SEED), Some(Interval { low: value, high: value }));
        }
        assert_eq!(interval(&[1.0], SEED), None);
        assert_eq!(interval(&[], SEED), None);
    }

    /// Of three values 0, 0, 3 a resample's mean is the number of threes drawn, which is binomial (3, 1/3): 0 with
    /// probability 8/27, 3 with 1/27, which is more than the fortieth that is left out.
    #[test]
    fn the_ends_are_those_of_the_distribution_worked_out_by_hand() {
        assert_eq!(interval(&[0.0, 3.0, 0.0], SEED), Some(Interval { low: 0.0, high: 3.0 }));
        // One six among nine zeros: P(at least 4 drawn) is 0.0128, P(at least 3) is 0.0702 (binomial (10, 1/10)).
        let mut ten = [0.0; 10];
        ten[4] = 10.0;
        assert_eq!(interval(&ten, SEED), Some(Interval { low: 0.0, high: 3.0 }));
    }

    /// The recorded values are those of `tests/recorded_interval.py`, which shares no code with this.
    #[test]
    fn a_seeded_interval_equals_the_recorded_one() {
        let values: Vec<f64> = (0..60).map(|at| uniform(7, at, 0) - 0.4).collect();
        let found = interval(&values, SEED).unwrap();
        assert_eq!((found.low, found.high), RECORDED);
        assert_ne!(interval(&values, 1), Some(found));
    }
    const RECORDED: (f64, f64) = (0.02205130551639915, 0.1666855223040026);

    /// Of many samples with a known mean the interval holds it nearly as often as it says (for 30 values the percentile
    /// bootstrap falls short by one to two hundredths).
    #[test]
    fn the_interval_covers_the_true_mean_as_often_as_it_says() {
        const SAMPLES: u64 = 300;
        let mut covered = 0;
        for sample in 0..SAMPLES {
            // Uniform on [0, 1), so the mean is 1/2.
            let values: Vec<f64> = (0..30).map(|at| uniform(100 + sample, at, 0)).collect();
            let Interval { low, high } = interval(&values, sample).unwrap();
            covered += u64::from(low <= 0.5 && 0.5 <= high);
        }
        // 0.94 · 300 = 282, and three standard deviations are 12.
        assert!((270..=296).contains(&covered), "{covered} of {SAMPLES}");
    }

    #[test]
    fn an_interval_that_touches_zero_does_not_exclude_it() {
        assert!(Interval { low: 0.1, high: 0.2 }.excludes_zero());
        assert!(Interval { low: -0.2, high: -0.1 }.excludes_zero());
        for (low, high) in [(0.0, 0.1), (-0.1, 0.0), (-0.1, 0.1), (0.0, 0.0)] {
            assert!(!Interval { low, high }.excludes_zero());
        }
    }

    #[test]
    fn every_place_is_drawn_equally_often() {
        let mut counts = [0; 7];
        for step in 0..70_000 {
            counts[below(draw(3, step, 0), 7)] += 1;
        }
        // 10,000 each, standard deviation 93.
        assert!(counts.iter().all(|count| (9_600..=10_400).contains(count)), "{counts:?}");
        assert_eq!((below(0, 7), below(u64::MAX, 7)), (0, 6));
    }
}
