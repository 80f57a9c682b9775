//! Speculation with one draft token: a fast model drafts, and the output follows the target model.
//!
//! Leviathan, Kalman & Matias, "Fast inference from transformers via speculative decoding", ICML 2023, appendix A.1,
//! and Chen et al., "Accelerating large language model decoding with speculative sampling", 2023, theorem 1: accepting
//! a draft d ~ q with probability min(1, p_d / q_d), and drawing from max(0, p − q) normalized after a rejection, gives
//! a token distributed as p.

use std::fmt;

use super::distribution::{check_probabilities, walk};
use super::error::DistributionError;
use super::refusal::{Refusal, RejectedNumber};

/// Which of the two distributions an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// p, the distribution of the target model.
    Target,
    /// q, the distribution the draft was drawn from.
    Draft,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Target => "the target's distribution",
            Self::Draft => "the draft's distribution",
        })
    }
}

/// Why a draft could not be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpeculativeError {
    /// p and q differ in length, or one of them is no distribution.
    Distribution {
        /// Which.
        role: Role,
        /// Why.
        error: DistributionError,
    },
    /// `draft_token_out_of_range`: the draft token is not an id of the vocabulary.
    DraftToken {
        /// The draft token.
        token: u32,
        /// The size of the vocabulary.
        vocabulary: u64,
    },
    /// `uniform_out_of_range`: `u_accept` or `u_resample` is not a number with 0 ≤ u < 1.
    Uniform(RejectedNumber),
}

impl fmt::Display for SpeculativeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Distribution { role, error } => write!(f, "{role}: {error}"),
            Self::DraftToken { token, vocabulary } => {
                write!(f, "draft token {token} is outside the vocabulary of {vocabulary}")
            }
            Self::Uniform(value) => write!(f, "u must be at least 0 and below 1, but is {value}"),
        }
    }
}

impl std::error::Error for SpeculativeError {}

impl Refusal for SpeculativeError {
    fn code(&self) -> &'static str {
        match self {
            Self::Distribution { error, .. } => error.code(),
            Self::DraftToken { .. } => "draft_token_out_of_range",
            Self::Uniform(_) => "uniform_out_of_range",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Distribution { error, .. } => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Distribution { error, .. } => error.value(),
            Self::DraftToken { token, .. } => Some(f64::from(*token)),
            Self::Uniform(value) => Some(value.get()),
        }
    }
}

/// The result of checking a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speculation {
    /// The token.
    pub token: u32,
    /// Whether it is the draft, accepted. A resampled token is never reported as accepted, even where it is the same id.
    pub accepted: bool,
}

/// Checks one draft token: accepts it when `u_accept · q[d] < p[d]`, otherwise draws from `max(0, p − q)`.
///
/// * `p_target`, `q_draft`: probabilities by token id, of the same length, each finite and ≥ 0, each summing to 1
///   within 10^-6. They must be the distributions tokens are drawn from, after temperature, top-k and top-p
///   ([`distribution`](super::distribution::distribution)): with a raw softmax for p, a token that top-k bans could
///   come out; with a raw softmax for q, drafts would be accepted too often where q was sharpened, and the output
///   would no longer follow p.
/// * `draft_token`: the token drawn from q.
/// * `u_accept`, `u_resample`: uniform numbers in [0, 1), from streams of their own.
///
/// If every residual is 0 (only where p and q do not sum to the same number), the token is drawn from p.
///
/// ```
/// use quillmate_sampler::speculative_step;
/// let (p, q) = ([0.5, 0.25, 0.25], [0.25, 0.5, 0.25]);
/// assert!(speculative_step(&p, &q, 1, 0.4, 0.9)?.accepted);
/// assert_eq!(speculative_step(&p, &q, 1, 0.6, 0.9)?.token, 0);
/// # Ok::<(), quillmate_sampler::SpeculativeError>(())
/// ```
///
/// # Errors
/// Lengths first, then p, q, the draft token and the uniform numbers.
pub fn speculative_step(
    p_target: &[f64],
    q_draft: &[f64],
    draft_token: u32,
    u_accept: f64,
    u_resample: f64,
) -> Result<Speculation, SpeculativeError> {
    if p_target.len() != q_draft.len() {
        let error = DistributionError::Lengths { first: p_target.len() as u64, second: q_draft.len() as u64 };
        return Err(SpeculativeError::Distribution { role: Role::Draft, error });
    }
    let check = |role, probabilities| {
        check_probabilities(probabilities).map_err(|error| SpeculativeError::Distribution { role, error })
    };
    check(Role::Target, p_target)?;
    check(Role::Draft, q_draft)?;
    let at = draft_token as usize;
    if at >= p_target.len() {
        return Err(SpeculativeError::DraftToken { token: draft_token, vocabulary: p_target.len() as u64 });
    }
    for u in [u_accept, u_resample] {
        if !(0.0..1.0).contains(&u) {
            return Err(SpeculativeError::Uniform(u.into()));
        }
    }

    if u_accept * q_draft[at] < p_target[at] {
        return Ok(Speculation { token: draft_token, accepted: true });
    }
    let residual = p_target.iter().zip(q_draft).map(|(p, q)| if p > q { p - q } else { 0.0 });
    let mut total = 0.0;
    for weight in residual.clone() {
        total += weight;
    }
    let token = if total > 0.0 {
        walk((0..).zip(residual.map(|weight| weight / total)), u_resample)
    } else {
        let mut total = 0.0;
        for p in p_target {
            total += p;
        }
        walk((0..).zip(p_target.iter().map(|p| p / total)), u_resample)
    };
    Ok(Speculation { token, accepted: false })
}
