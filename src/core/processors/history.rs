//! Processors that look at the tokens so far. Each works in time linear in the history, the row and its parameters.

use super::breakers::Breakers;
use super::fixed::{deny, finite, logit_of};
use super::{Dry, Penalty, Position, Problem, Window};
use crate::core::rank::ordered;

/// The tokens that count, oldest first.
fn tokens(position: &Position, window: Window) -> Vec<u32> {
    let prompt = if window.prompt { position.prompt } else { &[] };
    let mut history = [prompt, position.tokens].concat();
    if let Some(last) = window.last {
        let surplus = history.len().saturating_sub(last as usize);
        history.drain(..surplus);
    }
    history
}

/// Replaces the logit of every allowed token of the history that is not exempt: `with(logit, count)`. `exempt` ascends.
fn penalize(
    row: &mut [f64],
    position: &Position,
    window: Window,
    exempt: &[u32],
    with: impl Fn(f64, f64) -> f64,
) -> Result<(), Problem> {
    let history = tokens(position, window);
    let history = ordered(history.iter().map(|id| (u64::from(*id), *id)).collect());
    for same in history.chunk_by(|a, b| a == b) {
        let id = same[0].1;
        if exempt.binary_search(&id).is_err()
            && let Some(logit) = logit_of(row, id)
        {
            *logit = finite(id, with(*logit, same.len() as f64))?;
        }
    }
    Ok(())
}

pub(super) fn repetition(row: &mut [f64], at: &Position, it: &Penalty, exempt: &[u32]) -> Result<(), Problem> {
    let with = |logit, _| if logit > 0.0 { logit / it.penalty } else { logit * it.penalty };
    penalize(row, at, it.window, exempt, with)
}

pub(super) fn frequency(row: &mut [f64], at: &Position, it: &Penalty, exempt: &[u32]) -> Result<(), Problem> {
    penalize(row, at, it.window, exempt, |logit, count| logit - it.penalty * count)
}

pub(super) fn presence(row: &mut [f64], at: &Position, it: &Penalty, exempt: &[u32]) -> Result<(), Problem> {
    penalize(row, at, it.window, exempt, |logit, _| logit - it.penalty)
}

pub(super) fn no_repeat_ngram(row: &mut [f64], position: &Position, size: u32, window: Window) {
    let mut history = tokens(position, window);
    history.reverse();
    let before = size as usize - 1;
    // The token at `at` is followed, backwards, by as many tokens as match the end of the history.
    let lengths = common_prefixes(&history);
    for (at, &id) in history.iter().enumerate() {
        if lengths.get(at + 1).copied().unwrap_or(0) >= before {
            deny(row, &[id]);
        }
    }
}

pub(super) fn bad_words(row: &mut [f64], position: &Position, words: &[Vec<u32>]) {
    let history = tokens(position, Window::default());
    for word in words {
        if let Some((last, before)) = word.split_last()
            && history.ends_with(before)
        {
            deny(row, &[*last]);
        }
    }
}

/// Where the power of DRY stops growing: 2^100.
const POWER_LIMIT: f64 = f64::from_bits((1023 + 100) << 52);

/// The powers of a base from 0 to `most`, each the one before times the base, and no further once one is at the limit.
fn powers(base: f64, most: usize) -> Vec<f64> {
    let mut powers = vec![1.0];
    let mut power = 1.0;
    while powers.len() <= most && power < POWER_LIMIT && base != 1.0 {
        power *= base;
        powers.push(power);
    }
    powers
}

/// `exempt`: whether tokens that are a breaker by themselves are left alone.
pub(super) fn dry(
    row: &mut [f64],
    position: &Position,
    it: &Dry,
    breakers: &Breakers,
    exempt: bool,
) -> Result<(), Problem> {
    let mut history = tokens(position, it.window);
    let reach = breakers.tokens_after_last(&history);
    if reach < it.allowed_length as usize {
        return Ok(());
    }
    history.reverse();
    // How long the repetition is that each token would go on with; in ascending order of ids.
    let lengths = common_prefixes(&history);
    let repeats = (1..history.len())
        .map(|at| (history[at - 1].into(), lengths[at].min(reach) as u32))
        .filter(|&(_, length)| length >= it.allowed_length);
    let repeats = ordered(repeats.collect());
    let longest = |of: &[(u64, u32)]| of.iter().fold(0, |longest, &(_, length)| longest.max(length));
    let exponent = |length: u32| length.saturating_sub(it.allowed_length) as usize;
    let powers = powers(it.base, exponent(longest(&repeats)));
    for same in repeats.chunk_by(|a, b| a.0 == b.0) {
        let id = same[0].0 as u32;
        if let Some(logit) = logit_of(row, id)
            && !(exempt && breakers.is_single(id))
        {
            let power = powers[exponent(longest(same)).min(powers.len() - 1)];
            *logit = finite(id, *logit - it.multiplier * power)?;
        }
    }
    Ok(())
}

/// For each place, how many tokens from there on are those from the start on (the Z-function; linear time).
/// Gusfield, "Algorithms on Strings, Trees, and Sequences", 1997, section 1.4.
fn common_prefixes(text: &[u32]) -> Vec<usize> {
    let mut lengths = vec![text.len(); text.len()];
    let (mut start, mut end) = (0, 0);
    for at in 1..text.len() {
        let mut length = if at < end { lengths[at - start].min(end - at) } else { 0 };
        while at + length < text.len() && text[length] == text[at + length] {
            length += 1;
        }
        if at + length > end {
            (start, end) = (at, at + length);
        }
        lengths[at] = length;
    }
    lengths
}
