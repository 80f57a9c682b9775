//! Processors that look at nothing but the row: biases and lists. The ids they name are below the length of the row, which
//! is checked before.

use super::Problem;

/// Replaces every allowed logit; the new one must be finite. The sum turns −0 into 0.
pub(super) fn change(row: &mut [f64], with: impl Fn(u32, f64) -> f64) -> Result<(), Problem> {
    for (id, logit) in (0..).zip(row) {
        if *logit != f64::NEG_INFINITY {
            *logit = finite(id, with(id, *logit))?;
        }
    }
    Ok(())
}

/// A logit that was made.
pub(super) fn finite(id: u32, logit: f64) -> Result<f64, Problem> {
    if logit.is_finite() { Ok(logit + 0.0) } else { Err(Problem::Overflow(Some(id))) }
}

/// The logit of a token, where it has one and is allowed.
pub(super) fn logit_of(row: &mut [f64], id: u32) -> Option<&mut f64> {
    row.get_mut(id as usize).filter(|logit| **logit != f64::NEG_INFINITY)
}

pub(super) fn bias(row: &mut [f64], biases: &[(u32, f64)]) -> Result<(), Problem> {
    for &(id, bias) in biases {
        if let Some(logit) = logit_of(row, id) {
            *logit = finite(id, *logit + bias)?;
        }
    }
    Ok(())
}

pub(super) fn deny(row: &mut [f64], tokens: &[u32]) {
    for &id in tokens {
        if let Some(logit) = logit_of(row, id) {
            *logit = f64::NEG_INFINITY;
        }
    }
}

pub(super) fn allow(row: &mut [f64], tokens: &[u32]) {
    let kept: Vec<(u32, f64)> = tokens.iter().filter_map(|&id| Some((id, *logit_of(row, id)?))).collect();
    row.fill(f64::NEG_INFINITY);
    for (id, logit) in kept {
        row[id as usize] = logit;
    }
}
