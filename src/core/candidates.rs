//! The candidates of a step. A frame is made from them, a token is drawn from them, and a sparse frame is read into them.

use super::distribution::{Distribution, distribution};
use super::error::{LogitsError, SampleError};
use super::fast::best_ids;
use super::logits::Logit;
use super::sample::sample;
use super::settings::Settings;

/// Allowed tokens of a row with their logits, ids ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidates<L> {
    ids: Vec<u32>,
    logits: Vec<L>,
}

impl<L: Logit> Candidates<L> {
    /// The first k ≥ 1 allowed tokens of a row by (logit high first, id low first); all allowed ones where they are k or fewer.
    ///
    /// # Errors
    /// Every refusal of the row.
    pub fn top_k(row: &[L], k: u32) -> Result<Self, LogitsError> {
        let ids = best_ids(row, k)?;
        let logits = ids.iter().map(|id| row[*id as usize]).collect();
        Ok(Self { ids, logits })
    }

    /// Candidates from ids, which ascend, and the logit of each.
    pub(crate) fn new(ids: Vec<u32>, logits: Vec<L>) -> Self {
        Self { ids, logits }
    }

    /// The ids, ascending.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The logit of each, in the order of [`ids`](Self::ids).
    #[must_use]
    pub fn logits(&self) -> &[L] {
        &self.logits
    }

    /// The token at the uniform number `u`, as for a row in which all other tokens are banned. Only the order of the ids matters,
    /// so sampling from the logits without gaps gives the index of the token.
    ///
    /// # Errors
    /// `uniform_out_of_range`, and every refusal of the logits.
    pub fn sample(&self, settings: &Settings, u: f64) -> Result<u32, SampleError> {
        Ok(self.ids[sample(&self.logits, settings, u)? as usize])
    }

    /// The distribution of that token.
    ///
    /// # Errors
    /// Every refusal of the logits.
    pub fn distribution(&self, settings: &Settings) -> Result<Distribution, LogitsError> {
        Ok(distribution(&self.logits, settings)?.with_ids(&self.ids))
    }
}
