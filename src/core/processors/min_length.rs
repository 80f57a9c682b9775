//! `min_length`: bans end tokens until the run has this length.

use super::error::Problem;
use super::length::Length;
use super::parameters::Visitor;
use super::row::deny;
use super::rule::{Lookup, Position, Rule};

/// `min_length`.
pub(super) struct MinLength;

impl Rule for MinLength {
    type Parameters = Length;

    const NAME: &'static str = "min_length";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Length, visitor: &mut dyn Visitor) {
        it.parameters(0, visitor);
    }

    fn tells_prompt_from_tokens(_: &Length) -> bool {
        true
    }

    fn apply(it: &Length, row: &mut [f64], position: &Position, _: &Lookup) -> Result<(), Problem> {
        if (position.tokens.len() as u64) < u64::from(it.length) {
            deny(row, &it.end_tokens);
        }
        Ok(())
    }
}
