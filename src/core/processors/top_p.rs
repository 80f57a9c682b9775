//! `top_p`: keeps the smallest nucleus whose probabilities reach p.

use super::error::Problem;
use super::filter::Filter;
use super::parameters::{Range, Visitor};
use super::row::{keep, keep_with_minimum};
use super::rule::{Lookup, Position, Rule};
use super::softmax::Softmax;
use crate::core::distribution::nucleus;

/// Version 1: `min_keep` counts by logit. Kept so that stored runs replay.
pub(super) struct Version1;

impl Rule for Version1 {
    type Parameters = Filter;

    const NAME: &'static str = "top_p";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("p", Range::Within(0.0, 1.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        if it.value < 1.0 {
            Softmax::of(row, |row, softmax| {
                let kept = nucleus(&softmax.probabilities, it.value, 1);
                keep_with_minimum(row, kept.into_iter().map(|at| softmax.ids[at as usize]), it.min_keep);
            });
        }
        Ok(())
    }
}

/// Version 2: `min_keep` counts by probability, the order of the rule.
pub(super) struct Version2;

impl Rule for Version2 {
    type Parameters = Filter;

    const NAME: &'static str = "top_p";
    const VERSION: u32 = 2;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("p", Range::Within(0.0, 1.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        if it.value < 1.0 {
            Softmax::of(row, |row, softmax| {
                let kept = nucleus(&softmax.probabilities, it.value, it.min_keep);
                keep(row, kept.into_iter().map(|at| softmax.ids[at as usize]));
            });
        }
        Ok(())
    }
}
