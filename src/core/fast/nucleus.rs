//! The cut of top-p, found by sums over buckets of logits instead of sorting. The cost is linear in V.

use quillmate_kernels::rows::{BLOCK, Weighing, widened};

use super::level::Level;
use super::scratch::{Scratch, narrow};

/// The last token that is kept, by (logit high first, id low first).
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    logit: f64,
    id: u32,
}

impl Cut {
    /// Keeps every allowed token.
    pub const NONE: Self = Self { logit: f64::MIN, id: u32::MAX };

    /// Whether a token is kept.
    pub fn keeps(&self, logit: f64, id: u32) -> bool {
        logit > self.logit || logit == self.logit && id <= self.id
    }
}

/// Buckets of logits.
const BUCKETS: usize = 512;

/// Up to this many tokens are examined one by one.
const FEW: usize = 32;

/// About how many blocks are sampled for an estimate.
const SAMPLE: usize = 64;

/// The range of logits in which the cut is searched.
struct Bracket {
    lowest: f64,
    /// `None`: no upper limit.
    highest: Option<f64>,
}

/// The result of searching a bracket for the cut.
enum Looked {
    Outside,
    /// The cut is in the bracket, but the bound does not decide where.
    Unclear,
    Found(Cut),
}

impl Scratch {
    /// The cut of top-p below 1, for the sum of all weights `total`. Leaves the sums of the kept weights in `sums`.
    pub(super) fn cut(&mut self, level: &Level, top_p: f64, total: f64) -> Option<Cut> {
        let Weighing { highest, scale } = level.weighing;
        // The weights of all tokens below this sum to at most the rest, so the cut is not among them.
        let least = (1.0 - top_p) * total / level.length as f64;
        let range = (1.0 - floor_of_log2(least)) / scale;
        let wide = Bracket { lowest: highest - range, highest: None };
        let target = top_p * total;
        if self.picked_from.is_none()
            && let Some(bracket) = self.estimate(level, range, total - target)
        {
            match self.cut_within(level, &bracket, target) {
                Looked::Outside => {}
                Looked::Unclear => return None,
                Looked::Found(cut) => return Some(cut),
            }
        }
        match self.cut_within(level, &wide, target) {
            Looked::Found(cut) => Some(cut),
            Looked::Outside | Looked::Unclear => None,
        }
    }

    /// If many tokens are within `range` of the highest: a narrower bracket, estimated from a sample of the blocks, around
    /// the logit below which the weights add up to `rest`.
    fn estimate(&mut self, level: &Level, range: f64, rest: f64) -> Option<Bracket> {
        let highest = level.weighing.highest;
        let blocks = self.maxima.len();
        let likely = self.maxima.iter().filter(|maximum| **maximum >= highest - range).count();
        if blocks < 4 * SAMPLE || likely * 2 < blocks {
            return None;
        }
        let to_bucket = BUCKETS as f64 / range;
        let mut buckets = [(0.0, 0.0); BUCKETS + 1];
        let (mut looked_at, mut within) = (0, 0);
        for at in (0..blocks).step_by(blocks / SAMPLE) {
            let block = widened(level.row, at);
            level.vectors.weigh(&block, level.weighing, &mut self.weights);
            looked_at += BLOCK;
            for (logit, weight) in block.iter().zip(&self.weights) {
                let bucket = ((highest - logit) * to_bucket) as usize;
                let (sum, squares) = &mut buckets[if bucket < BUCKETS { bucket } else { BUCKETS }];
                *sum += weight;
                *squares += weight * weight;
                within += usize::from(bucket < BUCKETS);
            }
        }
        if within * 16 < looked_at {
            return None;
        }
        // The first bucket, from the lowest up, at which the sum below is reached, and the relative deviation of that sum.
        let rest = rest * looked_at as f64 / level.length as f64;
        let reach = |rest: f64| {
            let (mut sum, mut squares) = (0.0, 0.0);
            for (at, bucket) in buckets.iter().enumerate().rev() {
                sum += bucket.0;
                squares += bucket.1;
                if sum >= rest {
                    return (at, squares.sqrt() / sum);
                }
            }
            (0, 1.0)
        };
        let slack = 0.02 + 4.0 * reach(rest).1;
        if slack > 0.5 {
            return None;
        }
        let (first, last) = (reach(rest * (1.0 + slack)).0, reach(rest * (1.0 - slack)).0 + 1);
        let logit = |bucket: usize| highest - bucket as f64 / to_bucket;
        Some(Bracket { lowest: logit(last), highest: (first > 0).then(|| logit(first)) })
    }

    fn cut_within(&mut self, level: &Level, bracket: &Bracket, target: f64) -> Looked {
        // A list made by a coarser level can be reused.
        let picked_from = self.picked_from.filter(|_| bracket.highest.is_none());
        let lowest = picked_from.unwrap_or_else(|| narrow(level.row, bracket.lowest));
        let mut above = 0.0;
        match bracket.highest {
            None => {
                self.sums.clear();
                self.sums.resize(self.maxima.len(), 0.0);
                if picked_from.is_none() {
                    self.collect(level.vectors, level.row, lowest, f64::INFINITY);
                    self.picked_from = Some(lowest);
                }
            }
            Some(highest) => {
                // A pass over the row is useless if the tokens around the cut weigh less than the error.
                let power = (highest - level.weighing.highest) * level.weighing.scale;
                if power < floor_of_log2(level.bound.cut * target) {
                    return Looked::Unclear;
                }
                let highest = narrow(level.row, highest);
                above = self.sum(level, highest);
                self.collect(level.vectors, level.row, lowest, highest);
            }
        }
        level.vectors.weigh(&self.logits, level.weighing, &mut self.weights);
        if above > target {
            return Looked::Outside;
        }
        let Some((at, before)) = self.reach(target, above, lowest, bracket.highest.unwrap_or(level.weighing.highest))
        else {
            return Looked::Outside;
        };

        // The cut is where the sums say, whatever the errors; the first token of all is kept even if none is needed.
        let (bound, delta) = (&level.bound, level.bound.cut);
        let clear = before == 0.0 || bound.above(delta, before, target);
        if !(clear && bound.below(delta, before + self.weights[at], target)) {
            return Looked::Unclear;
        }
        // And the adjacent logits must have different probabilities.
        let cut = Cut { logit: self.logits[at], id: self.ids[at] };
        let (mut next, mut previous) =
            (lowest, bracket.highest.map_or(f64::INFINITY, |logit| narrow(level.row, logit)));
        for &logit in &self.logits {
            let (below, above) =
                (if logit < cut.logit { logit } else { f64::MIN }, if logit > cut.logit { logit } else { f64::MAX });
            next = if below > next { below } else { next };
            previous = if above < previous { above } else { previous };
        }
        let x = |logit: f64| (logit - level.weighing.highest) / level.temperature;
        // 2^-48.
        const GAP: f64 = f64::EPSILON * 16.0;
        if !(x(cut.logit) > -600.0 && x(cut.logit) - x(next) >= GAP && x(previous) - x(cut.logit) >= GAP) {
            return Looked::Unclear;
        }
        for ((&id, &logit), weight) in self.ids.iter().zip(&self.logits).zip(&self.weights) {
            if cut.keeps(logit, id) {
                self.sums[id as usize / BLOCK] += weight;
            }
        }
        Looked::Found(cut)
    }

    /// The first of the picked tokens, by (logit high first, id low first), at which the sum of their weights and `above`
    /// reaches `target`, and the sum before it. Their logits lie from `lowest` to `highest`, or a rounding above.
    fn reach(&mut self, target: f64, above: f64, lowest: f64, highest: f64) -> Option<(usize, f64)> {
        let Self { ids, logits, weights, open, .. } = self;
        let logit = |at: u32| logits[at as usize];
        let mut before = above;
        open.clear();
        open.extend(0..ids.len() as u32);
        // Each round leaves a 512th of the range. Adversarially clustered logits could need more rounds: the contract decides.
        let (mut lowest, mut highest) = (lowest, highest);
        for round in 0..8 {
            if open.len() <= FEW {
                // Ids ascend: the first of the highest comes first.
                while !open.is_empty() {
                    let mut first = 0;
                    for (place, &at) in open.iter().enumerate() {
                        first = if logit(at) > logit(open[first]) { place } else { first };
                    }
                    let at = open.remove(first) as usize;
                    let after = before + weights[at];
                    if after >= target {
                        return Some((at, before));
                    }
                    before = after;
                }
                return None;
            }
            if round > 0 {
                (lowest, highest) = (f64::INFINITY, f64::NEG_INFINITY);
                for &at in &*open {
                    let logit = logit(at);
                    lowest = if logit < lowest { logit } else { lowest };
                    highest = if logit > highest { logit } else { highest };
                }
            }
            if lowest == highest {
                let weight = weights[open[0] as usize];
                let passed = ((target - before) / weight) as usize;
                return open.get(passed).map(|&at| (at as usize, before + passed as f64 * weight));
            }
            let to_bucket = (BUCKETS - 1) as f64 / (highest - lowest);
            let bucket = |at: u32| {
                let bucket = ((highest - logit(at)) * to_bucket) as usize;
                if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
            };
            let mut sums = [0.0; BUCKETS];
            for &at in &*open {
                sums[bucket(at)] += weights[at as usize];
            }
            let found = sums.iter().position(|sum| {
                let after = before + sum;
                let found = after >= target;
                before = if found { before } else { after };
                found
            })?;
            open.retain(|&at| bucket(at) == found);
        }
        None
    }
}

/// A number at or below log2 x, off by less than 0.09; x normal and positive.
fn floor_of_log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    ((bits >> 52 & 0x7ff) as f64 - 1023.0) + (mantissa - 1.0)
}

#[cfg(test)]
mod tests {
    use super::super::level::Bound;
    use super::super::scratch::total;
    use super::*;
    use crate::core::distribution::distribution;
    use crate::core::ln::ln;
    use crate::core::logits::Logit;
    use crate::core::settings::Settings;
    use crate::core::splitmix::{draw, uniform};
    use quillmate_kernels::rows::{Precision, Vectors};

    #[test]
    fn the_logarithm_is_below_and_near() {
        for at in 0..100_000 {
            let x = f64::from_bits(draw(1, at, 0) >> 1).clamp(f64::MIN_POSITIVE, f64::MAX);
            let below = ln(x) / std::f64::consts::LN_2 - floor_of_log2(x);
            assert!((-1e-12..0.09).contains(&below) || x.is_nan(), "{x:e}: {below}");
        }
        assert_eq!([0.25, 1.0, 3.0, 1024.0].map(floor_of_log2), [-2.0, 0.0, 1.5, 10.0]);
    }

    /// Compared with sorting and adding up. The weights are integers, so that every order of additions gives the same sums, and
    /// the targets lie between them.
    #[test]
    fn what_is_reached_is_what_a_walk_over_sorted_tokens_reaches() {
        let mut scratch = Scratch::default();
        let mut reached = 0;
        for case in 0..600u64 {
            let random = |at: u64| uniform(case, at, 0);
            let count = [1, 2, 31, 32, 33, 100, 700, 3000][(case % 8) as usize];
            let logit = |at: u64| match case / 8 % 5 {
                0 => random(at) * 20.0 - 10.0,
                // Few values, so that many tokens are equal.
                1 => (random(at) * 4.0).floor(),
                2 => 1.5,
                // Two distant clusters, so that one round does not split a cluster.
                3 => random(at) * 1e-6 + if at.is_multiple_of(3) { 1e6 } else { -1e6 },
                // Most tokens in a cluster within a cluster.
                _ => random(at) * [1.0, 1e-4, 1e-8, 1e-12][(at % 4) as usize],
            };
            scratch.ids = (0..count).map(|at| at as u32 * 3).collect();
            scratch.logits = (0..count).map(logit).collect();
            // Equal logits have equal weights.
            scratch.weights = scratch.logits.iter().map(|logit| ((logit.to_bits() >> 20) % 5 + 1) as f64).collect();
            let mut order: Vec<usize> = (0..count as usize).collect();
            order.sort_by(|a, b| scratch.logits[*b].total_cmp(&scratch.logits[*a]).then(a.cmp(b)));
            let (lowest, highest) = (scratch.logits[order[order.len() - 1]], scratch.logits[order[0]]);
            let sum: f64 = scratch.weights.iter().sum();
            for part in [0.0, 0.001, 0.1, 0.3, 0.5, 0.77, 0.95, 0.999, 1.1] {
                let above = if case.is_multiple_of(2) { 0.0 } else { 17.0 };
                let target = above + (part * sum).floor() + 0.5;
                let mut before = above;
                let expected = order.iter().find_map(|&at| {
                    let found = before + scratch.weights[at] >= target;
                    before += if found { 0.0 } else { scratch.weights[at] };
                    found.then_some((at, before))
                });
                for margin in [0.0, 0.75] {
                    let found = scratch.reach(target, above, lowest - margin, highest + margin);
                    assert_eq!(found, expected, "case {case}, {count} tokens, {part} of {sum}");
                }
                reached += usize::from(expected.is_some());
            }
        }
        assert!(reached > 4000);
    }

    fn bell(length: usize, seed: u64, width: f64) -> Vec<f32> {
        let normal = |at: u64| (0..12).map(|stream| uniform(seed, at, stream)).sum::<f64>() - 6.0;
        (0..length as u64).map(|at| (normal(at) * width) as f32).collect()
    }

    /// Shows a level of a row and the sum of its weights.
    fn looked_at(
        scratch: &mut Scratch,
        row: &[f32],
        temperature: f64,
        precision: Precision,
        see: impl FnOnce(&mut Scratch, &Level, f64),
    ) {
        let numbers = f32::numbers(row);
        let highest = scratch.scan(Vectors::widest(), numbers).expect("a good row");
        let weighing = Weighing { highest, scale: std::f64::consts::LOG2_E / temperature };
        let bound = Bound::new(precision, row.len());
        let level = Level {
            vectors: Vectors::widest(),
            row: numbers,
            length: row.len(),
            weighing,
            temperature,
            precision,
            bound,
        };
        scratch.picked_from = None;
        let sum = scratch.sum(&level, f64::NEG_INFINITY);
        see(scratch, &level, sum);
    }

    fn last_kept(row: &[f32], temperature: f64, top_p: f64) -> (f64, u32) {
        let kept = distribution(row, &Settings::new(temperature, 0, top_p).expect("valid")).expect("good");
        let rank = |id: &u32| (f64::from(row[*id as usize]), *id);
        kept.ids().iter().map(rank).min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))).expect("one at least")
    }

    /// In a long row with many likely tokens the cut is searched, and found, where a sample of the row predicts it.
    #[test]
    fn a_long_row_is_cut_where_its_sample_says() {
        let mut scratch = Scratch::default();
        for (length, seed) in [(16_384, 1), (20_000, 2), (50_001, 3)] {
            let row = bell(length, seed, 1.0);
            for top_p in [0.3, 0.5, 0.8, 0.9, 0.95, 0.99] {
                let expected = last_kept(&row, 1.0, top_p);
                for precision in [Precision::Coarse, Precision::Fine] {
                    looked_at(&mut scratch, &row, 1.0, precision, |scratch, level, sum| {
                        let target = top_p * sum;
                        let least = (1.0 - top_p) * sum / length as f64;
                        let range = -floor_of_log2(least) / level.weighing.scale;
                        let bracket =
                            scratch.estimate(level, range, sum - target).expect("there are many likely tokens");
                        let highest = bracket.highest.unwrap_or(level.weighing.highest);
                        assert!(
                            bracket.lowest <= expected.0 && expected.0 <= highest,
                            "{length} {top_p}: {expected:?}"
                        );
                        assert!(
                            highest - bracket.lowest < range / 6.0,
                            "{length} {top_p}: {} to {highest}",
                            bracket.lowest
                        );
                        let Looked::Found(cut) = scratch.cut_within(level, &bracket, target) else {
                            assert!(precision == Precision::Coarse, "{length} {top_p}");
                            return;
                        };
                        assert_eq!((cut.logit, cut.id), expected, "{length} {top_p}");
                        let kept = total(&scratch.sums);
                        assert!((kept / sum - top_p).abs() < 1e-2, "{length} {top_p}: {kept} of {sum}");
                    });
                }
            }
        }
    }

    /// No sample is taken of a short row, of one with few likely tokens, and of one whose likely tokens are in few blocks.
    #[test]
    fn where_little_is_likely_no_sample_is_taken() {
        let mut scratch = Scratch::default();
        let mut one_peak = vec![-40.0f32; 32_768];
        one_peak[5] = 3.0;
        let mut a_peak_a_block = one_peak.clone();
        for at in (0..32_768).step_by(BLOCK) {
            a_peak_a_block[at] = 2.0;
        }
        for row in [bell(16_320, 4, 1.0), one_peak, a_peak_a_block] {
            looked_at(&mut scratch, &row, 1.0, Precision::Fine, |scratch, level, sum| {
                assert!(scratch.estimate(level, 12.0, 0.1 * sum).is_none());
                let cut = scratch.cut(level, 0.9, sum).expect("a clear cut");
                assert_eq!((cut.logit, cut.id), last_kept(&row, 1.0, 0.9));
            });
        }
    }

    /// Rows like a model's are cut without the contract's arithmetic.
    #[test]
    fn the_cut_is_found_without_the_contract() {
        let mut scratch = Scratch::default();
        for length in [2, 40, 300, 5000, 20_000] {
            for seed in 10..20 {
                let temperature = [0.25, 1.0, 4.0][seed as usize % 3];
                let row = bell(length, seed, 2.0 * temperature);
                for top_p in [0.1, 0.5, 0.9, 0.99, 0.9999] {
                    looked_at(&mut scratch, &row, temperature, Precision::Fine, |scratch, level, sum| {
                        let cut = scratch.cut(level, top_p, sum).expect("a clear cut");
                        assert_eq!((cut.logit, cut.id), last_kept(&row, temperature, top_p), "{length} {seed} {top_p}");
                    });
                }
            }
        }
    }
}
