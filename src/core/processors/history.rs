//! Processors that look at the tokens so far.

use super::fixed::{deny, finite};
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

/// Replaces the logit of every allowed token of the history that is not exempt: `with(logit, count)`.
fn penalize(
    row: &mut [f64],
    position: &Position,
    penalty: &Penalty,
    with: impl Fn(f64, f64) -> f64,
) -> Result<(), Problem> {
    let history = tokens(position, penalty.window);
    let history = ordered(history.iter().map(|id| (u64::from(*id), *id)).collect());
    for same in history.chunk_by(|a, b| a == b) {
        let id = same[0].1;
        let Some(logit) = row.get_mut(id as usize).filter(|logit| **logit != f64::NEG_INFINITY) else { continue };
        if !penalty.exempt.contains(&id) {
            *logit = finite(id, with(*logit, same.len() as f64))?;
        }
    }
    Ok(())
}

pub(super) fn repetition(row: &mut [f64], position: &Position, it: &Penalty) -> Result<(), Problem> {
    penalize(row, position, it, |logit, _| if logit > 0.0 { logit / it.penalty } else { logit * it.penalty })
}

pub(super) fn frequency(row: &mut [f64], position: &Position, it: &Penalty) -> Result<(), Problem> {
    penalize(row, position, it, |logit, count| logit - it.penalty * count)
}

pub(super) fn presence(row: &mut [f64], position: &Position, it: &Penalty) -> Result<(), Problem> {
    penalize(row, position, it, |logit, _| logit - it.penalty)
}

pub(super) fn no_repeat_ngram(row: &mut [f64], position: &Position, size: u32, window: Window) {
    let history = tokens(position, window);
    let before = size as usize - 1;
    let Some(start) = history.len().checked_sub(before) else { return };
    let last = &history[start..];
    for ngram in history.windows(size as usize) {
        if &ngram[..before] == last
            && let Some(logit) = row.get_mut(ngram[before] as usize)
        {
            *logit = f64::NEG_INFINITY;
        }
    }
}

pub(super) fn bad_words(row: &mut [f64], position: &Position, words: &[Vec<u32>]) -> Result<(), Problem> {
    let history = tokens(position, Window::default());
    for word in words {
        if let Some((last, before)) = word.split_last()
            && history.ends_with(before)
        {
            deny(row, &[*last])?;
        }
    }
    Ok(())
}

/// Where the power of DRY stops growing: 2^100.
const POWER_LIMIT: f64 = f64::from_bits((1023 + 100) << 52);

/// base^exponent from 1 by products, no further once it is at the limit.
fn power(base: f64, exponent: u32) -> f64 {
    let mut power = 1.0;
    for _ in 0..exponent {
        if power >= POWER_LIMIT || base == 1.0 {
            break;
        }
        power *= base;
    }
    power
}

pub(super) fn dry(row: &mut [f64], position: &Position, it: &Dry) -> Result<(), Problem> {
    let mut history = tokens(position, it.window);
    let reach = after_last_breaker(&history, &it.breakers);
    if reach < it.allowed_length as usize {
        return Ok(());
    }
    history.reverse();
    // How long the repetition is that each token would go on with; in ascending order of ids.
    let lengths = common_prefixes(&history);
    let repeats = (1..history.len())
        .map(|at| (history[at - 1].into(), lengths[at].min(reach) as u32))
        .filter(|&(_, length)| length >= it.allowed_length);
    for same in ordered(repeats.collect()).chunk_by(|a, b| a.0 == b.0) {
        let id = same[0].0 as u32;
        let length = same.iter().fold(0, |longest, &(_, length)| longest.max(length));
        if let Some(logit) = row.get_mut(id as usize).filter(|logit| **logit != f64::NEG_INFINITY) {
            *logit = finite(id, *logit - it.multiplier * power(it.base, length - it.allowed_length))?;
        }
    }
    Ok(())
}

/// How many tokens follow the last breaker sequence; all of them where there is none.
fn after_last_breaker(history: &[u32], breakers: &[Vec<u32>]) -> usize {
    let mut end = history.len();
    while end > 0 {
        if breakers.iter().any(|breaker| history[..end].ends_with(breaker)) {
            break;
        }
        end -= 1;
    }
    history.len() - end
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
