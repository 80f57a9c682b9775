//! `deny`: bans these tokens.

use super::error::Problem;
use super::parameters::{List, Visitor};
use super::row;
use super::rule::{Lookup, Position, Rule};

/// `deny`.
pub(super) struct Deny;

impl Rule for Deny {
    type Parameters = Vec<u32>;

    const NAME: &'static str = "deny";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Vec<u32>, visitor: &mut dyn Visitor) {
        visitor.tokens("tokens", it, List::Set);
    }

    fn apply(it: &Vec<u32>, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        row::deny(row, it);
        Ok(())
    }
}
