//! Finding many token sequences in a history at once.

use std::ops::Range;

use crate::core::rank::ordered;

/// The breaker sequences of DRY, prepared once for a list of processors. A search takes time linear in the history, times the
/// logarithm of the number of sequences.
#[derive(Debug, Default)]
pub struct Breakers {
    /// The sequences of one token, ascending.
    single: Vec<u32>,
    /// The longer sequences.
    several: Option<Automaton>,
}

impl Breakers {
    pub fn new(sequences: &[Vec<u32>]) -> Self {
        let single = sequences.iter().filter(|sequence| sequence.len() == 1).map(|sequence| sequence[0]);
        let several = sequences.iter().filter(|sequence| sequence.len() > 1).map(Vec::as_slice);
        Self { single: ascending(single), several: Automaton::new(several.collect()) }
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
///
/// A state is a prefix of a sequence; state 0 is the empty prefix. Shorter prefixes come first, so that the successors of a
/// state are adjacent and sorted by token.
#[derive(Debug)]
struct Automaton {
    /// The last token of each state.
    tokens: Vec<u32>,
    states: Vec<State>,
    /// The length of the longest sequence.
    longest: usize,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// The successors of this state.
    next: Range<usize>,
    /// The state of the longest proper suffix that is also a prefix.
    fallback: usize,
    /// Whether a sequence ends here.
    is_end: bool,
}

impl Automaton {
    /// `None` where there are no sequences.
    fn new(mut sequences: Vec<&[u32]>) -> Option<Self> {
        let longest = sequences.iter().map(|sequence| sequence.len()).max()?;
        sequences.sort_unstable();
        let mut automaton = Self { tokens: vec![0], states: Vec::new(), longest };
        // For each state, the (adjacent) sequences that begin with its prefix, and the length of the prefix.
        let mut begin = vec![(0..sequences.len(), 0)];
        let mut state = 0;
        while let Some((with, length)) = begin.get(state).cloned() {
            let first = begin.len();
            // Those that end here come first.
            let whole = sequences[with.clone()].partition_point(|sequence| sequence.len() == length);
            let mut from = with.start + whole;
            while from < with.end {
                let token = sequences[from][length];
                let to = from + sequences[from..with.end].partition_point(|sequence| sequence[length] == token);
                automaton.tokens.push(token);
                begin.push((from..to, length + 1));
                from = to;
            }
            automaton.states.push(State { next: first..begin.len(), fallback: 0, is_end: whole > 0 });
            state += 1;
        }
        // A fallback is shorter than its state, so it is already known.
        for state in 1..automaton.states.len() {
            for next in automaton.states[state].next.clone() {
                let fallback = automaton.after(automaton.states[state].fallback, automaton.tokens[next]);
                automaton.states[next].fallback = fallback;
                automaton.states[next].is_end |= automaton.states[fallback].is_end;
            }
        }
        Some(automaton)
    }

    fn after(&self, state: usize, token: u32) -> usize {
        let mut state = state;
        loop {
            let State { next, fallback, .. } = &self.states[state];
            match self.tokens[next.clone()].binary_search(&token) {
                Ok(at) => return next.start + at,
                Err(_) if state == 0 => return 0,
                Err(_) => state = *fallback,
            }
        }
    }

    /// The end of the sequence that ends last.
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

#[cfg(test)]
mod tests {
    use super::Breakers;
    use crate::core::splitmix::draw;

    /// Compared with a search at every position. Only three tokens, so that sequences overlap.
    #[test]
    fn the_breaker_that_ends_last_is_found() {
        let after = |sequences: &[Vec<u32>], history: &[u32]| Breakers::new(sequences).tokens_after_last(history);
        assert_eq!(after(&[vec![1, 1, 2]], &[1, 1, 1, 2, 9]), 1);
        for case in 0..2000 {
            let random = |at: u64, below: u64| draw(case, at, 0) % below;
            let tokens =
                |at: u64, length: u64| (0..length).map(|i| random(1000 * at + i, 3) as u32).collect::<Vec<u32>>();
            let sequences: Vec<Vec<u32>> = (1..1 + random(1, 4)).map(|at| tokens(at, 1 + random(at + 9, 5))).collect();
            let history = tokens(50, random(2, 12));
            let ends =
                (0..=history.len()).filter(|end| sequences.iter().any(|sequence| history[..*end].ends_with(sequence)));
            let expected = history.len() - ends.max().unwrap_or(0);
            assert_eq!(after(&sequences, &history), expected, "{sequences:?} in {history:?}");
        }
    }
}
