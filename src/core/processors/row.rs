//! Operations of processors on a row. −∞ is a banned token. The ids of the parameters were checked against the length of the
//! row before.

use super::error::Problem;
use crate::core::distribution::best_of;
use crate::core::logits::Row;

/// Replaces every allowed logit; the new one must be finite. The sum turns −0 into 0.
pub(super) fn change(row: &mut [f64], with: impl Fn(u32, f64) -> f64) -> Result<(), Problem> {
    for (id, logit) in (0..).zip(row) {
        if *logit != f64::NEG_INFINITY {
            *logit = finite(id, with(id, *logit))?;
        }
    }
    Ok(())
}

/// A computed logit, which must be finite.
pub(super) fn finite(id: u32, logit: f64) -> Result<f64, Problem> {
    if logit.is_finite() { Ok(logit + 0.0) } else { Err(Problem::Overflow(Some(id))) }
}

/// The logit of a token, if it is in the row and allowed.
pub(super) fn logit_of(row: &mut [f64], id: u32) -> Option<&mut f64> {
    row.get_mut(id as usize).filter(|logit| **logit != f64::NEG_INFINITY)
}

/// Bans these tokens.
pub(super) fn deny(row: &mut [f64], tokens: &[u32]) {
    for &id in tokens {
        if let Some(logit) = logit_of(row, id) {
            *logit = f64::NEG_INFINITY;
        }
    }
}

/// Bans all tokens but these.
pub(super) fn allow(row: &mut [f64], tokens: &[u32]) {
    let kept: Vec<(u32, f64)> = tokens.iter().filter_map(|&id| Some((id, *logit_of(row, id)?))).collect();
    row.fill(f64::NEG_INFINITY);
    for (id, logit) in kept {
        row[id as usize] = logit;
    }
}

/// The allowed tokens and their logits, ids ascending.
pub(super) fn allowed(row: &[f64]) -> impl Iterator<Item = (u32, f64)> {
    (0..).zip(row).map(|(id, logit)| (id, *logit)).filter(|&(_, logit)| logit != f64::NEG_INFINITY)
}

/// −∞ where there is none.
pub(super) fn highest_of(logits: &[f64]) -> f64 {
    logits.iter().fold(f64::NEG_INFINITY, |highest, &logit| if logit > highest { logit } else { highest })
}

/// ∞ where there is none.
pub(super) fn lowest_of(logits: impl Iterator<Item = f64>) -> f64 {
    logits.fold(f64::INFINITY, |lowest, logit| if logit < lowest { logit } else { lowest })
}

/// Bans all tokens but those with this logit or a higher one and the first `min_keep` by (logit high first, id low first).
pub(super) fn keep_from(row: &mut [f64], least: f64, min_keep: u32) {
    let kept = row.iter().filter(|logit| **logit >= least).count();
    // If there are that many, they include the best `min_keep`.
    let best = if kept < min_keep as usize { top_k_of(row, min_keep) } else { Vec::new() };
    let mut best = best.into_iter().peekable();
    for (id, logit) in (0..).zip(row) {
        let is_best = best.next_if_eq(&id).is_some();
        if !is_best && *logit < least {
            *logit = f64::NEG_INFINITY;
        }
    }
}

/// Bans all tokens but these and the first `min_keep` by (logit high first, id low first).
pub(super) fn keep_with_minimum(row: &mut [f64], kept: impl IntoIterator<Item = u32>, min_keep: u32) {
    let best = top_k_of(row, min_keep);
    keep(row, kept.into_iter().chain(best));
}

/// Bans all tokens but these.
pub(super) fn keep(row: &mut [f64], kept: impl IntoIterator<Item = u32>) {
    let mut stays = vec![false; row.len()];
    for id in kept {
        stays[id as usize] = true;
    }
    for (logit, stays) in row.iter_mut().zip(stays) {
        if !stays {
            *logit = f64::NEG_INFINITY;
        }
    }
}

/// The first k allowed tokens by (logit high first, id low first); none where none is allowed.
fn top_k_of(row: &[f64], k: u32) -> Vec<u32> {
    Row::new(row).map_or_else(|_| Vec::new(), |row| best_of(&row, k))
}
