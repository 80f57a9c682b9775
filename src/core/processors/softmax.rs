//! The probabilities of a row at temperature 1, for the processors that use them.

use std::cell::Cell;

use super::row::{allowed, highest_of, lowest_of};
use crate::core::exp::exp;
use crate::core::ln::ln;
use crate::core::rank::first;

/// The allowed tokens, ids ascending, with logits and probabilities at temperature 1.
#[derive(Default)]
pub(super) struct Softmax {
    pub ids: Vec<u32>,
    pub logits: Vec<f64>,
    pub probabilities: Vec<f64>,
    highest: f64,
    /// S: the sum of the weights.
    sum: f64,
}

thread_local! {
    /// Reused from token to token, for runs whose processors use probabilities: 20 bytes for each of the most tokens that were
    /// allowed at once.
    static SOFTMAX: Cell<Softmax> = const { Cell::new(Softmax::new()) };
}

impl Softmax {
    const fn new() -> Self {
        Self { ids: Vec::new(), logits: Vec::new(), probabilities: Vec::new(), highest: 0.0, sum: 0.0 }
    }

    /// Calls `with` with the row and its softmax.
    pub fn of<T>(row: &mut [f64], with: impl FnOnce(&mut [f64], &Self) -> T) -> T {
        // Taken out while in use, as the fast path's memory is.
        let mut softmax = SOFTMAX.take();
        softmax.fill(row);
        let result = with(row, &softmax);
        SOFTMAX.set(softmax);
        result
    }

    fn fill(&mut self, row: &[f64]) {
        let Self { ids, logits, probabilities, highest, sum } = self;
        ids.clear();
        logits.clear();
        for (id, logit) in allowed(row) {
            ids.push(id);
            logits.push(logit);
        }
        *highest = highest_of(logits);
        *sum = 0.0;
        probabilities.clear();
        for logit in logits {
            let weight = exp(*logit - *highest);
            probabilities.push(weight);
            *sum += weight;
        }
        for probability in probabilities {
            *probability /= *sum;
        }
    }

    /// g_i: the logarithm of each probability.
    fn log_probabilities(&self) -> impl Iterator<Item = f64> {
        let ln_sum = ln(self.sum);
        self.logits.iter().map(move |logit| (logit - self.highest) - ln_sum)
    }

    /// H.
    pub fn entropy(&self) -> f64 {
        let mut entropy = 0.0;
        for (p, g) in self.probabilities.iter().zip(self.log_probabilities()) {
            entropy += -(p * g);
        }
        entropy
    }

    /// The first tokens by (distance from the entropy low first, id low first), up to the one at which their probabilities
    /// add up to `mass`, at least `least` of them.
    pub fn most_typical(&self, mass: f64, least: u32) -> Vec<u32> {
        let entropy = self.entropy();
        // Bits of non-negative doubles are ordered as the doubles are.
        let distances = self.log_probabilities().map(|g| (-g - entropy).abs().to_bits());
        let mut sum = 0.0;
        let mut kept = Vec::new();
        first(&mut distances.zip(0..).collect(), &mut |(_, at)| {
            kept.push(self.ids[at as usize]);
            sum += self.probabilities[at as usize];
            sum >= mass && kept.len() >= least as usize
        });
        kept
    }

    /// The lowest logit whose probability is at least this; ∞ where there is none. Higher logits have no lower probability:
    /// the correctly rounded exp and the division are monotone.
    pub fn least_logit(&self, probability: f64) -> f64 {
        let likely = self.logits.iter().zip(&self.probabilities).filter(|(_, p)| **p >= probability);
        lowest_of(likely.map(|(logit, _)| *logit))
    }
}
