//! Where top-p cuts: found by sums over buckets of logits, never by sorting a row. Cost is linear in V.

use quillmate_kernels::rows::{BLOCK, Weighing, widened};

use super::{Level, Numbers, Scratch};

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

/// So few tokens are taken one by one.
const FEW: usize = 32;

/// About so many blocks are looked at for an estimate.
const SAMPLE: usize = 64;

/// The logits among which the cut is looked for.
struct Bracket {
    lowest: f64,
    /// `None`: up to the highest.
    highest: Option<f64>,
}

/// What came of looking for the cut in a bracket.
enum Looked {
    Outside,
    /// It is there, but where exactly the bound does not say.
    Unclear,
    Found(Cut),
}

impl Scratch {
    /// The cut of top-p below 1, for the sum of all weights `total`. Leaves the sums of the kept weights in `sums`.
    pub(super) fn cut(&mut self, level: &Level, top_p: f64, total: f64) -> Option<Cut> {
        let Weighing { highest, scale } = level.weighing;
        // Tokens below this share what is left over among V at most, and so cannot hold the cut.
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

    /// Where many tokens are within `range` of the highest: a narrower bracket, guessed from a sample of the blocks, around
    /// the logit below which weights sum up to `rest`.
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
        // The first bucket, from the last one up, at which so much is below, and the relative deviation of that sum.
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
        // A list a coarser level made is good for this one.
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
                // Not worth a pass over the row where the tokens around the cut are lighter than the error.
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
        // And the neighbours of its logit have other probabilities.
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
        // Each round leaves a 512th of the range; logits clustered on purpose could need more, and are the contract's.
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

/// The nearest finite number of the row's type.
pub fn narrow(row: Numbers, value: f64) -> f64 {
    match row {
        Numbers::F32(_) => f64::from(value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32),
        Numbers::F64(_) => value.clamp(f64::MIN, f64::MAX),
    }
}

/// A number at or below log2 x, off by less than 0.09; x normal and positive.
fn floor_of_log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    ((bits >> 52 & 0x7ff) as f64 - 1023.0) + (mantissa - 1.0)
}
