//! `logit_bias`: adds a bias to a token's logit.

use super::error::Problem;
use super::parameters::Visitor;
use super::row::{finite, logit_of};
use super::rule::{Lookup, Position, Rule};

/// `logit_bias`.
pub(super) struct LogitBias;

impl Rule for LogitBias {
    type Parameters = Vec<(u32, f64)>;

    const NAME: &'static str = "logit_bias";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Vec<(u32, f64)>, visitor: &mut dyn Visitor) {
        visitor.biases("biases", it);
    }

    fn apply(it: &Vec<(u32, f64)>, row: &mut [f64], _: &Position, _: &Lookup) -> Result<(), Problem> {
        for &(id, bias) in it {
            if let Some(logit) = logit_of(row, id) {
                *logit = finite(id, *logit + bias)?;
            }
        }
        Ok(())
    }
}
