//! `xtc` ("exclude top choices"): bans the most probable tokens with a given probability.

use super::breakers::ascending;
use super::error::Problem;
use super::parameters::{List, Range, Visitor};
use super::row::lowest_of;
use super::rule::{Lookup, Position, Rule};
use super::softmax::Softmax;
use crate::core::splitmix::{streams, uniform};

/// XTC ("exclude top choices"): bans the most probable tokens with a given probability.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Xtc {
    /// The probability that the rule acts, 0 to 1.
    pub probability: f64,
    /// The least probability of a top choice, 0 to 1.
    pub threshold: f64,
    /// Token ids that are never banned.
    pub exempt: Vec<u32>,
}

/// Version 1.
pub(super) struct Version1;

impl Rule for Version1 {
    type Parameters = Xtc;

    const NAME: &'static str = "xtc";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Xtc, visitor: &mut dyn Visitor) {
        visitor.number("probability", &mut it.probability, Range::Within(0.0, 1.0));
        visitor.number("threshold", &mut it.threshold, Range::Within(0.0, 1.0));
        visitor.tokens("exempt", &mut it.exempt, List::OptionalSet);
    }

    fn lookup(it: &Xtc) -> Lookup {
        Lookup { exempt: ascending(it.exempt.iter().copied()), ..Lookup::default() }
    }

    fn apply(it: &Xtc, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem> {
        if it.probability <= uniform(position.seed, position.tokens.len() as u64, streams::XTC) {
            return Ok(());
        }
        Softmax::of(row, |row, softmax| {
            let top = || softmax.ids.iter().zip(&softmax.probabilities).filter(|(_, p)| **p >= it.threshold);
            let least = lowest_of(top().map(|(_, p)| *p));
            for (id, p) in top() {
                if *p > least && lookup.exempt.binary_search(id).is_err() {
                    row[*id as usize] = f64::NEG_INFINITY;
                }
            }
        });
        Ok(())
    }
}
