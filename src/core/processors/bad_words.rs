//! `bad_words`: bans sequences of tokens.

use super::error::Problem;
use super::history::Window;
use super::parameters::Visitor;
use super::row::deny;
use super::rule::{Lookup, Position, Rule};

/// `bad_words`.
pub(super) struct BadWords;

impl Rule for BadWords {
    type Parameters = Vec<Vec<u32>>;

    const NAME: &'static str = "bad_words";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Vec<Vec<u32>>, visitor: &mut dyn Visitor) {
        visitor.sequences("words", it, true);
    }

    fn apply(it: &Vec<Vec<u32>>, row: &mut [f64], position: &Position, _: &Lookup) -> Result<(), Problem> {
        let history = Window::default().tokens(position);
        for word in it {
            if let Some((last, before)) = word.split_last()
                && history.ends_with(before)
            {
                deny(row, &[*last]);
            }
        }
        Ok(())
    }
}
