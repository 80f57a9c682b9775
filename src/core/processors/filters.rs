//! Processors that keep a part of the row, by rank, probability or distance.

use super::{Filter, Position, Problem, Xtc};
use crate::core::distribution::{best_of, nucleus};
use crate::core::exp::exp;
use crate::core::ln::ln;
use crate::core::logits::Row;
use crate::core::splitmix::{streams, uniform};

/// The allowed tokens, ids ascending, with logits and probabilities at temperature 1.
struct Softmax {
    ids: Vec<u32>,
    logits: Vec<f64>,
    probabilities: Vec<f64>,
    highest: f64,
    /// S: the sum of the weights.
    sum: f64,
}

impl Softmax {
    fn of(row: &[f64]) -> Self {
        let (ids, logits): (Vec<u32>, Vec<f64>) = allowed(row).unzip();
        let mut highest = f64::NEG_INFINITY;
        for &logit in &logits {
            if logit > highest {
                highest = logit;
            }
        }
        let mut probabilities = Vec::with_capacity(logits.len());
        let mut sum = 0.0;
        for logit in &logits {
            let weight = exp(logit - highest);
            probabilities.push(weight);
            sum += weight;
        }
        for probability in &mut probabilities {
            *probability /= sum;
        }
        Self { ids, logits, probabilities, highest, sum }
    }

    /// g_i: the logarithm of each probability.
    fn log_probabilities(&self) -> Vec<f64> {
        let ln_sum = ln(self.sum);
        self.logits.iter().map(|logit| (logit - self.highest) - ln_sum).collect()
    }
}

/// H of probabilities and their logarithms.
fn entropy(probabilities: &[f64], logarithms: &[f64]) -> f64 {
    let mut entropy = 0.0;
    for (p, g) in probabilities.iter().zip(logarithms) {
        entropy += -(p * g);
    }
    entropy
}

fn allowed(row: &[f64]) -> impl Iterator<Item = (u32, f64)> {
    (0..).zip(row).map(|(id, logit)| (id, *logit)).filter(|&(_, logit)| logit != f64::NEG_INFINITY)
}

/// Bans all tokens but these (ids ascending) and the first `min_keep` by (logit high first, id low first).
fn keep(row: &mut [f64], kept: impl IntoIterator<Item = u32>, min_keep: u32) {
    let best = best(row, min_keep);
    let mut stays = vec![false; row.len()];
    for id in kept.into_iter().chain(best) {
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

/// The ids whose number passes a test.
fn passing<'a>(ids: &'a [u32], numbers: &'a [f64], test: impl Fn(f64) -> bool + 'a) -> impl Iterator<Item = u32> + 'a {
    ids.iter().zip(numbers).filter(move |(_, number)| test(**number)).map(|(id, _)| *id)
}

pub(super) fn top_k(row: &mut [f64], k: u32) {
    keep(row, [], k);
}

pub(super) fn top_p(row: &mut [f64], it: &Filter) {
    if it.value < 1.0 {
        let softmax = Softmax::of(row);
        let kept = nucleus(&softmax.probabilities, it.value);
        keep(row, kept.into_iter().map(|at| softmax.ids[at as usize]), it.min_keep);
    }
}

/// w_i ≥ p is compared through the logits: the correctly rounded exp is monotone.
pub(super) fn min_p(row: &mut [f64], it: &Filter) {
    let (ids, logits): (Vec<u32>, Vec<f64>) = allowed(row).unzip();
    let mut highest = f64::NEG_INFINITY;
    for &logit in &logits {
        if logit > highest {
            highest = logit;
        }
    }
    let least = least_argument(it.value);
    keep(row, passing(&ids, &logits, |logit| logit - highest >= least), it.min_keep);
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
    let softmax = Softmax::of(row);
    let logarithms = softmax.log_probabilities();
    let entropy = entropy(&softmax.probabilities, &logarithms);
    // Bits of non-negative doubles are ordered as the doubles are.
    let distances = logarithms.iter().map(|g| (-g - entropy).abs().to_bits());
    let mut order: Vec<(u64, u32)> = distances.zip(0..).collect();
    order.sort_unstable();
    let mut sum = 0.0;
    let mut kept = 0;
    for (_, at) in &order {
        kept += 1;
        sum += softmax.probabilities[*at as usize];
        if sum >= it.value {
            break;
        }
    }
    keep(row, order[..kept].iter().map(|(_, at)| softmax.ids[*at as usize]), it.min_keep);
}

pub(super) fn epsilon(row: &mut [f64], it: &Filter) {
    let softmax = Softmax::of(row);
    keep(row, passing(&softmax.ids, &softmax.probabilities, |p| p >= it.value), it.min_keep);
}

pub(super) fn eta(row: &mut [f64], it: &Filter) {
    let softmax = Softmax::of(row);
    let entropy = entropy(&softmax.probabilities, &softmax.log_probabilities());
    let scaled = it.value.sqrt() * exp(-entropy);
    let eta = if scaled < it.value { scaled } else { it.value };
    keep(row, passing(&softmax.ids, &softmax.probabilities, |p| p >= eta), it.min_keep);
}

pub(super) fn top_n_sigma(row: &mut [f64], it: &Filter) -> Result<(), Problem> {
    let (ids, logits): (Vec<u32>, Vec<f64>) = allowed(row).unzip();
    let count = logits.len() as f64;
    let (mut sum, mut highest) = (0.0, f64::NEG_INFINITY);
    for &logit in &logits {
        sum += logit;
        if logit > highest {
            highest = logit;
        }
    }
    let mean = sum / count;
    let mut squares = 0.0;
    for logit in &logits {
        squares += (logit - mean) * (logit - mean);
    }
    let least = highest - it.value * (squares / count).sqrt();
    if !least.is_finite() {
        return Err(Problem::Overflow(None));
    }
    keep(row, passing(&ids, &logits, |logit| logit >= least), it.min_keep);
    Ok(())
}

/// The uniform number of XTC at this step.
pub(super) fn xtc_uniform(position: &Position) -> f64 {
    uniform(position.seed, position.tokens.len() as u64, streams::XTC)
}

/// Leaves out the top choices.
pub(super) fn xtc(row: &mut [f64], it: &Xtc) {
    let softmax = Softmax::of(row);
    let top = |p: f64| p >= it.threshold;
    let mut least = f64::INFINITY;
    for &p in &softmax.probabilities {
        if top(p) && p < least {
            least = p;
        }
    }
    for id in passing(&softmax.ids, &softmax.probabilities, |p| top(p) && p > least) {
        if !it.exempt.contains(&id) {
            row[id as usize] = f64::NEG_INFINITY;
        }
    }
}
