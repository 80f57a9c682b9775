//! The older contract `mosaic-splitmix64-top-k-top-p-v1`, kept so that its recorded runs replay.
//!
//! It differs from `quillmate-v1` in more than its name: logits are divided by the temperature before the maximum is
//! subtracted, every sum and the walk run in order of (scaled logit high first, id low first) instead of by id, no logit
//! may be −∞, greedy is a strategy of its own that tells −0 from 0, and the settings are stricter. docs/legacy-contract.md has it to the bit.

use std::fmt;

use crate::core::decision::Decision;
use crate::core::distribution::normalize;
use crate::core::exp::exp;
use crate::core::logits::Logit;
use crate::core::rank::{falling, first};
use crate::core::refusal::{Refusal, RejectedNumber};
use crate::core::splitmix::{streams, uniform};

/// The name under which decisions of this contract are recorded.
pub use crate::wire::version::LEGACY_CONTRACT as ALGORITHM_VERSION;

/// Why a configuration or a row was refused. No draw is consumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MosaicError {
    /// `temperature_out_of_range`: not finite, or not above 0.
    Temperature(RejectedNumber),
    /// `top_k_out_of_range`: 0.
    TopKZero,
    /// `top_k_above_vocabulary`: more than there are logits.
    TopKAboveVocabulary {
        /// The top-k.
        top_k: u32,
        /// V.
        vocabulary: u64,
    },
    /// `top_p_out_of_range`: not a number above 0 and at most 1.
    TopP(RejectedNumber),
    /// `logits_empty`.
    Empty,
    /// `logits_too_long`: more than 2^32 − 1.
    TooLong(u64),
    /// `logits_not_finite`: the first such index, and the number.
    NotFinite {
        /// The index.
        index: u32,
        /// NaN or an infinity.
        value: RejectedNumber,
    },
    /// `scaled_not_finite`: the first index at which logit / temperature overflows.
    Overflow {
        /// The index.
        index: u32,
        /// The logit.
        value: RejectedNumber,
    },
}

impl fmt::Display for MosaicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temperature(value) => write!(f, "temperature must be finite and above 0, but is {value}"),
            Self::TopKZero => write!(f, "top-k must be at least 1, but is 0"),
            Self::TopKAboveVocabulary { top_k, vocabulary } => {
                write!(f, "top-k must be at most the {vocabulary} logits there are, but is {top_k}")
            }
            Self::TopP(value) => write!(f, "top-p must be above 0 and at most 1, but is {value}"),
            Self::Empty => write!(f, "there are no logits"),
            Self::TooLong(length) => write!(f, "{length} logits are more than 4294967295"),
            Self::NotFinite { index, value } => write!(f, "logit {index} must be finite, but is {value}"),
            Self::Overflow { index, value } => {
                write!(f, "logit {index} ({value}) divided by the temperature is not finite")
            }
        }
    }
}

impl std::error::Error for MosaicError {}

impl Refusal for MosaicError {
    fn code(&self) -> &'static str {
        match self {
            Self::Temperature(_) => "temperature_out_of_range",
            Self::TopKZero => "top_k_out_of_range",
            Self::TopKAboveVocabulary { .. } => "top_k_above_vocabulary",
            Self::TopP(_) => "top_p_out_of_range",
            Self::Empty => "logits_empty",
            Self::TooLong(_) => "logits_too_long",
            Self::NotFinite { .. } => "logits_not_finite",
            Self::Overflow { .. } => "scaled_not_finite",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::NotFinite { index, .. } | Self::Overflow { index, .. } => Some(u64::from(*index)),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Temperature(value) | Self::TopP(value) => Some(value.get()),
            Self::NotFinite { value, .. } | Self::Overflow { value, .. } => Some(value.get()),
            Self::TopKZero => Some(0.0),
            Self::TopKAboveVocabulary { top_k, .. } => Some(f64::from(*top_k)),
            Self::Empty | Self::TooLong(_) => None,
        }
    }
}

/// Temperature, top-k and top-p of the older contract.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplingConfig {
    temperature: f64,
    top_k: u32,
    top_p: f64,
}

impl SamplingConfig {
    /// Checks a configuration.
    ///
    /// # Errors
    /// `temperature_out_of_range` unless finite and above 0, `top_k_out_of_range` for 0, `top_p_out_of_range` unless
    /// above 0 and at most 1. That top-k is at most V is checked with each row.
    pub fn try_new(temperature: f64, top_k: u32, top_p: f64) -> Result<Self, MosaicError> {
        if !(temperature.is_finite() && temperature > 0.0) {
            return Err(MosaicError::Temperature(temperature.into()));
        }
        if top_k == 0 {
            return Err(MosaicError::TopKZero);
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(MosaicError::TopP(top_p.into()));
        }
        Ok(Self { temperature, top_k, top_p })
    }

    /// Softmax temperature.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.temperature
    }

    /// How many of the best logits are kept.
    #[must_use]
    pub fn top_k(&self) -> u32 {
        self.top_k
    }

    /// The share of probability the nucleus must hold.
    #[must_use]
    pub fn top_p(&self) -> f64 {
        self.top_p
    }
}

/// How a token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SelectionStrategy {
    /// The highest logit by IEEE 754's total order, where −0 comes before 0; the lowest id of equal ones. Consumes no draw.
    Greedy,
    /// By temperature, top-k, top-p and one draw.
    Sample(SamplingConfig),
}

/// Candidates in the contract's order, with probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates {
    /// Ids by (scaled logit high first, id low first).
    pub ids: Vec<u32>,
    /// The probability of each.
    pub probabilities: Vec<f64>,
}

/// The steps of [`candidates`] that report their result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SamplingStage {
    /// Every logit divided by the temperature, ids ascending.
    Scaled,
    /// The k best of these, in the contract's order.
    TopK,
    /// Their probabilities.
    Softmax,
    /// The nucleus, with probabilities that sum to 1 again.
    TopP,
}

/// Called with the result of a step of [`candidates`]: ids, and a number for each.
pub(crate) type Seen<'a> = dyn FnMut(SamplingStage, &[u32], &[f64]) + 'a;

/// The tokens that may be drawn from a row.
///
/// # Errors
/// Every refusal of the row, and `top_k_above_vocabulary`.
pub fn candidates<L: Logit>(logits: &[L], config: &SamplingConfig) -> Result<Candidates, MosaicError> {
    candidates_in_stages(logits, config, &mut |_, _, _| ())
}

/// [`candidates`]; calls `seen` with the result of each stage: ids, and the scaled logit or the probability of each.
pub(crate) fn candidates_in_stages<L: Logit>(
    logits: &[L],
    config: &SamplingConfig,
    seen: &mut Seen,
) -> Result<Candidates, MosaicError> {
    let vocabulary = check(logits)?;
    if config.top_k > vocabulary {
        return Err(MosaicError::TopKAboveVocabulary { top_k: config.top_k, vocabulary: u64::from(vocabulary) });
    }
    let mut scaled = Vec::with_capacity(logits.len());
    for (index, logit) in (0..vocabulary).zip(logits) {
        // Adding 0 turns −0 into 0, so that equal numbers have equal bits.
        let number = logit.widen() / config.temperature + 0.0;
        if !number.is_finite() {
            return Err(MosaicError::Overflow { index, value: logit.widen().into() });
        }
        scaled.push(number);
    }
    let mut ids: Vec<u32> = (0..vocabulary).collect();
    seen(SamplingStage::Scaled, &ids, &scaled);
    // By (scaled high first, id low first).
    ids.clear();
    first(&mut scaled.iter().map(|&number| falling(number)).zip(0..).collect(), &mut |(_, id)| {
        ids.push(id);
        ids.len() == config.top_k as usize
    });

    let highest = scaled[ids[0] as usize];
    let mut probabilities: Vec<f64> = ids.iter().map(|&id| scaled[id as usize]).collect();
    seen(SamplingStage::TopK, &ids, &probabilities);
    for number in &mut probabilities {
        *number = exp(*number - highest);
    }
    normalize(&mut probabilities);
    seen(SamplingStage::Softmax, &ids, &probabilities);
    let mut sum = 0.0;
    let reached = probabilities.iter().position(|probability| {
        sum += probability;
        sum >= config.top_p
    });
    probabilities.truncate(reached.map_or(probabilities.len(), |last| last + 1));
    normalize(&mut probabilities);
    ids.truncate(probabilities.len());
    seen(SamplingStage::TopP, &ids, &probabilities);
    Ok(Candidates { ids, probabilities })
}

/// Chooses a token; `draw_index` says which draw of the seed is used when sampling.
///
/// # Errors
/// Every refusal of the row; no draw is consumed.
pub fn select<L: Logit>(
    logits: &[L],
    strategy: &SelectionStrategy,
    seed: u64,
    draw_index: u64,
) -> Result<Decision, MosaicError> {
    match strategy {
        SelectionStrategy::Greedy => greedy(logits),
        SelectionStrategy::Sample(config) => Ok(drawn(&candidates(logits, config)?, seed, draw_index)),
    }
}

/// The inverse CDF over the candidates, with a draw of the seed.
pub(crate) fn drawn(Candidates { ids, probabilities }: &Candidates, seed: u64, draw_index: u64) -> Decision {
    let u = uniform(seed, draw_index, streams::TOKENS);
    let mut sum = 0.0;
    let at = probabilities.iter().position(|probability| {
        sum += probability;
        sum > u
    });
    let at = at.unwrap_or(ids.len() - 1);
    Decision {
        token_id: ids[at],
        candidate_count: ids.len() as u32,
        selected_probability: Some(probabilities[at]),
        random_draw: Some(u),
        draw_index: Some(draw_index),
        algorithm_version: ALGORITHM_VERSION,
    }
}

fn greedy<L: Logit>(logits: &[L]) -> Result<Decision, MosaicError> {
    let vocabulary = check(logits)?;
    let (mut best, mut highest) = (0, f64::NEG_INFINITY);
    for (id, logit) in (0..vocabulary).zip(logits) {
        if logit.widen().total_cmp(&highest).is_gt() {
            (best, highest) = (id, logit.widen());
        }
    }
    Ok(Decision {
        token_id: best,
        candidate_count: vocabulary,
        selected_probability: None,
        random_draw: None,
        draw_index: None,
        algorithm_version: ALGORITHM_VERSION,
    })
}

/// A sampler that counts its draws: the n-th draw of a run is output n of its seed's sequence.
///
/// ```
/// use quillmate_sampler::mosaic::{Sampler, SamplingConfig, SelectionStrategy};
/// let strategy = SelectionStrategy::Sample(SamplingConfig::try_new(0.8, 3, 0.9)?);
/// let mut sampler = Sampler::new(strategy, 42);
/// let mut tokens = Vec::new();
/// for _ in 0..8 {
///     tokens.push(sampler.next(&[0.0, 1.0, 2.0, 3.0])?.token_id);
/// }
/// assert_eq!(tokens, [3, 3, 3, 3, 3, 2, 3, 2]);
/// # Ok::<(), quillmate_sampler::mosaic::MosaicError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampler {
    strategy: SelectionStrategy,
    seed: u64,
    draws: u64,
}

impl Sampler {
    /// A sampler at draw 0.
    #[must_use]
    pub fn new(strategy: SelectionStrategy, seed: u64) -> Self {
        Self { strategy, seed, draws: 0 }
    }

    /// A sampler that resumes after this many draws.
    #[must_use]
    pub fn resume(strategy: SelectionStrategy, seed: u64, draws: u64) -> Self {
        Self { strategy, seed, draws }
    }

    /// How many draws have been consumed.
    #[must_use]
    pub fn draws(&self) -> u64 {
        self.draws
    }

    /// Chooses the next token.
    ///
    /// # Errors
    /// Every refusal of the row; no draw is consumed.
    pub fn next<L: Logit>(&mut self, logits: &[L]) -> Result<Decision, MosaicError> {
        let decision = select(logits, &self.strategy, self.seed, self.draws)?;
        self.draws += u64::from(decision.random_draw.is_some());
        Ok(decision)
    }
}

/// V, when every logit is finite.
fn check<L: Logit>(logits: &[L]) -> Result<u32, MosaicError> {
    let vocabulary = u32::try_from(logits.len()).map_err(|_| MosaicError::TooLong(logits.len() as u64))?;
    if vocabulary == 0 {
        return Err(MosaicError::Empty);
    }
    match (0..vocabulary).zip(logits).find(|(_, logit)| !logit.widen().is_finite()) {
        Some((index, logit)) => Err(MosaicError::NotFinite { index, value: logit.widen().into() }),
        None => Ok(vocabulary),
    }
}

#[cfg(test)]
mod tests {
    use super::{Candidates, drawn};
    use crate::core::splitmix::{streams, uniform};

    #[test]
    fn a_draw_equal_to_a_running_sum_goes_on_and_one_above_all_gives_the_last() {
        let u = uniform(42, 3, streams::TOKENS);
        let chosen = |probabilities: &[f64]| {
            let ids = [4, 7, 9][..probabilities.len()].to_vec();
            drawn(&Candidates { ids, probabilities: probabilities.to_vec() }, 42, 3).token_id
        };
        assert_eq!(chosen(&[u, 1.0 - u]), 7);
        assert_eq!(chosen(&[u.next_up(), 1.0 - u.next_up()]), 4);
        assert_eq!(chosen(&[u / 4.0, u / 4.0, u / 4.0]), 9);
    }
}
