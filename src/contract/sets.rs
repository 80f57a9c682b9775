//! What is a set, compared as one: in whatever order, and however often, its members are written.
//!
//! Ordered by [`ordered`], since each of the standard library's sorts would be another few kilobytes of the wasm.

use crate::core::processors::Processor;
use crate::core::rank::ordered;

/// The ids of a set, each once, ascending.
pub fn ids(set: &[u32]) -> Vec<u32> {
    let mut ids: Vec<u32> =
        ordered(set.iter().map(|&id| (id.into(), id)).collect()).into_iter().map(|rank| rank.1).collect();
    ids.dedup();
    ids
}

/// Whether two processors are one rule: their lists of ids, of sequences and of biases are sets.
pub fn same_rule(one: &Processor, other: &Processor) -> bool {
    let (mut one, mut other) = (one.clone(), other.clone());
    let words = [&mut one, &mut other].map(|processor| match processor {
        Processor::Dry(it) | Processor::DryV2(it) => std::mem::take(&mut it.breakers),
        Processor::BadWords(words) => std::mem::take(words),
        _ => Vec::new(),
    });
    for processor in [&mut one, &mut other] {
        if let Some(set) = set_of(processor) {
            *set = ids(set);
        }
        if let Processor::LogitBias(biases) = processor {
            // No id is there twice.
            let order = ordered((0..).zip(&*biases).map(|(at, &(id, _))| (id.into(), at)).collect());
            *biases = order.into_iter().map(|(_, at)| biases[at as usize]).collect();
        }
    }
    one == other && same_words(&words[0], &words[1])
}

/// The ids in a processor's parameters that are a set.
fn set_of(processor: &mut Processor) -> Option<&mut Vec<u32>> {
    match processor {
        Processor::RepetitionPenalty(it) | Processor::FrequencyPenalty(it) | Processor::PresencePenalty(it) => {
            Some(&mut it.exempt)
        }
        Processor::Xtc(it) => Some(&mut it.exempt),
        Processor::Allow(tokens) | Processor::Deny(tokens) => Some(tokens),
        Processor::MinLength { end_tokens, .. } | Processor::ForcedEnd { end_tokens, .. } => Some(end_tokens),
        _ => None,
    }
}

/// Whether two lists of sequences are one set.
fn same_words(one: &[Vec<u32>], other: &[Vec<u32>]) -> bool {
    // By a hash first, so that each is looked for among the few of the same hash.
    let hash =
        |word: &[u32]| word.iter().fold(7u64, |hash, &id| (hash ^ u64::from(id)).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let hashed = |words: &[Vec<u32>]| ordered((0..).zip(words).map(|(at, word)| (hash(word), at)).collect());
    let within = |words: &[Vec<u32>], others: &[Vec<u32>]| {
        let hashed = hashed(others);
        words.iter().all(|word| {
            let hash = hash(word);
            let from = hashed.partition_point(|rank| rank.0 < hash);
            let mut alike = hashed[from..].iter().take_while(|rank| rank.0 == hash);
            alike.any(|rank| others[rank.1 as usize] == *word)
        })
    };
    within(one, other) && within(other, one)
}
