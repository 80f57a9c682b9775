//! Steps many runs with one call of the model; each gets the same token as when stepped alone.

use std::fmt;

use super::run::Run;
use crate::core::error::SampleError;
use crate::core::logits::Logit;
use crate::core::refusal::Refusal;
use crate::core::sample::{in_parallel, is_long};

/// Why no run of a batch advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepBatchError<E> {
    /// `model_failed`: the model's own error.
    Model(E),
    /// `batch_rows`: the model returned another number of rows than there are runs.
    Rows {
        /// Runs in the batch.
        asked: u64,
        /// Rows the model gave.
        given: u64,
    },
    /// `batch_width`: a row is not as long as the first.
    Width {
        /// The first such row.
        row: u64,
        /// Logits in the first row.
        first: u64,
        /// Logits in this row.
        width: u64,
    },
}

impl<E: fmt::Display> fmt::Display for StepBatchError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => write!(f, "the model failed: {error}"),
            Self::Rows { asked, given } => write!(f, "the model was asked for {asked} rows and gave {given}"),
            Self::Width { row, first, width } => {
                write!(f, "row {row} of the model has {width} logits, but row 0 has {first}")
            }
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for StepBatchError<E> {}

impl<E: fmt::Display> Refusal for StepBatchError<E> {
    fn code(&self) -> &'static str {
        match self {
            Self::Model(_) => "model_failed",
            Self::Rows { .. } => "batch_rows",
            Self::Width { .. } => "batch_width",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Width { row, .. } => Some(*row),
            _ => None,
        }
    }
}

/// Advances every run by one token, asking the model once for all contexts.
///
/// Runs of different settings, lengths and steps can be mixed; each gets the same token and state as when stepped alone, in any
/// order and with any other runs. A run whose row is refused does not advance, and its result is the error; the others advance.
/// All rows must have the same length, because a model has one vocabulary; a run that had rows of another length before refuses
/// its row (`logits_length_changed`).
///
/// If each generator has its own model, use [`Generator::step_batch`](super::generator::Generator::step_batch).
///
/// `model` gets the contexts in the order of the runs (prompt, then emitted tokens) and returns one row for each. It is
/// not asked for an empty batch.
///
/// # Errors
/// `model_failed`, `batch_rows`, `batch_width`: no run advances.
pub fn step_batch<L, R, E>(
    runs: &mut [&mut Run],
    model: impl FnOnce(&[Vec<u32>]) -> Result<Vec<R>, E>,
) -> Result<Vec<Result<u32, SampleError>>, StepBatchError<E>>
where
    L: Logit,
    R: AsRef<[L]> + Sync,
{
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let contexts: Vec<_> = runs.iter().map(|run| run.context()).collect();
    let rows = model(&contexts).map_err(StepBatchError::Model)?;
    if rows.len() != runs.len() {
        return Err(StepBatchError::Rows { asked: runs.len() as u64, given: rows.len() as u64 });
    }
    let first = rows[0].as_ref().len();
    if let Some(row) = rows.iter().position(|row| row.as_ref().len() != first) {
        let [row, first, width] = [row, first, rows[row].as_ref().len()].map(|count| count as u64);
        return Err(StepBatchError::Width { row, first, width });
    }
    Ok(step_each(runs, &rows))
}

/// Steps each run with its row; there are as many rows as runs. A run whose row is refused does not advance.
pub(super) fn step_each<L: Logit, R: AsRef<[L]> + Sync>(
    runs: &mut [&mut Run],
    rows: &[R],
) -> Vec<Result<u32, SampleError>> {
    let alone: Vec<&Run> = runs.iter().map(|run| &**run).collect();
    let tokens = in_parallel(rows.len(), |at| is_long(alone[at].settings()), |at| alone[at].decide(rows[at].as_ref()));
    for ((run, token), row) in runs.iter_mut().zip(&tokens).zip(rows) {
        if let Ok(token) = token {
            run.emit(*token, row.as_ref().len() as u64);
        }
    }
    tokens
}
