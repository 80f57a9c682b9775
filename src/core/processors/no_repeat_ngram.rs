//! `no_repeat_ngram`: bans tokens that would repeat an n-gram.

use super::error::Problem;
use super::history::{Window, common_prefixes};
use super::parameters::Visitor;
use super::row::deny;
use super::rule::{Lookup, Position, Rule};

/// The length of the n-grams and the history in which they are searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ngram {
    /// Tokens of an n-gram, ≥ 1.
    pub size: u32,
    /// The history that counts.
    pub window: Window,
}

/// `no_repeat_ngram`.
pub(super) struct NoRepeatNgram;

impl Rule for NoRepeatNgram {
    type Parameters = Ngram;

    const NAME: &'static str = "no_repeat_ngram";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Ngram, visitor: &mut dyn Visitor) {
        visitor.count("size", &mut it.size, 1, None);
        it.window.parameters(visitor);
    }

    fn tells_prompt_from_tokens(it: &Ngram) -> bool {
        !it.window.prompt
    }

    fn apply(it: &Ngram, row: &mut [f64], position: &Position, _: &Lookup) -> Result<(), Problem> {
        let mut history = it.window.tokens(position);
        history.reverse();
        let before = it.size as usize - 1;
        // How many tokens before `at` match the end of the history.
        let lengths = common_prefixes(&history);
        for (at, &id) in history.iter().enumerate() {
            if lengths.get(at + 1).copied().unwrap_or(0) >= before {
                deny(row, &[id]);
            }
        }
        Ok(())
    }
}
