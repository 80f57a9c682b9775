//! Processors that keep a part of the row, by rank, probability or distance.

use std::cell::Cell;

use super::{Filter, Position, Problem, Xtc};
use crate::core::distribution::{best_of, nucleus};
use crate::core::exp::exp;
use crate::core::ln::ln;
use crate::core::logits::Row;
use crate::core::rank::first;
use crate::core::splitmix::{streams, uniform};

/// The allowed tokens, ids ascending, with logits and probabilities at temperature 1.
#[derive(Default)]
struct Softmax {
    ids: Vec<u32>,
    logits: Vec<f64>,
    probabilities: Vec<f64>,
    highest: f64,
    /// S: the sum of the weights.
    sum: f64,
}

thread_local! {
    /// Kept from one token to the next, for runs whose processors look at probabilities: 20 bytes for each token that was ever
    /// allowed at once.
    static SOFTMAX: Cell<Softmax> = Cell::default();
}

impl Softmax {
    /// Calls `with` with the row and its softmax.
    fn of<T>(row: &mut [f64], with: impl FnOnce(&mut [f64], &Self) -> T) -> T {
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
    fn entropy(&self) -> f64 {
        let mut entropy = 0.0;
        for (p, g) in self.probabilities.iter().zip(self.log_probabilities()) {
            entropy += -(p * g);
        }
        entropy
    }

    /// The first tokens by (distance from the entropy low first, id low first), up to the one at which their probabilities
    /// add up to `mass`, and `least` of them at least.
    fn most_typical(&self, mass: f64, least: u32) -> Vec<u32> {
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
    fn least_logit(&self, probability: f64) -> f64 {
        let likely = self.logits.iter().zip(&self.probabilities).filter(|(_, p)| **p >= probability);
        lowest_of(likely.map(|(logit, _)| *logit))
    }
}

fn allowed(row: &[f64]) -> impl Iterator<Item = (u32, f64)> {
    (0..).zip(row).map(|(id, logit)| (id, *logit)).filter(|&(_, logit)| logit != f64::NEG_INFINITY)
}

/// −∞ where there is none.
fn highest_of(logits: &[f64]) -> f64 {
    logits.iter().fold(f64::NEG_INFINITY, |highest, &logit| if logit > highest { logit } else { highest })
}

/// ∞ where there is none.
fn lowest_of(logits: impl Iterator<Item = f64>) -> f64 {
    logits.fold(f64::INFINITY, |lowest, logit| if logit < lowest { logit } else { lowest })
}

/// Bans all tokens but those with this logit or a higher one and the first `min_keep` by (logit high first, id low first).
fn keep_from(row: &mut [f64], least: f64, min_keep: u32) {
    let kept = row.iter().filter(|logit| **logit >= least).count();
    // Where there are that many, the first ones are among them.
    let best = if kept < min_keep as usize { best(row, min_keep) } else { Vec::new() };
    let mut best = best.into_iter().peekable();
    for (id, logit) in (0..).zip(row) {
        let is_best = best.next_if_eq(&id).is_some();
        if !is_best && *logit < least {
            *logit = f64::NEG_INFINITY;
        }
    }
}

/// Bans all tokens but these and the first `min_keep` by (logit high first, id low first).
fn keep_and_best(row: &mut [f64], kept: impl IntoIterator<Item = u32>, min_keep: u32) {
    let best = best(row, min_keep);
    keep(row, kept.into_iter().chain(best));
}

/// Bans all tokens but these.
fn keep(row: &mut [f64], kept: impl IntoIterator<Item = u32>) {
    let mut stays = vec![false; row.len()];
    for id in kept {
        stays[id as usize] = true;
    }
    for (logit, stays) in row.iter_mut().zip(stays) {
        if !stays {
            *logit = f64::NEG_INFINITY;
        }
    }
}

/// The first k allowed tokens by (logit high first, id low first); none where none is allowed.
fn best(row: &[f64], k: u32) -> Vec<u32> {
    Row::new(row).map_or_else(|_| Vec::new(), |row| best_of(&row, k))
}

pub(super) fn top_k(row: &mut [f64], k: u32) {
    keep_from(row, f64::INFINITY, k);
}

pub(super) fn top_p(row: &mut [f64], it: &Filter) {
    if it.value < 1.0 {
        Softmax::of(row, |row, softmax| {
            let kept = nucleus(&softmax.probabilities, it.value, 1);
            keep_and_best(row, kept.into_iter().map(|at| softmax.ids[at as usize]), it.min_keep);
        });
    }
}

/// Version 2: `min_keep` counts in the order of the rule.
pub(super) fn top_p_2(row: &mut [f64], it: &Filter) {
    if it.value < 1.0 {
        Softmax::of(row, |row, softmax| {
            let kept = nucleus(&softmax.probabilities, it.value, it.min_keep);
            keep(row, kept.into_iter().map(|at| softmax.ids[at as usize]));
        });
    }
}

/// w_i ≥ p is compared through the logits: the correctly rounded exp is monotone.
pub(super) fn min_p(row: &mut [f64], it: &Filter) {
    let highest = highest_of(row);
    let least = least_argument(it.value);
    let likely = allowed(row).map(|(_, logit)| logit).filter(|logit| logit - highest >= least);
    keep_from(row, lowest_of(likely), it.min_keep);
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

pub(super) fn typical(row: &mut [f64], it: &Filter) {
    Softmax::of(row, |row, softmax| {
        let kept = softmax.most_typical(it.value, 1);
        keep_and_best(row, kept, it.min_keep);
    });
}

/// Version 2: `min_keep` counts in the order of the rule, and 1 keeps all.
pub(super) fn typical_2(row: &mut [f64], it: &Filter) {
    if it.value < 1.0 {
        Softmax::of(row, |row, softmax| {
            let kept = softmax.most_typical(it.value, it.min_keep);
            keep(row, kept);
        });
    }
}

pub(super) fn epsilon(row: &mut [f64], it: &Filter) {
    Softmax::of(row, |row, softmax| keep_from(row, softmax.least_logit(it.value), it.min_keep));
}

pub(super) fn eta(row: &mut [f64], it: &Filter) {
    Softmax::of(row, |row, softmax| {
        let scaled = it.value.sqrt() * exp(-softmax.entropy());
        let eta = if scaled < it.value { scaled } else { it.value };
        keep_from(row, softmax.least_logit(eta), it.min_keep);
    });
}

pub(super) fn top_n_sigma(row: &mut [f64], it: &Filter) -> Result<(), Problem> {
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

/// The uniform number of XTC at this step.
pub(super) fn xtc_uniform(position: &Position) -> f64 {
    uniform(position.seed, position.tokens.len() as u64, streams::XTC)
}

/// Leaves out the top choices. `exempt` ascends.
pub(super) fn xtc(row: &mut [f64], it: &Xtc, exempt: &[u32]) {
    Softmax::of(row, |row, softmax| {
        let top = || softmax.ids.iter().zip(&softmax.probabilities).filter(|(_, p)| **p >= it.threshold);
        let least = lowest_of(top().map(|(_, p)| *p));
        for (id, p) in top() {
            if *p > least && exempt.binary_search(id).is_err() {
                row[*id as usize] = f64::NEG_INFINITY;
            }
        }
    });
}
