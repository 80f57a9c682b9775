//! One row of logits, three settings and one uniform number: one token.

use super::distribution::distribution;
use super::error::SampleError;
use super::logits::{Logit, Row};
use super::settings::Settings;

/// Chooses one token as the contract says.
///
/// * `logits`: V ≥ 1 numbers, index = token id; −∞ bans a token.
/// * `temperature`: finite, ≥ 0; 0 takes the best logit, lowest id on ties, and the other settings have no effect.
/// * `top_k`: 0 is off. `top_p`: 0 to 1; 1 is off.
/// * `u`: the uniform number, 0 ≤ u < 1.
///
/// ```
/// use quillmate_sampler::sample_token;
/// let logits = [0.05f64, 0.5, 0.15, 0.3].map(|p| if p == 0.5 { 2.0 } else { p });
/// assert_eq!(sample_token(&logits, 0.0, 0, 1.0, 0.5), Ok(1));
/// ```
///
/// # Errors
/// In this order: a setting out of range, `u` out of range, then the logits. An error names the value or the index.
pub fn sample_token<L: Logit>(
    logits: &[L],
    temperature: f64,
    top_k: u32,
    top_p: f64,
    u: f64,
) -> Result<u32, SampleError> {
    sample(logits, &Settings::new(temperature, top_k, top_p)?, u)
}

/// [`sample_token`] with settings that are already checked.
///
/// # Errors
/// `uniform_out_of_range`, then every refusal of the logits.
pub fn sample<L: Logit>(logits: &[L], settings: &Settings, u: f64) -> Result<u32, SampleError> {
    if !(0.0..1.0).contains(&u) {
        return Err(SampleError::Uniform(u.into()));
    }
    if settings.is_greedy() {
        return Ok(Row::new(logits)?.best());
    }
    Ok(distribution(logits, settings)?.walk(u))
}
