//! `allow`: keeps only these tokens.

use super::error::Problem;
use super::parameters::{List, Visitor};
use super::row;
use super::rule::{Lookup, Position, Rule};

/// `allow`.
pub(super) struct Allow;

impl Rule for Allow {
    type Parameters = Vec<u32>;

    const NAME: &'static str = "allow";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Vec<u32>, visitor: &mut dyn Visitor) {
        visitor.tokens("tokens", it, List::Set);
    }

    fn apply(it: &Vec<u32>, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        row::allow(row, it);
        Ok(())
    }
}
