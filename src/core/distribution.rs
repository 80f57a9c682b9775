//! Steps 1 to 6 of the contract: from a row of logits to the tokens that may be drawn, with their probabilities.
//!
//! Every sum runs in the order the contract writes; nothing here may be reordered, fused or vectorized across a sum.

use super::error::{DistributionError, LogitsError};
use super::exp::exp;
use super::logits::{Logit, Row};
use super::rank::{Rank, falling, first, nth, number};
use super::settings::Settings;

/// A probability distribution over tokens: ids ascending, with the probability of each.
///
/// Probabilities are finite, ≥ 0 and sum to 1 up to rounding. A kept token whose weight underflowed has probability 0
/// and is never drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    ids: Vec<u32>,
    probabilities: Vec<f64>,
}

impl Distribution {
    /// The kept token ids, ascending.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The probability of each kept token, in the order of [`ids`](Self::ids).
    #[must_use]
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }

    /// A distribution from ids, strictly ascending, and the probability of each: finite, ≥ 0, summing to 1 within
    /// 10^-6.
    ///
    /// # Errors
    /// Every refusal of [`DistributionError`] but `distribution_vocabulary`.
    pub fn new(ids: Vec<u32>, probabilities: Vec<f64>) -> Result<Self, DistributionError> {
        if ids.len() != probabilities.len() {
            return Err(DistributionError::Lengths { first: ids.len() as u64, second: probabilities.len() as u64 });
        }
        if let Some(before) = ids.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(DistributionError::Ids(before as u64 + 1));
        }
        check_probabilities(&probabilities)?;
        Ok(Self { ids, probabilities })
    }

    /// The probability of every id of a vocabulary of this size; 0 where an id was not kept.
    ///
    /// # Errors
    /// `distribution_vocabulary` where an id is outside it.
    pub fn dense(&self, vocabulary: usize) -> Result<Vec<f64>, DistributionError> {
        let mut dense = vec![0.0; vocabulary];
        for (&id, &probability) in self.ids.iter().zip(&self.probabilities) {
            let slot = dense
                .get_mut(id as usize)
                .ok_or(DistributionError::Vocabulary { id, vocabulary: vocabulary as u64 })?;
            *slot = probability;
        }
        Ok(dense)
    }

    /// Replaces each index by the token id in `ids`.
    pub(crate) fn with_ids(mut self, ids: &[u32]) -> Self {
        for id in &mut self.ids {
            *id = ids[*id as usize];
        }
        self
    }

    /// Step 7, the inverse CDF, at `u` (0 ≤ u < 1).
    pub(crate) fn walk(&self, u: f64) -> u32 {
        walk(self.ids.iter().copied().zip(self.probabilities.iter().copied()), u)
    }
}

/// Step 7, the inverse CDF: returns the first id, in the order given, at which the running sum exceeds `u`. If rounding leaves
/// the whole sum at or below `u`, returns the last id with a probability above 0.
pub(crate) fn walk(kept: impl Iterator<Item = (u32, f64)>, u: f64) -> u32 {
    let (mut sum, mut last) = (0.0, 0);
    for (id, probability) in kept {
        sum += probability;
        if sum > u {
            return id;
        }
        if probability > 0.0 {
            last = id;
        }
    }
    last
}

/// How far the sum of a caller's probabilities may be from 1.
const SUM_TOLERANCE: f64 = 1e-6;

/// Checks that probabilities are finite, ≥ 0 and sum to 1 within 10^-6.
pub(crate) fn check_probabilities(probabilities: &[f64]) -> Result<(), DistributionError> {
    if probabilities.is_empty() {
        return Err(DistributionError::Empty);
    }
    let mut sum = 0.0;
    for (index, &probability) in probabilities.iter().enumerate() {
        if !(probability.is_finite() && probability >= 0.0) {
            return Err(DistributionError::Probability { index: index as u64, value: probability.into() });
        }
        sum += probability;
    }
    if (sum - 1.0).abs() <= SUM_TOLERANCE { Ok(()) } else { Err(DistributionError::Sum(sum.into())) }
}

/// The distribution the next token is drawn from under these settings: after temperature, top-k and top-p.
/// Greedy settings give one token with probability 1.
///
/// ```
/// use quillmate_sampler::{Settings, distribution};
/// let kept = distribution(&[0.0, 3.0, 1.0, 2.0], &Settings::new(1.0, 0, 0.75)?)?;
/// assert_eq!(kept.ids(), [1, 3]);
/// # Ok::<(), quillmate_sampler::SampleError>(())
/// ```
///
/// # Errors
/// Every refusal of [`LogitsError`].
pub fn distribution<L: Logit>(logits: &[L], settings: &Settings) -> Result<Distribution, LogitsError> {
    distribution_in_stages(logits, settings, &mut |_, _| ())
}

/// The steps of the contract that report their result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Step 1: one token.
    Greedy,
    /// Step 2; the numbers are still logits.
    TopK,
    /// Steps 3 and 4.
    Temperature,
    /// Steps 5 and 6.
    TopP,
}

/// [`distribution`]; calls `seen` with the result of each stage.
pub(crate) fn distribution_in_stages<L: Logit>(
    logits: &[L],
    settings: &Settings,
    seen: &mut dyn FnMut(Stage, &Distribution),
) -> Result<Distribution, LogitsError> {
    let row = Row::new(logits)?;
    if settings.is_greedy() {
        let one = Distribution { ids: vec![row.argmax()], probabilities: vec![1.0] };
        seen(Stage::Greedy, &one);
        return Ok(one);
    }
    let (ids, logits) = candidates(&row, settings.top_k());
    Ok(among(ids, logits, settings, seen))
}

/// Steps 3 to 6 for these candidates: ids ascending, one logit each; at least one.
pub(super) fn among(
    ids: Vec<u32>,
    logits: Vec<f64>,
    settings: &Settings,
    seen: &mut dyn FnMut(Stage, &Distribution),
) -> Distribution {
    let mut kept = Distribution { ids, probabilities: logits };
    seen(Stage::TopK, &kept);
    weigh(&mut kept.probabilities, settings.temperature());
    normalize(&mut kept.probabilities);
    seen(Stage::Temperature, &kept);
    if settings.top_p() < 1.0 {
        keep_nucleus(&mut kept, settings.top_p());
    }
    normalize(&mut kept.probabilities);
    seen(Stage::TopP, &kept);
    kept
}

/// Step 2: the allowed tokens, or the first k of them by (logit high first, id low first); ids ascending.
fn candidates<L: Logit>(row: &Row<L>, top_k: u32) -> (Vec<u32>, Vec<f64>) {
    if top_k == 0 || top_k >= row.allowed() {
        return row.iter().unzip();
    }
    top_k_of(row.iter(), top_k, &mut Vec::new())
}

/// The ids of the first k allowed tokens by (logit high first, id low first), ascending.
pub(crate) fn best_of<L: Logit>(row: &Row<L>, k: u32) -> Vec<u32> {
    if k >= row.allowed() {
        return row.iter().map(|(id, _)| id).collect();
    }
    top_k_of(row.iter(), k, &mut Vec::new()).0
}

/// The first k ≥ 1 of these tokens by (logit high first, id low first), with their logits. Ids ascend, here and there.
pub(super) fn top_k_of(
    tokens: impl Iterator<Item = (u32, f64)>,
    top_k: u32,
    spare: &mut Vec<Rank>,
) -> (Vec<u32>, Vec<f64>) {
    let k = top_k as usize;
    let mut pool = Vec::with_capacity(POOL);
    // A logit equal to the k-th best cannot enter, because its id is higher.
    let mut threshold = f64::NEG_INFINITY;
    for (id, logit) in tokens {
        if logit > threshold {
            pool.push((falling(logit), id));
            if pool.len() / 4 > k + POOL {
                threshold = cut(&mut pool, spare, k);
            }
        }
    }
    cut(&mut pool, spare, k);
    pool.into_iter().map(|(logit, id)| (id, number(logit))).unzip()
}

/// Truncates a pool of tokens, ids ascending, to the k best and returns the logit of the last of these.
fn cut(pool: &mut Vec<Rank>, spare: &mut Vec<Rank>, k: usize) -> f64 {
    spare.clear();
    spare.extend_from_slice(pool);
    let Some(last) = nth(k - 1, spare) else { return f64::NEG_INFINITY };
    pool.retain(|rank| *rank <= last);
    number(last.0)
}

/// The pool of the k best is truncated when it holds more than four times the sum of k and this.
const POOL: usize = 32;

/// Step 3: logits to weights, w_i = exp((l_i − m) / temperature) with m the highest.
fn weigh(logits: &mut [f64], temperature: f64) {
    let mut highest = f64::NEG_INFINITY;
    for &logit in &*logits {
        if logit > highest {
            highest = logit;
        }
    }
    for logit in logits {
        *logit = exp((*logit - highest) / temperature);
    }
}

/// Steps 4 and 6: divides by the running sum, in the order given.
pub(crate) fn normalize(numbers: &mut [f64]) {
    let mut sum = 0.0;
    for &number in &*numbers {
        sum += number;
    }
    for number in numbers {
        *number /= sum;
    }
}

/// Step 5: keeps the nucleus.
fn keep_nucleus(distribution: &mut Distribution, top_p: f64) {
    let Distribution { ids, probabilities } = &*distribution;
    let kept = nucleus(probabilities, top_p, 1);
    let (ids, probabilities) = kept.iter().map(|&at| (ids[at as usize], probabilities[at as usize])).unzip();
    *distribution = Distribution { ids, probabilities };
}

/// The indices, ascending, of the highest probabilities (lower index first on ties) up to the one at which their running sum
/// reaches `top_p`, at least `least` of them; all if the sum never does. Takes linear time.
pub(crate) fn nucleus(probabilities: &[f64], top_p: f64, least: u32) -> Vec<u32> {
    let ranks = || probabilities.iter().map(|p| falling(*p)).zip(0..);
    let (mut sum, mut count) = (0.0, 0);
    let last = first(&mut ranks().collect(), &mut |(probability, _)| {
        sum += number(probability);
        count += 1;
        sum >= top_p && count >= least
    });
    ranks().filter(|rank| last.is_none_or(|last| *rank <= last)).map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::walk;

    /// Rounding may leave the whole sum at or below the draw.
    #[test]
    fn a_draw_above_the_whole_sum_gives_the_last_token_that_has_a_probability() {
        let walked = |u| walk([(3, 0.5), (5, 0.25), (9, 0.0)].into_iter(), u);
        assert_eq!([0.0, 0.5, 0.75, 0.9].map(walked), [3, 5, 5, 5]);
    }
}
