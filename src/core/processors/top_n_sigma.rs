//! `top_n_sigma`: keeps the logits that are at most n standard deviations below the highest.

use super::error::Problem;
use super::filter::Filter;
use super::parameters::{Range, Visitor};
use super::row::{allowed, highest_of, keep_from};
use super::rule::{Lookup, Position, Rule};

/// `top_n_sigma`.
pub(super) struct TopNSigma;

impl Rule for TopNSigma {
    type Parameters = Filter;

    const NAME: &'static str = "top_n_sigma";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("n", Range::Above(0.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        let logits = || allowed(row).map(|(_, logit)| logit);
        let (mut count, mut sum) = (0.0, 0.0);
        for logit in logits() {
            count += 1.0;
            sum += logit;
        }
        let mean = sum / count;
        let mut squares = 0.0;
        for logit in logits() {
            squares += (logit - mean) * (logit - mean);
        }
        let least = highest_of(row) - it.value * (squares / count).sqrt();
        if !least.is_finite() {
            return Err(Problem::Overflow(None));
        }
        keep_from(row, least, it.min_keep);
        Ok(())
    }
}
