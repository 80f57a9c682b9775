//! Sequences of tokens that are looked for at the end of a history, all at once.

use std::collections::BTreeMap;

use crate::core::rank::ordered;

/// The breaker sequences of DRY, ready to be looked for. Made once for a list of processors, in time linear in the
/// sequences but for a logarithm; a look is linear in the history, however many sequences there are.
#[derive(Debug, Default)]
pub struct Breakers {
    /// Those of one token, ascending.
    single: Vec<u32>,
    /// Those of more than one.
    several: Option<Automaton>,
}

impl Breakers {
    pub fn new(sequences: &[Vec<u32>]) -> Self {
        let single = sequences.iter().filter(|sequence| sequence.len() == 1).map(|sequence| sequence[0]);
        let several = sequences.iter().filter(|sequence| sequence.len() > 1).map(Vec::as_slice);
        Self { single: ascending(single), several: Automaton::new(several) }
    }

    /// Whether the token is a breaker by itself.
    pub fn is_single(&self, token: u32) -> bool {
        self.single.binary_search(&token).is_ok()
    }

    /// How many tokens follow the breaker that ends last in the history; all of them where there is none.
    pub fn tokens_after_last(&self, history: &[u32]) -> usize {
        let last_single =
            if self.single.is_empty() { None } else { history.iter().rposition(|token| self.is_single(*token)) };
        let mut end = last_single.map_or(0, |at| at + 1);
        if let Some(automaton) = &self.several {
            // One that ends after that begins less than its length before it.
            let start = (end + 1).saturating_sub(automaton.longest);
            end = automaton.last_end(&history[start..]).map_or(end, |found| end.max(start + found));
        }
        history.len() - end
    }
}

/// Token ids, ascending.
pub fn ascending(ids: impl Iterator<Item = u32>) -> Vec<u32> {
    ordered(ids.map(|id| (u64::from(id), id)).collect()).into_iter().map(|(_, id)| id).collect()
}

/// Finds every occurrence of many sequences in one pass. Aho and Corasick, "Efficient string matching: an aid to
/// bibliographic search", 1975.
#[derive(Debug)]
struct Automaton {
    /// The state after a token. A state stands for a beginning of a sequence; 0 for nothing.
    next: BTreeMap<(usize, u32), usize>,
    states: Vec<State>,
    /// The length of the longest sequence.
    longest: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The state of the longest proper suffix that begins a sequence too.
    fallback: usize,
    /// Whether a sequence ends here.
    is_end: bool,
}

impl Automaton {
    /// `None` where there are no sequences.
    fn new<'a>(sequences: impl Iterator<Item = &'a [u32]>) -> Option<Self> {
        let mut automaton = Self { next: BTreeMap::new(), states: vec![State::default()], longest: 0 };
        // How each state was reached, and the length of what it stands for.
        let mut reached = vec![(0, 0)];
        let mut lengths = vec![(0, 0)];
        for sequence in sequences {
            let mut state = 0;
            for (before, &token) in sequence.iter().enumerate() {
                let new = automaton.states.len();
                let to = *automaton.next.entry((state, token)).or_insert(new);
                if to == new {
                    automaton.states.push(State::default());
                    reached.push((state, token));
                    lengths.push((before as u64 + 1, new as u32));
                }
                state = to;
            }
            automaton.states[state].is_end = true;
            automaton.longest = automaton.longest.max(sequence.len());
        }
        // Shorter ones first: a fallback is shorter than what falls back.
        for (length, state) in ordered(lengths) {
            let state = state as usize;
            if length > 1 {
                let (before, token) = reached[state];
                let fallback = automaton.after(automaton.states[before].fallback, token);
                let is_end = automaton.states[state].is_end || automaton.states[fallback].is_end;
                automaton.states[state] = State { fallback, is_end };
            }
        }
        (automaton.longest > 0).then_some(automaton)
    }

    fn after(&self, state: usize, token: u32) -> usize {
        let mut state = state;
        loop {
            match self.next.get(&(state, token)) {
                Some(next) => return *next,
                None if state == 0 => return 0,
                None => state = self.states[state].fallback,
            }
        }
    }

    /// Where the sequence that ends last ends.
    fn last_end(&self, text: &[u32]) -> Option<usize> {
        let (mut state, mut last) = (0, None);
        for (at, &token) in text.iter().enumerate() {
            state = self.after(state, token);
            if self.states[state].is_end {
                last = Some(at + 1);
            }
        }
        last
    }
}
