//! `eta`: like `epsilon`, with a cutoff that decreases with the entropy.

use super::error::Problem;
use super::filter::Filter;
use super::parameters::{Range, Visitor};
use super::row::keep_from;
use super::rule::{Lookup, Position, Rule};
use super::softmax::Softmax;
use crate::core::exp::exp;

/// `eta`.
pub(super) struct Eta;

impl Rule for Eta {
    type Parameters = Filter;

    const NAME: &'static str = "eta";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("cutoff", Range::Between(0.0, 1.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        Softmax::of(row, |row, softmax| {
            let scaled = it.value.sqrt() * exp(-softmax.entropy());
            let eta = if scaled < it.value { scaled } else { it.value };
            keep_from(row, softmax.least_logit(eta), it.min_keep);
        });
        Ok(())
    }
}
