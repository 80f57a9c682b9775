//! `typical`: keeps the tokens whose surprise is nearest to the entropy, until their probabilities reach p.

use super::error::Problem;
use super::filter::Filter;
use super::parameters::{Range, Visitor};
use super::row::{keep, keep_with_minimum};
use super::rule::{Lookup, Position, Rule};
use super::softmax::Softmax;

/// Version 1: `min_keep` counts by logit, so the best logit always stays. Kept so that stored runs replay.
pub(super) struct Version1;

impl Rule for Version1 {
    type Parameters = Filter;

    const NAME: &'static str = "typical";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("p", Range::Within(0.0, 1.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        Softmax::of(row, |row, softmax| {
            let kept = softmax.most_typical(it.value, 1);
            keep_with_minimum(row, kept, it.min_keep);
        });
        Ok(())
    }
}

/// Version 2: `min_keep` counts by distance from the entropy, the order of the rule; 1 keeps all.
pub(super) struct Version2;

impl Rule for Version2 {
    type Parameters = Filter;

    const NAME: &'static str = "typical";
    const VERSION: u32 = 2;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("p", Range::Within(0.0, 1.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        if it.value < 1.0 {
            Softmax::of(row, |row, softmax| {
                let kept = softmax.most_typical(it.value, it.min_keep);
                keep(row, kept);
            });
        }
        Ok(())
    }
}
