//! One text: sampled step by step, and what the model itself thinks of it.

use std::time::{Duration, Instant};

use quillmate_sampler::{Refusal as _, exp, ln};
use quillmate_server::model::{LanguageModel, ModelError, Session};
use quillmate_server::text;

use crate::cost::cpu;
use crate::error::EvaluateError;
use crate::plan::{Plan, Task};
use crate::results::TextLine;

/// The context after a prompt, read once for all of its texts. A fork gives the same bits as reading it again.
pub struct Prefill {
    session: Box<dyn Session>,
    row: Vec<f32>,
    spent: Duration,
    cpu: Option<Duration>,
}

impl Prefill {
    /// Reads a prompt.
    ///
    /// # Errors
    /// The model's own.
    pub fn new(model: &dyn LanguageModel, prompt: &[u32]) -> Result<Self, ModelError> {
        let (began, cpu_began) = (Instant::now(), cpu());
        let mut session = model.open();
        let row = session.prefill(prompt)?;
        Ok(Self { session, row, spent: began.elapsed(), cpu: since(cpu_began) })
    }
}

/// Processor time since a moment; `None` where the system does not tell.
fn since(began: Option<Duration>) -> Option<Duration> {
    Some(cpu()?.saturating_sub(began?))
}

/// Writes the text of a task. One that the sampler or a processor refuses to go on with ends there, and says so.
///
/// # Errors
/// The model's own.
pub fn write(model: &dyn LanguageModel, plan: &Plan, task: Task, prefill: &Prefill) -> Result<TextLine, EvaluateError> {
    let setting = plan.setting(task.side);
    let mut run = setting.run(&plan.tokens[task.prompt], task.seed);
    let mut own_cpu = Some(Duration::ZERO);
    let mut session = prefill.session.fork();
    let mut row = prefill.row.clone();
    let mut surprise = 0.0;
    let (mut first, mut spent) = (None, Duration::ZERO);
    // The prompt's.
    let mut passes = 1;
    let (mut ended, mut refused) = (false, None);
    while run.position() < u64::from(setting.max_tokens) && !ended {
        let (began, cpu_began) = (Instant::now(), cpu());
        if let Some(&last) = run.tokens().last() {
            row = session.feed(last)?;
            passes += 1;
        }
        let token = match run.step_with(&row) {
            Ok(token) => token,
            Err(error) => {
                refused = Some(error.code().to_owned());
                break;
            }
        };
        if run.position() > 1 {
            spent += began.elapsed();
        } else {
            first = Some(prefill.spent + began.elapsed());
        }
        // What is computed from here on is for the report and not for the text.
        own_cpu = own_cpu.zip(since(cpu_began)).map(|(all, step)| all + step);
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
        first_token_seconds: first.map(|first: Duration| first.as_secs_f64()),
        passes: Some(passes),
        cpu_seconds: own_cpu.zip(prefill.cpu).map(|(own, prompt)| (own + prompt).as_secs_f64()),
        refused,
    })
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
