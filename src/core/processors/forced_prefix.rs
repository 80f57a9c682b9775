//! `forced_prefix`: the first tokens of the run.

use super::error::Problem;
use super::parameters::{List, Visitor};
use super::row::allow;
use super::rule::{Lookup, Position, Rule};

/// `forced_prefix`.
pub(super) struct ForcedPrefix;

impl Rule for ForcedPrefix {
    type Parameters = Vec<u32>;

    const NAME: &'static str = "forced_prefix";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Vec<u32>, visitor: &mut dyn Visitor) {
        visitor.tokens("tokens", it, List::Sequence);
    }

    fn tells_prompt_from_tokens(_: &Vec<u32>) -> bool {
        true
    }

    fn apply(it: &Vec<u32>, row: &mut [f64], position: &Position, _: &Lookup) -> Result<(), Problem> {
        if let Some(token) = it.get(position.tokens.len()) {
            allow(row, &[*token]);
        }
        Ok(())
    }
}
