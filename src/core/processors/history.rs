//! The history of a run, as the penalties and the repetition rules see it.

use super::error::Problem;
use super::parameters::{List, Visitor};
use super::row::{finite, logit_of};
use super::rule::Position;
use crate::core::rank::ordered;

/// Which tokens of a run count as its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many of the last tokens, at least 1; `None` is all.
    pub last: Option<u32>,
    /// Whether the prompt is part of the history, before the emitted tokens.
    pub prompt: bool,
}

impl Default for Window {
    /// The whole history, prompt included.
    fn default() -> Self {
        Self { last: None, prompt: true }
    }
}

impl Window {
    pub(super) fn parameters(&mut self, visitor: &mut dyn Visitor) {
        visitor.limit("window", &mut self.last);
        visitor.flag("prompt", &mut self.prompt);
    }

    /// The tokens that count, oldest first.
    pub(super) fn tokens(self, position: &Position) -> Vec<u32> {
        let prompt = if self.prompt { position.prompt } else { &[] };
        let mut history = [prompt, position.tokens].concat();
        if let Some(last) = self.last {
            let surplus = history.len().saturating_sub(last as usize);
            history.drain(..surplus);
        }
        history
    }
}

/// The penalty for tokens in the history.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Penalty {
    /// A divisor > 0 for the repetition penalty, else a finite number of logits.
    pub penalty: f64,
    /// The history that counts.
    pub window: Window,
    /// Token ids that are not penalized.
    pub exempt: Vec<u32>,
}

impl Penalty {
    pub(super) fn parameters(&mut self, range: super::parameters::Range, visitor: &mut dyn Visitor) {
        visitor.number("penalty", &mut self.penalty, range);
        self.window.parameters(visitor);
        visitor.tokens("exempt", &mut self.exempt, List::OptionalSet);
    }

    /// Replaces the logit of every allowed token of the history that is not exempt by `with(logit, count)`. `exempt` ascends.
    pub(super) fn apply(
        &self,
        row: &mut [f64],
        position: &Position,
        exempt: &[u32],
        with: impl Fn(f64, f64) -> f64,
    ) -> Result<(), Problem> {
        let history = self.window.tokens(position);
        let history = ordered(history.iter().map(|id| (u64::from(*id), *id)).collect());
        for same in history.chunk_by(|a, b| a == b) {
            let id = same[0].1;
            if exempt.binary_search(&id).is_err()
                && let Some(logit) = logit_of(row, id)
            {
                *logit = finite(id, with(*logit, same.len() as f64))?;
            }
        }
        Ok(())
    }
}

/// The Z-function: for each index, the length of the longest common prefix of `text` and its suffix there. Linear time.
/// Gusfield, "Algorithms on Strings, Trees, and Sequences", 1997, section 1.4.
pub(super) fn common_prefixes(text: &[u32]) -> Vec<usize> {
    let mut lengths = vec![text.len(); text.len()];
    let (mut start, mut end) = (0, 0);
    for at in 1..text.len() {
        let mut length = if at < end { lengths[at - start].min(end - at) } else { 0 };
        while at + length < text.len() && text[length] == text[at + length] {
            length += 1;
        }
        if at + length > end {
            (start, end) = (at, at + length);
        }
        lengths[at] = length;
    }
    lengths
}
