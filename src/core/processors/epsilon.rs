//! `epsilon`: keeps the tokens whose probability is at least the cutoff.

use super::error::Problem;
use super::filter::Filter;
use super::parameters::{Range, Visitor};
use super::row::keep_from;
use super::rule::{Lookup, Position, Rule};
use super::softmax::Softmax;

/// `epsilon`.
pub(super) struct Epsilon;

impl Rule for Epsilon {
    type Parameters = Filter;

    const NAME: &'static str = "epsilon";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("cutoff", Range::Between(0.0, 1.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        Softmax::of(row, |row, softmax| keep_from(row, softmax.least_logit(it.value), it.min_keep));
        Ok(())
    }
}
