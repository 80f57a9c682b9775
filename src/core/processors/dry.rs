//! `dry` ("don't repeat yourself"): penalizes a token by the length of the repetition it would continue.

use super::breakers::Breakers;
use super::error::Problem;
use super::history::{Window, common_prefixes};
use super::parameters::{Range, Visitor};
use super::row::{finite, logit_of};
use super::rule::{Lookup, Position, Rule};
use crate::core::rank::ordered;

/// DRY ("don't repeat yourself"): penalizes a token by the length of the repetition it would continue.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Dry {
    /// Logits at the allowed length, ≥ 0.
    pub multiplier: f64,
    /// Growth for each token beyond it, ≥ 1.
    pub base: f64,
    /// Shorter repetitions cost nothing; ≥ 1.
    pub allowed_length: u32,
    /// The history that counts.
    pub window: Window,
    /// Token sequences that end a repetition.
    pub breakers: Vec<Vec<u32>>,
}

impl Dry {
    fn parameters(&mut self, visitor: &mut dyn Visitor) {
        visitor.number("multiplier", &mut self.multiplier, Range::AtLeast(0.0));
        visitor.number("base", &mut self.base, Range::AtLeast(1.0));
        visitor.count("allowed_length", &mut self.allowed_length, 1, None);
        self.window.parameters(visitor);
        visitor.sequences("breakers", &mut self.breakers, false);
    }

    fn lookup(&self) -> Lookup {
        Lookup { breakers: Breakers::new(&self.breakers), ..Lookup::default() }
    }
}

/// Version 1: penalizes its breakers too. Kept so that stored runs replay.
pub(super) struct Version1;

impl Rule for Version1 {
    type Parameters = Dry;

    const NAME: &'static str = "dry";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Dry, visitor: &mut dyn Visitor) {
        it.parameters(visitor);
    }

    fn lookup(it: &Dry) -> Lookup {
        it.lookup()
    }

    fn tells_prompt_from_tokens(it: &Dry) -> bool {
        !it.window.prompt
    }

    fn apply(it: &Dry, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem> {
        apply(row, position, it, &lookup.breakers, false)
    }
}

/// Version 2: does not penalize tokens that are a breaker by themselves.
pub(super) struct Version2;

impl Rule for Version2 {
    type Parameters = Dry;

    const NAME: &'static str = "dry";
    const VERSION: u32 = 2;

    fn parameters(it: &mut Dry, visitor: &mut dyn Visitor) {
        it.parameters(visitor);
    }

    fn lookup(it: &Dry) -> Lookup {
        it.lookup()
    }

    fn tells_prompt_from_tokens(it: &Dry) -> bool {
        !it.window.prompt
    }

    fn apply(it: &Dry, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem> {
        apply(row, position, it, &lookup.breakers, true)
    }
}

/// Where the power of DRY stops growing: 2^100.
const POWER_LIMIT: f64 = f64::from_bits((1023 + 100) << 52);

/// The powers of a base from 0 to `most`, each the previous one times the base, up to the first at the limit.
fn powers(base: f64, most: usize) -> Vec<f64> {
    let mut powers = vec![1.0];
    let mut power = 1.0;
    while powers.len() <= most && power < POWER_LIMIT && base != 1.0 {
        power *= base;
        powers.push(power);
    }
    powers
}

/// `exempt`: whether tokens that are a breaker by themselves are not penalized.
fn apply(row: &mut [f64], position: &Position, it: &Dry, breakers: &Breakers, exempt: bool) -> Result<(), Problem> {
    let mut history = it.window.tokens(position);
    let reach = breakers.tokens_after_last(&history);
    if reach < it.allowed_length as usize {
        return Ok(());
    }
    history.reverse();
    // The length of the repetition each token would continue, by ascending id.
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
