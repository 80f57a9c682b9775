//! Contexts as they were right after a run's beginning, the last used first. Taking one gives the same bits, only
//! earlier: a fork shares what was computed and never writes to it.

use std::collections::VecDeque;

use crate::model::Session;

/// The contexts that are kept.
pub struct Prefills {
    most: usize,
    kept: VecDeque<Prefill>,
}

struct Prefill {
    tokens: Vec<u32>,
    session: Box<dyn Session>,
    logits: Vec<f32>,
}

impl Prefills {
    /// Keeps at most so many contexts.
    pub fn new(most: usize) -> Self {
        Self { most, kept: VecDeque::new() }
    }

    /// A fork of the context after these tokens, and the logits there.
    pub fn find(&mut self, tokens: &[u32]) -> Option<(Box<dyn Session>, Vec<f32>)> {
        let at = self.kept.iter().position(|kept| kept.tokens == tokens)?;
        let prefill = self.kept.remove(at)?;
        let found = (prefill.session.fork(), prefill.logits.clone());
        self.kept.push_front(prefill);
        Some(found)
    }

    /// Keeps a context that has been fed exactly these tokens, in place of the one that was not used for longest.
    pub fn keep(&mut self, tokens: &[u32], session: &dyn Session, logits: &[f32]) {
        if self.most == 0 {
            return;
        }
        self.kept.truncate(self.most - 1);
        self.kept.push_front(Prefill { tokens: tokens.to_vec(), session: session.fork(), logits: logits.to_vec() });
    }
}
