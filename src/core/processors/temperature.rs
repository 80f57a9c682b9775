//! `temperature`: divides every logit.

use super::error::Problem;
use super::parameters::{Range, Visitor};
use super::row::change;
use super::rule::{Lookup, Position, Rule};

/// `temperature`.
pub(super) struct Temperature;

impl Rule for Temperature {
    type Parameters = f64;

    const NAME: &'static str = "temperature";
    const VERSION: u32 = 1;

    fn parameters(it: &mut f64, visitor: &mut dyn Visitor) {
        visitor.number("temperature", it, Range::Above(0.0));
    }

    fn apply(it: &f64, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        change(row, |_, logit| logit / it)
    }
}
