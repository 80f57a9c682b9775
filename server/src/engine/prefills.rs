//! A cache of contexts right after a prompt, the last used first. Using one changes no bit: a fork shares what was
//! computed and never writes to it.

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

#[cfg(test)]
mod tests {
    use super::Prefills;
    use crate::model::LanguageModel as _;
    use crate::model::tiny::Tiny;

    #[test]
    fn the_contexts_that_were_used_last_are_kept() {
        let model = Tiny::new().unwrap();
        let mut prefills = Prefills::new(2);
        let keep = |prefills: &mut Prefills, token: u32| {
            let mut session = model.open();
            let logits = session.read(&[token]).unwrap();
            prefills.keep(&[token], &*session, &logits);
            logits
        };
        let first = keep(&mut prefills, 98);
        keep(&mut prefills, 99);
        // Used again, so that the other one is given up for the third.
        let (mut session, logits) = prefills.find(&[98]).unwrap();
        assert_eq!(logits, first);
        keep(&mut prefills, 100);
        let kept = [98, 99, 100].map(|token| prefills.find(&[token]).is_some());
        assert_eq!(kept, [true, false, true]);
        assert!(prefills.find(&[98, 98]).is_none());

        // The context is that after these tokens.
        let mut whole = model.open();
        whole.read(&[98]).unwrap();
        assert_eq!(session.read(&[101]).unwrap(), whole.read(&[101]).unwrap());

        let mut none = Prefills::new(0);
        keep(&mut none, 98);
        assert!(none.find(&[98]).is_none());
    }
}
