//! The contract's token without the contract's arithmetic: weights are computed approximately, in vectors and in any
//! order, and a bound on the error decides. Where a decision does not clear the bound, the next, more exact level is asked;
//! the last level is the contract itself.
//!
//! **Levels.** *Coarse* computes block sums in f32, *fine* in f64. A level computes the sum P̃ of all weights, block by
//! block; where top-p is on, the place of the cut; then the block of the running sums in which u·P̃ falls, and the token
//! in it. Weights of single tokens are always fine. Greedy needs comparisons alone. Under top-k the k best are found
//! by comparisons alone, and the contract's own steps run on those.
//!
//! **Errors.** ε = 2^-53, e = 2^-24; W_i the contract's weight, V the length of the row, B = ⌈V/64⌉.
//!
//! * y = (l − m)·c for (l − m)/T·log2 e. The subtraction is the contract's. Its division errs by ε, our product by ε, the
//!   constant c by 2ε: |y|·4ε, times ln 2 in the weight, below 2^-44 for |y| ≤ 90. With the polynomial's 2^-40.23 + 2^-51,
//!   the contract's rounding of W and the sum over a block (6 levels of a tree, 6ε): η = 2^-40.
//! * Coarse, the difference, the constant and the product are rounded to f32: |y|·(3e + 5ε), times ln 2 below 2^-17.6 for
//!   |y| ≤ 40. The polynomial 2^-21.5, the sum over a block (8 additions in a lane, 3 across lanes) 11e: η = 2^-17.
//! * Weights below 2^-90 are off by less than themselves, and so are blocks that are skipped because their highest weight
//!   is below 2^-90; subnormal weights and probabilities are among them. Coarse weights below 2^-40 are off by a 2^16th
//!   of themselves. In two sums together less than V·2^-88 (coarse: V·2^-55), against a sum of at least 1: `negligible`.
//! * Our sums over blocks: B·ε. The contract's: S errs by V·ε at most, but cancels between q_i and r; p and q by one
//!   rounding each, S2 and r by V·ε each.
//!
//! So the contract's r_j is P̃_j/P̃·(1 ± (2η + (2V + B + 72)·ε)) ± negligible, and the token is j where
//! P̃_j·(1 − Δ) > u·P̃ + negligible and P̃_(j−1)·(1 + Δ) + negligible < u·P̃, with Δ = 2η + (2V + 2B + 512)·ε (1 in
//! 1024 more, for products of errors and for the roundings of the two tests). Running sums never fall, so no other token
//! needs to be looked at.
//!
//! **The cut of top-p** compares H/S with p, H the sum of the likeliest tokens up to one. S errs by V·ε, p by ε, the running
//! sum by V·ε; ours over the list, its buckets and the blocks by (V + B + 8000)·ε at most: Δ = 2η + (3V + B + 8192)·ε, with
//! the same 1 in 1024. The contract ranks
//! by probability and id, and so does the fast path as long as different logits near the cut have different
//! probabilities: with x = (l − m)/T as the contract computes it, x' − x ≥ 2^-48 makes W'/W ≥ 1 + 2^-49, from which four
//! roundings take 2^-51, so that p' and p lie more than a unit in the last place apart. Further from the cut probabilities
//! that coincide are on one side of it together.

mod nucleus;

pub use quillmate_kernels::rows::Vectors;
use quillmate_kernels::rows::{BLOCK, Precision, Weighing, widened};

use std::cell::Cell;

use super::distribution::{among, best, distribution};
use super::error::{LogitsError, SampleError};
use super::logits::{Logit, Numbers, Row};
use super::rank::{Rank, after, falling, number};
use super::settings::Settings;
use nucleus::{Cut, narrow};

/// Which code answers. No token depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The steps of the contract, one by one.
    Contract,
    /// The fast path, and the contract where it cannot decide.
    Fast(Vectors),
}

impl Path {
    /// The fast path with the widest vectors of this processor.
    #[must_use]
    pub fn best() -> Self {
        Self::Fast(Vectors::best())
    }

    /// Every path this processor can take.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let fast = [Some(Vectors::Baseline), Vectors::avx2()];
        [Self::Contract].into_iter().chain(fast.into_iter().flatten().map(Self::Fast)).collect()
    }
}

/// Who gave the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// Comparisons alone, or these and the contract's steps on the k best.
    Compared,
    /// Block sums in f32.
    Coarse,
    /// Block sums in f64.
    Fine,
    /// The contract's steps.
    Contract,
}

/// [`sample`](super::sample::sample) by a path of one's choice, and who decided.
///
/// # Errors
/// Those of `sample`.
pub fn sample_by<L: Logit>(
    path: Path,
    logits: &[L],
    settings: &Settings,
    u: f64,
) -> Result<(u32, Decided), SampleError> {
    if !settings.is_greedy() && !(0.0..1.0).contains(&u) {
        return Err(SampleError::Uniform(u.into()));
    }
    if let Path::Fast(vectors) = path {
        // Taken out while in use: a panic or a call from within finds an empty one, never a borrowed one.
        let mut scratch = SCRATCH.take();
        let decided = scratch.decide(vectors, L::numbers(logits), settings, u);
        SCRATCH.set(scratch);
        if let Some(decided) = decided {
            return Ok(decided);
        }
    }
    let token = if settings.is_greedy() { Row::new(logits)?.best() } else { distribution(logits, settings)?.walk(u) };
    Ok((token, Decided::Contract))
}

/// What [`Row::new`] checks, in vectors as long as nothing is wrong.
///
/// # Errors
/// Those of `Row::new`.
pub(crate) fn check<L: Logit>(logits: &[L]) -> Result<(), LogitsError> {
    let mut scratch = SCRATCH.take();
    let sound = scratch.scan(Vectors::best(), L::numbers(logits)).is_some();
    SCRATCH.set(scratch);
    if sound { Ok(()) } else { Row::new(logits).map(drop) }
}

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::new()) };
}

/// Memory that is kept from one token to the next, one of these a thread (in the wasm, one for all generators): V/4 bytes
/// for a row of V logits, with top-p 24 for each token that is picked out (these are few, and at most V, where very many
/// logits are equal), and with top-k about 64 for each of the k.
#[derive(Default)]
struct Scratch {
    /// The highest logit of each block.
    maxima: Vec<f64>,
    /// The sum of the kept weights of each block.
    sums: Vec<f64>,
    /// Tokens that were picked out, ids ascending: their ids, logits and weights.
    ids: Vec<u32>,
    logits: Vec<f64>,
    weights: Vec<f64>,
    /// Which of these are still in question.
    open: Vec<u32>,
    /// With top-k: what the k-th best is found among.
    ranked: Vec<Rank>,
    /// Where the picked tokens are all from some logit up: that logit.
    picked_from: Option<f64>,
}

/// Where the highest weights of all blocks sum up to more, a draw is decided coarsely too seldom to try.
const MANY: f64 = 256.0;

/// How far a level may be off.
struct Bound {
    /// 2η, and the roundings of running sums: of the walk, and of the cut.
    walk: f64,
    cut: f64,
    negligible: f64,
}

impl Bound {
    fn new(precision: Precision, length: usize) -> Self {
        const EPSILON: f64 = f64::EPSILON / 2.0;
        let (eta, each) = match precision {
            Precision::Fine => (f64::from_bits(0x3d70_0000_0000_0000), f64::from_bits(0x3a70_0000_0000_0000)),
            Precision::Coarse => (f64::from_bits(0x3ee0_0000_0000_0000), f64::from_bits(0x3c80_0000_0000_0000)),
        };
        let (v, b) = (length as f64, length.div_ceil(BLOCK) as f64);
        let more = 1.0 + 1.0 / 1024.0;
        Self {
            walk: (2.0 * eta + (2.0 * v + 2.0 * b + 512.0) * EPSILON) * more,
            cut: (2.0 * eta + (3.0 * v + b + 8192.0) * EPSILON) * more,
            negligible: v * each,
        }
    }

    /// Whether `target` certainly lies above a sum.
    fn above(&self, delta: f64, sum: f64, target: f64) -> bool {
        sum + sum * delta + self.negligible < target
    }

    /// Whether `target` certainly lies below a sum.
    fn below(&self, delta: f64, sum: f64, target: f64) -> bool {
        sum - sum * delta > target + self.negligible
    }
}

/// What the steps of a level share.
struct Level<'a> {
    vectors: Vectors,
    row: Numbers<'a>,
    length: usize,
    weighing: Weighing,
    temperature: f64,
    precision: Precision,
    bound: Bound,
}

impl Scratch {
    const fn new() -> Self {
        Self {
            maxima: Vec::new(),
            sums: Vec::new(),
            ids: Vec::new(),
            logits: Vec::new(),
            weights: Vec::new(),
            open: Vec::new(),
            ranked: Vec::new(),
            picked_from: None,
        }
    }

    /// The token and who decided; `None` where the contract must, and for a row that it refuses.
    fn decide(&mut self, vectors: Vectors, row: Numbers, settings: &Settings, u: f64) -> Option<(u32, Decided)> {
        let length = row.len();
        // Where there is none, the contract's steps find out what is wrong with the row.
        let highest = self.scan(vectors, row)?;
        if settings.is_greedy() {
            return self.first(row, highest).map(|token| (token, Decided::Compared));
        }
        let k = settings.top_k() as usize;
        if k > 0 && k < length {
            return Some((self.among_the_best(vectors, row, settings, u), Decided::Compared));
        }
        let temperature = settings.temperature();
        let scale = std::f64::consts::LOG2_E / temperature;
        // 2^-60 to 2^60.
        if !(8.673_617_379_884_035e-19..=1_152_921_504_606_846_976.0).contains(&scale) {
            return None;
        }
        let weighing = Weighing { highest, scale };
        vectors.weigh(&self.maxima, weighing, &mut self.weights);
        let spread = total(&self.weights);
        self.picked_from = None;
        let precisions = [Precision::Coarse, Precision::Fine];
        for precision in precisions.into_iter().skip(usize::from(spread > MANY)) {
            let bound = Bound::new(precision, length);
            let level = Level { vectors, row, length, weighing, temperature, precision, bound };
            if let Some(token) = self.attempt(&level, settings.top_p(), u) {
                let decided = if precision == Precision::Coarse { Decided::Coarse } else { Decided::Fine };
                return Some((token, decided));
            }
        }
        None
    }

    /// The highest logit, if the row is as it must be; `None` also where only a closer look can tell.
    fn scan(&mut self, vectors: Vectors, row: Numbers) -> Option<f64> {
        u32::try_from(row.len()).ok()?;
        vectors.scan(row, &mut self.maxima)
    }

    /// The lowest id with the highest logit.
    fn first(&self, row: Numbers, highest: f64) -> Option<u32> {
        let block = self.maxima.iter().position(|maximum| *maximum == highest)?;
        let within = widened(row, block).iter().position(|logit| *logit == highest)?;
        Some((block * BLOCK + within) as u32)
    }

    /// Top-k: the k-th highest maximum of any sets of logits is at or below the k-th highest logit. The sets are 4k, of every
    /// 4k-th block each: few logits are above it, and it is quickly found.
    fn among_the_best(&mut self, vectors: Vectors, row: Numbers, settings: &Settings, u: f64) -> u32 {
        let k = settings.top_k();
        let sets = &mut self.weights;
        sets.clear();
        for blocks in self.maxima.chunks((k as usize).saturating_mul(4)) {
            if sets.is_empty() {
                sets.extend_from_slice(blocks);
            }
            for (highest, block) in sets.iter_mut().zip(blocks) {
                *highest = if block > highest { *block } else { *highest };
            }
        }
        // Where fewer sets than k allow a token, every allowed token.
        let mut lowest = narrow(row, f64::MIN);
        self.ranked.clear();
        self.ranked.extend(sets.iter().map(|set| (falling(*set), 0)));
        if let Some((highest, _)) = after(k as usize - 1, &mut self.ranked) {
            lowest = if number(highest) > lowest { number(highest) } else { lowest };
        }
        self.collect(vectors, row, lowest, f64::INFINITY);
        let tokens = self.ids.iter().copied().zip(self.logits.iter().copied());
        let (ids, logits) = best(tokens, k, &mut self.ranked);
        among(ids, logits, settings, &mut |_, _| ()).walk(u)
    }

    fn collect(&mut self, vectors: Vectors, row: Numbers, lowest: f64, highest: f64) {
        self.ids.clear();
        self.logits.clear();
        self.picked_from = None;
        vectors.collect(row, &self.maxima, lowest, highest, &mut self.ids, &mut self.logits);
    }

    /// One level, without top-k.
    fn attempt(&mut self, level: &Level, top_p: f64, u: f64) -> Option<u32> {
        let all = self.sum(level, f64::NEG_INFINITY);
        if top_p == 1.0 {
            return self.walk(level, &Cut::NONE, all, u);
        }
        let cut = self.cut(level, top_p, all)?;
        self.walk(level, &cut, total(&self.sums), u)
    }

    /// The sum of the weights of logits above one, by block and together.
    fn sum(&mut self, level: &Level, above: f64) -> f64 {
        let Level { vectors, row, weighing, precision, .. } = *level;
        vectors.sum(precision, row, &self.maxima, weighing, above, &mut self.sums);
        total(&self.sums)
    }

    /// Step 7 over the kept tokens, whose weights by block are `sums` and together `total`.
    fn walk(&mut self, level: &Level, cut: &Cut, total: f64, u: f64) -> Option<u32> {
        let Level { vectors, row, weighing, bound, .. } = level;
        let target = u * total;
        let mut before = 0.0;
        let block = self.sums.iter().position(|sum| {
            let after = before + sum;
            let found = after > target;
            before = if found { before } else { after };
            found
        })?;
        let start = block * BLOCK;
        let logits = widened(*row, block);
        vectors.weigh(&logits, *weighing, &mut self.weights);
        for (at, (logit, weight)) in logits.iter().zip(&self.weights).enumerate() {
            let id = (start + at) as u32;
            if cut.keeps(*logit, id) {
                let after = before + weight;
                if after > target {
                    let clear = bound.above(bound.walk, before, target) && bound.below(bound.walk, after, target);
                    return clear.then_some(id);
                }
                before = after;
            }
        }
        None
    }
}

/// A sum in lanes: an addition of one needs not wait for the last.
fn total(numbers: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    for numbers in numbers.chunks(8) {
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane += number;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}
