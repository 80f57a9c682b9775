//! `min_p`: keeps the tokens whose probability is at least p times the highest.

use super::error::Problem;
use super::filter::Filter;
use super::parameters::{Range, Visitor};
use super::row::{allowed, highest_of, keep_from, lowest_of};
use super::rule::{Lookup, Position, Rule};
use crate::core::exp::exp;

/// `min_p`.
pub(super) struct MinP;

impl Rule for MinP {
    type Parameters = Filter;

    const NAME: &'static str = "min_p";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Filter, visitor: &mut dyn Visitor) {
        it.parameters("p", Range::Within(0.0, 1.0), visitor);
    }

    fn apply(it: &Filter, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        // w_i ≥ p is compared through the logits: the correctly rounded exp is monotone.
        let highest = highest_of(row);
        let least = least_argument(it.value);
        let likely = allowed(row).map(|(_, logit)| logit).filter(|logit| logit - highest >= least);
        keep_from(row, lowest_of(likely), it.min_keep);
        Ok(())
    }
}

/// The least x ≤ 0 with exp(x) ≥ p, for 0 ≤ p ≤ 1; −∞ for 0.
fn least_argument(p: f64) -> f64 {
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    // Bits of −x are ordered as −x is.
    let (mut inside, mut outside) = (0u64, 746.0f64.to_bits());
    while outside - inside > 1 {
        let middle = inside + (outside - inside) / 2;
        if exp(-f64::from_bits(middle)) >= p {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    -f64::from_bits(inside)
}
