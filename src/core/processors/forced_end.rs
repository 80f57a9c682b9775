//! `forced_end`: forces an end token at this length.

use super::error::Problem;
use super::length::Length;
use super::parameters::Visitor;
use super::row::allow;
use super::rule::{Lookup, Position, Rule};

/// `forced_end`.
pub(super) struct ForcedEnd;

impl Rule for ForcedEnd {
    type Parameters = Length;

    const NAME: &'static str = "forced_end";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Length, visitor: &mut dyn Visitor) {
        it.parameters(1, visitor);
    }

    fn tells_prompt_from_tokens(_: &Length) -> bool {
        true
    }

    fn apply(it: &Length, row: &mut [f64], position: &Position, _: &Lookup) -> Result<(), Problem> {
        if position.tokens.len() as u64 + 1 >= u64::from(it.length) {
            allow(row, &it.end_tokens);
        }
        Ok(())
    }
}
