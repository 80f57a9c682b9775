//! `top_k`: keeps the k best tokens.

use super::error::Problem;
use super::parameters::Visitor;
use super::row::keep_from;
use super::rule::{Lookup, Position, Rule};

/// `top_k`.
pub(super) struct TopK;

impl Rule for TopK {
    type Parameters = u32;

    const NAME: &'static str = "top_k";
    const VERSION: u32 = 1;

    fn parameters(it: &mut u32, visitor: &mut dyn Visitor) {
        visitor.count("k", it, 1, None);
    }

    fn apply(it: &u32, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        keep_from(row, f64::INFINITY, *it);
        Ok(())
    }
}
