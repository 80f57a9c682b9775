//! One text: sampled step by step, and what the model itself thinks of it.

use std::time::{Duration, Instant};

use quillmate_sampler::{exp, ln};
use quillmate_server::model::{LanguageModel, ModelError, Session};
use quillmate_server::text;

use crate::error::EvaluateError;
use crate::plan::{Plan, Task};
use crate::results::TextLine;

/// The context after a prompt, read once for all of its texts. A fork gives the same bits as reading it again.
pub struct Prefill {
    session: Box<dyn Session>,
    row: Vec<f32>,
}

impl Prefill {
    /// Reads a prompt.
    ///
    /// # Errors
    /// The model's own.
    pub fn new(model: &dyn LanguageModel, prompt: &[u32]) -> Result<Self, ModelError> {
        let mut session = model.open();
        let row = session.prefill(prompt)?;
        Ok(Self { session, row })
    }
}

/// Writes the text of a task.
///
/// # Errors
/// The model's own, and a refusal of its logits.
pub fn write(model: &dyn LanguageModel, plan: &Plan, task: Task, prefill: &Prefill) -> Result<TextLine, EvaluateError> {
    let setting = plan.setting(task.side);
    let mut run = setting.run(&plan.tokens[task.prompt], task.seed);
    let mut session = prefill.session.fork();
    let mut row = prefill.row.clone();
    let mut surprise = 0.0;
    let mut spent = Duration::ZERO;
    let mut ended = false;
    while run.position() < u64::from(setting.max_tokens) && !ended {
        let began = Instant::now();
        if let Some(&last) = run.tokens().last() {
            row = session.feed(last)?;
        }
        let token =
            run.step_with(&row).map_err(|error| EvaluateError::Sample { task: line_name(plan, task), error })?;
        if run.position() > 1 {
            spent += began.elapsed();
        }
        // The model's own row: what the settings made of it plays no part.
        surprise += surprise_of(&row, token);
        ended = model.end_tokens().contains(&token);
    }
    Ok(TextLine {
        prompt: plan.prompts[task.prompt].id.clone(),
        seed: task.seed.to_string(),
        side: task.side,
        text: text::text(model.tokens(), run.tokens()),
        tokens: run.tokens().to_vec(),
        ended,
        surprise: surprise.is_finite().then_some(surprise),
        seconds: spent.as_secs_f64(),
    })
}

/// What a task is called in a message.
fn line_name(plan: &Plan, task: Task) -> String {
    format!("{} with seed {} and the settings {:?}", plan.prompts[task.prompt].id, task.seed, task.side)
}

/// −ln p of a token under the softmax of a row, in nats: ln Σ exp(l − m) − (l_token − m), with m the highest logit.
/// Infinite for a token that is not in the row or banned there.
fn surprise_of(row: &[f32], token: u32) -> f64 {
    let mut highest = f64::NEG_INFINITY;
    for &logit in row {
        if f64::from(logit) > highest {
            highest = f64::from(logit);
        }
    }
    let mut sum = 0.0;
    for &logit in row {
        sum += exp(f64::from(logit) - highest);
    }
    let own = row.get(token as usize).map_or(f64::NEG_INFINITY, |&logit| f64::from(logit));
    ln(sum) - (own - highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surprise_is_minus_the_logarithm_of_the_probability() {
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        // Four equal logits: ln 4. Logits 0 and 1000: 1000 nats, and none.
        near(surprise_of(&[2.5; 4], 3), 1.386_294_361_119_890_6);
        near(surprise_of(&[0.0, 1000.0], 0), 1000.0);
        near(surprise_of(&[0.0, 1000.0], 1), 0.0);
        // Softmax of 1, 2, 3: 0.0900, 0.2447, 0.6652.
        near(surprise_of(&[1.0, 2.0, 3.0], 0), 2.407_605_964_444_380_4);
        near(surprise_of(&[1.0, 2.0, f32::NEG_INFINITY, 3.0], 3), 0.407_605_964_444_380_3);
        assert_eq!(surprise_of(&[1.0, f32::NEG_INFINITY], 1), f64::INFINITY);
        assert_eq!(surprise_of(&[1.0], 7), f64::INFINITY);
    }
}
