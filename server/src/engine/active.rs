//! A run that is being written, and why one fails.

use std::borrow::Cow;

use quillmate_sampler::constraint::{Constraint, constrain};
use quillmate_sampler::{Refusal, Run};

use crate::constraint::Unusable;
use crate::model::{LanguageModel, ModelError, Session};
use crate::store::{StoreError, StoredRun};

/// The reason of a run whose stored tokens, start, length or constraint somebody altered.
pub const ALTERED: &str = "store_altered";

/// A run that is being written.
pub struct Active {
    /// The run's id.
    pub id: String,
    /// The generator, at the next step.
    pub run: Run,
    /// Its constraint.
    pub constraint: Option<Box<dyn Constraint + Send>>,
    /// The first step that has, or will have, a frame.
    pub start: u64,
    /// The step at which the run is complete.
    pub end: u64,
    /// The round of its last turn.
    pub moved: u64,
    /// The context.
    pub session: Box<dyn Session>,
    /// How many tokens of its beginning (the prompt and what was emitted before `start`) have been read.
    pub read: usize,
    /// How many of the run's tokens the session has been fed, once its beginning has been read.
    pub fed: u64,
    /// The run as it is recomputed, until it reaches its stored end.
    replay: Run,
    /// Whether what was asked for is no longer what the store says.
    altered: bool,
}

impl Active {
    /// Takes up a run as it is stored.
    pub fn new(stored: StoredRun, constraint: Option<Box<dyn Constraint + Send>>, model: &dyn LanguageModel) -> Self {
        let start = stored.start.step();
        Self {
            start,
            end: start + u64::from(stored.length),
            run: Run::from_state(stored.state()),
            replay: Run::from_state(stored.start),
            altered: stored.altered,
            constraint,
            id: stored.id,
            moved: 0,
            session: model.open(),
            read: 0,
            fed: start,
        }
    }

    /// The tokens before the run's first frame.
    pub fn beginning(&self) -> Vec<u32> {
        let mut context = self.run.context();
        context.truncate(self.beginning_len());
        context
    }

    fn beginning_len(&self) -> usize {
        // Tokens are counted by `usize` before they are counted by steps.
        self.run.prompt().len() + self.start as usize
    }

    /// Whether some of the beginning has yet to be read.
    pub fn is_reading(&self) -> bool {
        self.read < self.beginning_len()
    }

    /// The row step `at` is sampled from: the model's, with the constraint's bans in it.
    pub fn row<'a>(&mut self, logits: &'a [f32], at: u64) -> Result<Cow<'a, [f32]>, Failure> {
        let Some(constraint) = &mut self.constraint else {
            return Ok(Cow::Borrowed(logits));
        };
        let before = usize::try_from(at).ok().and_then(|at| self.run.tokens().get(..at));
        let before = before.ok_or_else(|| Failure::new("model_error", "the session is ahead of its run"))?;
        constrain(logits, &mut **constraint, before).map(Cow::Owned).map_err(Failure::refused)
    }

    /// Compares a step that was made before with what is stored of it: the frame with that of the row the model gives now,
    /// and the token with the one the run chooses from it.
    pub fn compare(&mut self, logits: &[f32], at: u64, stored_frame: Option<&[u8]>) -> Result<(), Failure> {
        let row = self.row(logits, at)?;
        let (chosen, frame) = self.replay.step_with_frame_of(&row).map_err(Failure::refused)?;
        if stored_frame != Some(&frame.encode()) {
            return Err(Failure::new(
                "logits_differ",
                format!("step {at} gives other logits than those stored; was the run written by another build?"),
            ));
        }
        let stored = usize::try_from(at).ok().and_then(|at| self.run.tokens().get(at).copied());
        if stored != Some(chosen) {
            return Err(Failure::new(
                ALTERED,
                format!("step {at} chooses token {chosen} from its frame, and {stored:?} is stored"),
            ));
        }
        Ok(())
    }

    /// Refuses to add to a run that is no longer what was asked for.
    pub fn check_unaltered(&self) -> Result<(), Failure> {
        if self.altered {
            return Err(Failure::new(ALTERED, "its start, length or constraint is not what was asked for"));
        }
        Ok(())
    }

    /// Emits the next token: it, and the frame of the row it came from.
    pub fn emit(&mut self, logits: &[f32]) -> Result<(u32, Vec<u8>), Failure> {
        let step = self.run.position();
        let row = self.row(logits, step)?;
        let (token, frame) = self.run.step_with_frame_of(&row).map_err(Failure::refused)?;
        Ok((token, frame.encode()))
    }
}

/// Why a run fails: a code for its `reason`, and words for the log.
pub struct Failure {
    /// The stable code.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
}

impl Failure {
    /// A failure with a code and words.
    pub fn new(code: &str, message: impl std::fmt::Display) -> Self {
        Self { code: code.into(), message: message.to_string() }
    }

    /// What the sampler refused.
    pub fn refused(refusal: impl Refusal) -> Self {
        Self::new(refusal.code(), refusal)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::new(error.code(), error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(error.code(), error)
    }
}

impl From<Unusable> for Failure {
    fn from(error: Unusable) -> Self {
        Self::new(error.code(), error)
    }
}
