//! Processors that look at nothing but the row: biases and lists.

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

/// The place of a token that a parameter names.
fn place(row: &[f64], id: u32) -> Result<usize, Problem> {
    if (id as usize) < row.len() { Ok(id as usize) } else { Err(Problem::Token { id, vocabulary: row.len() as u64 }) }
}

pub(super) fn bias(row: &mut [f64], biases: &[(u32, f64)]) -> Result<(), Problem> {
    for &(id, bias) in biases {
        let at = place(row, id)?;
        if row[at] != f64::NEG_INFINITY {
            row[at] = finite(id, row[at] + bias)?;
        }
    }
    Ok(())
}

pub(super) fn deny(row: &mut [f64], tokens: &[u32]) -> Result<(), Problem> {
    for &id in tokens {
        let at = place(row, id)?;
        row[at] = f64::NEG_INFINITY;
    }
    Ok(())
}

pub(super) fn allow(row: &mut [f64], tokens: &[u32]) -> Result<(), Problem> {
    let mut kept = Vec::with_capacity(tokens.len());
    for &id in tokens {
        let at = place(row, id)?;
        kept.push((at, row[at]));
    }
    row.fill(f64::NEG_INFINITY);
    for (at, logit) in kept {
        row[at] = logit;
    }
    Ok(())
}
