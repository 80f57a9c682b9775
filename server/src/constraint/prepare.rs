//! Compiles constraints once, each on its own thread, and caches them by digest.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use quillmate_sampler::constraint::{Constraint, ConstraintError};

use super::reader::{Compiled, STACK, Unusable};
use super::stored::StoredConstraint;
use crate::model::LanguageModel;

/// Compiled constraints in the cache, the last used first.
const MOST: usize = 16;

/// The outcome of compiling one constraint; whoever comes second waits for whoever came first.
type Slot = Arc<OnceLock<Result<Arc<dyn Compiled>, Unusable>>>;

/// The compiled constraints of one server. A constraint is compiled once for all its runs, as long as it is among the last
/// ones that were used.
#[derive(Default)]
pub struct Constraints {
    kept: Mutex<VecDeque<(String, Slot)>>,
}

impl Constraints {
    fn kept(&self) -> MutexGuard<'_, VecDeque<(String, Slot)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compiles a constraint for a model's tokens, or takes it as it was compiled before. What cannot be compiled is not
    /// kept.
    pub fn compile(
        &self,
        constraint: &StoredConstraint,
        model: &dyn LanguageModel,
    ) -> Result<Arc<dyn Compiled>, Unusable> {
        let key = format!("{} for {}", constraint.name(), model.identity().tokenizer_sha256);
        let slot = {
            let mut kept = self.kept();
            let known = kept.iter().position(|(known, _)| *known == key).and_then(|at| kept.remove(at));
            let (key, slot) = known.unwrap_or_else(|| (key, Slot::default()));
            kept.push_front((key, Arc::clone(&slot)));
            kept.truncate(MOST);
            slot
        };
        let outcome = slot.get_or_init(|| constraint.compile(model)).clone();
        if outcome.is_err() {
            self.kept().retain(|(_, other)| !Arc::ptr_eq(other, &slot));
        }
        outcome
    }

    /// Compiles a constraint and asks it what may follow these tokens; nothing at all is a dead end.
    fn ready(&self, constraint: &StoredConstraint, model: &dyn LanguageModel, tokens: &[u32]) -> Ready {
        let mut constraint = self.compile(constraint, model)?.begin();
        if constraint.allowed(tokens)?.iter().next().is_none() {
            return Err(ConstraintError::DeadEnd { step: tokens.len() as u64 }.into());
        }
        Ok(constraint)
    }
}

/// A constraint that knows what may follow the tokens it was made ready for, or why there is none.
pub type Ready = Result<Box<dyn Constraint + Send>, Unusable>;

/// Makes a constraint ready on a thread of its own, and gives it to `done` there. `tokens` are those a run under it has
/// emitted before its first step here. A panic on the way is an error like others.
pub fn prepare(
    constraints: Arc<Constraints>,
    constraint: StoredConstraint,
    model: Arc<dyn LanguageModel>,
    tokens: Vec<u32>,
    done: impl FnOnce(Ready) + Send + 'static,
) -> std::io::Result<()> {
    let work = move || {
        let ready = catch_unwind(AssertUnwindSafe(|| constraints.ready(&constraint, &*model, &tokens)));
        done(ready.unwrap_or_else(|_| Err(ConstraintError::Failed("reading it panicked".into()).into())));
    };
    std::thread::Builder::new().name("constraint".into()).stack_size(STACK).spawn(work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tiny::Tiny;

    fn kept(regex: &str) -> StoredConstraint {
        StoredConstraint::from_json(&serde_json::json!({"engine": super::super::ENGINE, "regex": regex}).to_string())
            .unwrap()
    }

    #[test]
    fn a_constraint_is_compiled_once_and_the_last_ones_are_kept() {
        let model = Tiny::new().unwrap();
        let constraints = Constraints::default();
        let first = constraints.compile(&kept("a+"), &model).unwrap();
        assert!(Arc::ptr_eq(&first, &constraints.compile(&kept("a+"), &model).unwrap()));
        assert_eq!(constraints.compile(&kept("("), &model).err().map(|error| error.code()), Some("constraint_invalid"));
        assert_eq!(constraints.kept().len(), 1, "an invalid one takes nobody's place");
        for count in 1..MOST {
            constraints.compile(&kept(&format!("b{{{count}}}")), &model).unwrap();
        }
        assert!(Arc::ptr_eq(&first, &constraints.compile(&kept("a+"), &model).unwrap()));
        for count in 1..=MOST {
            constraints.compile(&kept(&format!("c{{{count}}}")), &model).unwrap();
        }
        assert_eq!(constraints.kept().len(), MOST);
        assert!(!Arc::ptr_eq(&first, &constraints.compile(&kept("a+"), &model).unwrap()));
    }

    #[test]
    fn runs_under_one_compiled_constraint_share_nothing_that_changes() {
        let model = Tiny::new().unwrap();
        let compiled = Constraints::default().compile(&kept("ab|cd"), &model).unwrap();
        let byte = |byte: u8| u32::from(byte) + 1;
        let (mut left, mut right) = (compiled.begin(), compiled.begin());
        assert!(left.allowed(&[byte(b'a')]).unwrap().iter().eq([byte(b'b')]));
        assert!(right.allowed(&[byte(b'c')]).unwrap().iter().eq([byte(b'd')]));
        assert!(compiled.begin().allowed(&[]).unwrap().iter().eq([byte(b'a'), byte(b'c')]));
    }
}
