//! Speculation in a run: γ draft tokens are checked against γ + 1 rows of the target, which one forward pass gives.
//!
//! There are two rules:
//!
//! * [`Run::step_with_drafts`], **drafter-invariant**: the text is the text without speculation, token for token,
//!   whatever is drafted. The default.
//! * [`Run::step_speculative`], **p/q**: the text is distributed as without speculation, and more drafts are accepted;
//!   which text it is depends on the drafts.
//!
//! Every draw is addressed by the position of the token it decides, so a run stored between any two tokens and resumed
//! with the rest of its chain gives the same tokens.

use std::fmt;

use super::run::Run;
use crate::core::distribution::{Distribution, distribution};
use crate::core::error::SampleError;
use crate::core::logits::Logit;
use crate::core::refusal::Refusal;
use crate::core::speculative::{Role, Speculation, SpeculativeError, speculative_step};
use crate::core::splitmix::{streams, uniform};

/// A draft token and its distribution.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// The token.
    pub token: u32,
    /// The distribution it was drawn from, after the draft model's processors, temperature, top-k and top-p.
    pub distribution: Distribution,
}

/// The result of a chain of drafts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The tokens emitted: the accepted drafts, then one that was resampled or, when all were accepted, one more.
    pub tokens: Vec<u32>,
    /// How many drafts were accepted: the length of `tokens` less 1.
    pub accepted: usize,
}

/// Why a chain emitted nothing. The run is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChainError {
    /// `chain_rows`: γ drafts need γ + 1 rows.
    Rows {
        /// How many drafts there are.
        drafts: u64,
        /// How many rows there are.
        rows: u64,
    },
    /// The logits of a row are refused.
    Sample {
        /// Which row, from 0.
        row: u64,
        /// Why.
        error: SampleError,
    },
    /// A draft is refused.
    Speculative {
        /// Which draft, from 0.
        draft: u64,
        /// Why.
        error: SpeculativeError,
    },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows { drafts, rows } => {
                write!(f, "{drafts} drafts need {} rows of logits, but there are {rows}", drafts + 1)
            }
            Self::Sample { row, error } => write!(f, "row {row}: {error}"),
            Self::Speculative { draft, error } => write!(f, "draft {draft}: {error}"),
        }
    }
}

impl std::error::Error for ChainError {}

impl Refusal for ChainError {
    fn code(&self) -> &'static str {
        match self {
            Self::Rows { .. } => "chain_rows",
            Self::Sample { error, .. } => error.code(),
            Self::Speculative { error, .. } => error.code(),
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Rows { .. } => None,
            Self::Sample { error, .. } => error.index(),
            Self::Speculative { error, .. } => error.index(),
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Rows { .. } => None,
            Self::Sample { error, .. } => error.value(),
            Self::Speculative { error, .. } => error.value(),
        }
    }
}

impl Run {
    /// Emits up to γ + 1 tokens from γ drafts, **drafter-invariant**: each position's token is the one the run emits
    /// without speculation, and the next row is used only while the draft was that token.
    ///
    /// `rows`: γ + 1 rows of V logits; row i is the target's after the context and the first i drafts.
    ///
    /// # Errors
    /// `chain_rows`, or a refusal of a row that was reached; the run is unchanged.
    pub fn step_with_drafts<L: Logit>(
        &mut self,
        rows: &[impl AsRef<[L]>],
        drafts: &[u32],
    ) -> Result<Chain, ChainError> {
        self.chain(rows, drafts.len(), |run, logits, at| {
            let token = run.step_with(logits).map_err(|error| ChainError::Sample { row: at as u64, error })?;
            Ok(Speculation { token, accepted: drafts.get(at) == Some(&token) })
        })
    }

    /// Emits up to γ + 1 tokens from γ drafts by the **p/q** rule ([`speculative_step`]): the longest accepted prefix,
    /// then the resampled token, or after the last draft one more from the last row.
    ///
    /// At position n the acceptance uses `uniform(seed, n, 1)`, the resampling `uniform(seed, n, 2)`, and a token
    /// without a draft `uniform(seed, n, 0)`. A draft model's own token there uses `uniform(seed, n, 3)`, or, coupled
    /// with the target, `uniform(seed, n, 0)`.
    ///
    /// `rows`: as for [`step_with_drafts`](Self::step_with_drafts).
    ///
    /// # Errors
    /// `chain_rows`, a refusal of a row or of a draft that was reached; the run is unchanged.
    pub fn step_speculative<L: Logit>(
        &mut self,
        rows: &[impl AsRef<[L]>],
        drafts: &[Draft],
    ) -> Result<Chain, ChainError> {
        self.chain(rows, drafts.len(), |run, logits, at| {
            let of_row = |error| ChainError::Sample { row: at as u64, error };
            let Some(draft) = drafts.get(at) else {
                let token = run.step_with(logits).map_err(of_row)?;
                return Ok(Speculation { token, accepted: false });
            };
            let target = match run.process(logits).map_err(of_row)? {
                Some(row) => distribution(&row, run.settings()),
                None => distribution(logits, run.settings()),
            };
            let target = target.map_err(|error| of_row(error.into()))?;
            run.check_length(logits.len() as u64).map_err(|error| of_row(error.into()))?;
            let of_draft = |error| ChainError::Speculative { draft: at as u64, error };
            let dense = |role, of: &Distribution| {
                of.dense(logits.len()).map_err(|error| of_draft(SpeculativeError::Distribution { role, error }))
            };
            let (p, q) = (dense(Role::Target, &target)?, dense(Role::Draft, &draft.distribution)?);
            let at = |stream| uniform(run.seed(), run.position(), stream);
            let (u_accept, u_resample) = (at(streams::ACCEPTANCE), at(streams::RESAMPLING));
            let speculation = speculative_step(&p, &q, draft.token, u_accept, u_resample).map_err(of_draft)?;
            run.emit(speculation.token, logits.len() as u64);
            Ok(speculation)
        })
    }

    /// Emits tokens by `one` until it reports that a draft was not accepted. Emits all tokens or none.
    fn chain<L: Logit, R: AsRef<[L]>>(
        &mut self,
        rows: &[R],
        drafts: usize,
        one: impl Fn(&mut Self, &[L], usize) -> Result<Speculation, ChainError>,
    ) -> Result<Chain, ChainError> {
        if rows.len() != drafts + 1 {
            return Err(ChainError::Rows { drafts: drafts as u64, rows: rows.len() as u64 });
        }
        let (before, mark) = (self.tokens().len(), self.mark());
        let mut accepted = 0;
        for (at, row) in rows.iter().enumerate() {
            match one(self, row.as_ref(), at) {
                Ok(Speculation { accepted: true, .. }) => accepted += 1,
                Ok(_) => break,
                Err(error) => {
                    self.withdraw(mark);
                    return Err(error);
                }
            }
        }
        Ok(Chain { tokens: self.tokens()[before..].to_vec(), accepted })
    }
}
