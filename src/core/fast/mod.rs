//! The contract's token without the contract's arithmetic: weights are computed approximately, in vectors and in any
//! order, with a bound on the error. If the bound does not settle a decision, the next, more exact level is tried; the last
//! level is the contract itself.
//!
//! **Levels.** *Coarse* computes block sums in f32, *fine* in f64. A level computes the sum P̃ of all weights, block by
//! block; where top-p is on, the place of the cut; then the block of the running sums in which u·P̃ falls, and the token
//! in it. Weights of single tokens are always fine. Greedy needs comparisons alone. Under top-k the k best are found
//! by comparisons alone, and the contract's own steps run on those.
//!
//! How far each level may be off is derived in `level.rs`.

mod level;
mod nucleus;
mod scratch;

pub use quillmate_kernels::rows::Vectors;
use quillmate_kernels::rows::{BLOCK, Precision, Weighing, widened};

use super::distribution::{among, best_of, distribution};
use super::error::{LogitsError, SampleError};
use super::logits::{Logit, Numbers, Row};
use super::settings::Settings;
use level::{Bound, Level};
use nucleus::Cut;
use scratch::{Scratch, total};

/// Which implementation is used. No token depends on it.
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
    pub fn widest() -> Self {
        Self::Fast(Vectors::widest())
    }

    /// Every path this processor can take.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let fast = [Some(Vectors::Baseline), Vectors::avx2()];
        [Self::Contract].into_iter().chain(fast.into_iter().flatten().map(Self::Fast)).collect()
    }
}

/// Which level decided the token.
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

/// [`sample`](super::sample::sample) by a given path; also returns the level that decided.
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
        let decided = Scratch::with(|scratch| scratch.decide(vectors, L::numbers(logits), settings, u));
        if let Some(decided) = decided {
            return Ok(decided);
        }
    }
    let token = if settings.is_greedy() { Row::new(logits)?.argmax() } else { distribution(logits, settings)?.walk(u) };
    Ok((token, Decided::Contract))
}

/// The checks of [`Row::new`], vectorized for valid rows.
///
/// # Errors
/// Those of `Row::new`.
pub(crate) fn check<L: Logit>(logits: &[L]) -> Result<(), LogitsError> {
    let sound = Scratch::with(|scratch| scratch.scan(Vectors::widest(), L::numbers(logits)).is_some());
    if sound { Ok(()) } else { Row::new(logits).map(drop) }
}

/// The ids, ascending, of the first k ≥ 1 allowed tokens of a row by (logit high first, id low first); all allowed ones where they are
/// k or fewer.
///
/// # Errors
/// Those of `Row::new`.
pub(crate) fn best_ids<L: Logit>(logits: &[L], k: u32) -> Result<Vec<u32>, LogitsError> {
    let numbers = L::numbers(logits);
    if (k as usize) < logits.len() {
        let vectors = Vectors::widest();
        let best = Scratch::with(|scratch| {
            scratch.scan(vectors, numbers)?;
            Some(scratch.top_k(vectors, numbers, k).0)
        });
        if let Some(ids) = best {
            return Ok(ids);
        }
    }
    Ok(best_of(&Row::new(logits)?, k))
}

/// If the highest weights of all blocks add up to more, the coarse level decides too rarely to be worth trying.
const MANY: f64 = 256.0;

impl Scratch {
    /// The token and the level that decided; `None` if the contract must decide or refuse the row.
    fn decide(&mut self, vectors: Vectors, row: Numbers, settings: &Settings, u: f64) -> Option<(u32, Decided)> {
        let length = row.len();
        // Without one, the contract's steps find the fault of the row.
        let highest = self.scan(vectors, row)?;
        if settings.is_greedy() {
            return self.first(row, highest).map(|token| (token, Decided::Compared));
        }
        let k = settings.top_k() as usize;
        if k > 0 && k < length {
            let (ids, logits) = self.top_k(vectors, row, settings.top_k());
            return Some((among(ids, logits, settings, &mut |_, _| ()).walk(u), Decided::Compared));
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

    /// One level, without top-k.
    fn attempt(&mut self, level: &Level, top_p: f64, u: f64) -> Option<u32> {
        let all = self.sum(level, f64::NEG_INFINITY);
        if top_p == 1.0 {
            return self.walk(level, &Cut::NONE, all, u);
        }
        let cut = self.cut(level, top_p, all)?;
        self.walk(level, &cut, total(&self.sums), u)
    }

    /// Step 7 over the kept tokens. `sums` are their weights by block, `total` is the sum of all.
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
