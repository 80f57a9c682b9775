//! A run: its prompt, tokens, seed and settings, and the choice of its next token.

use std::cell::Cell;

use crate::core::candidates::Candidates;
use crate::core::error::{LogitsError, SampleError};
use crate::core::fast::check;
use crate::core::logits::Logit;
use crate::core::processors::{Position, Processors};
use crate::core::sample::sample;
use crate::core::settings::Settings;
use crate::core::sparse::SparseRow;
use crate::core::splitmix::{streams, uniform};
use crate::wire::frame::{Frame, FrameError};
use crate::wire::state::GeneratorState;

thread_local! {
    /// The row that processors change, reused from token to token: 8 bytes per logit.
    static ROW: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// A run of tokens whose logits come from the caller. At step n it has emitted n tokens, and its next token uses
/// `uniform(seed, n, 0)`; it depends only on the state and the logits.
///
/// All rows of one `Run` must be as long as the first that gave a token; another length (the logits of several positions, or of
/// another model) is refused with `logits_length_changed`. The length is not part of the state: a resumed run accepts rows of
/// any length, and two runs are equal when their states are.
#[derive(Clone, Debug)]
pub struct Run {
    state: GeneratorState,
    /// The length of the rows so far, if any gave a token.
    vocabulary: Option<u64>,
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
    }
}

/// A position of a [`Run`] to return to.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    tokens: usize,
    vocabulary: Option<u64>,
}

impl Run {
    /// A run at step 0.
    #[must_use]
    pub fn new(prompt: Vec<u32>, seed: u64, settings: Settings) -> Self {
        Self::with_processors(prompt, seed, settings, Processors::default())
    }

    /// A run at step 0 with processors.
    #[must_use]
    pub fn with_processors(prompt: Vec<u32>, seed: u64, settings: Settings, processors: Processors) -> Self {
        Self::from_state(GeneratorState { seed, prompt, tokens: Vec::new(), settings, processors })
    }

    /// A run that resumes from a state.
    #[must_use]
    pub fn from_state(state: GeneratorState) -> Self {
        Self { state, vocabulary: None }
    }

    /// The whole state; [`from_state`](Self::from_state) resumes from it.
    #[must_use]
    pub fn state(&self) -> &GeneratorState {
        &self.state
    }

    /// The step the next token will have: how many tokens have been emitted.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.state.step()
    }

    /// The tokens emitted so far.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.state.tokens
    }

    /// The token ids the run started from.
    #[must_use]
    pub fn prompt(&self) -> &[u32] {
        &self.state.prompt
    }

    /// The seed of every draw.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.state.seed
    }

    /// Temperature, top-k and top-p.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// The processors, which are applied before the settings.
    #[must_use]
    pub fn processors(&self) -> &Processors {
        &self.state.processors
    }

    /// The context for the model: the prompt, then the emitted tokens.
    #[must_use]
    pub fn context(&self) -> Vec<u32> {
        [self.prompt(), self.tokens()].concat()
    }

    /// The uniform number of the next token.
    #[must_use]
    pub fn uniform(&self) -> f64 {
        uniform(self.seed(), self.position(), streams::TOKENS)
    }

    /// The token these logits give at this step; emits nothing.
    ///
    /// # Errors
    /// Every refusal of the logits and of the processors, then `logits_length_changed`.
    pub fn decide<L: Logit>(&self, logits: &[L]) -> Result<u32, SampleError> {
        let token = if self.processors().is_empty() {
            sample(logits, self.settings(), self.uniform())
        } else {
            // Taken out while in use, so that a nested call gets an empty one.
            let mut row = ROW.take();
            let token =
                self.process_into(logits, &mut row).and_then(|()| sample(&row, self.settings(), self.uniform()));
            ROW.set(row);
            token
        }?;
        self.check_length(logits.len() as u64)?;
        Ok(token)
    }

    /// The token these logits give at this step, whatever the unknown ones are; emits nothing.
    ///
    /// # Errors
    /// `frame_insufficient` where it could depend on unknown logits: see [`SparseRow::max_top_k`]; a run with processors
    /// needs all. Then as [`decide`](Self::decide).
    pub fn decide_sparse<L: Logit>(&self, row: &SparseRow<L>) -> Result<u32, SampleError> {
        if let Some(logits) = row.whole() {
            return self.decide(logits);
        }
        self.check_sparse(row)?;
        let token = row.sample(self.settings(), self.uniform())?;
        self.check_length(row.vocabulary().into())?;
        Ok(token)
    }

    /// Refuses a sparse row if the run needs unknown logits.
    pub(super) fn check_sparse<L: Logit>(&self, row: &SparseRow<L>) -> Result<(), SampleError> {
        match row.max_top_k() {
            Some(certain) if !self.processors().is_empty() => Err(SampleError::Insufficient { certain, top_k: 0 }),
            _ => row.check(self.settings()),
        }
    }

    /// Refuses a row that is not as long as the earlier ones.
    pub(super) fn check_length(&self, found: u64) -> Result<(), LogitsError> {
        match self.vocabulary {
            Some(expected) if expected != found => Err(LogitsError::LengthChanged { expected, found }),
            _ => Ok(()),
        }
    }

    /// The row after the processors, or `None` if there are none.
    pub(super) fn process<L: Logit>(&self, logits: &[L]) -> Result<Option<Vec<f64>>, SampleError> {
        if self.processors().is_empty() {
            return Ok(None);
        }
        let mut row = Vec::new();
        self.process_into(logits, &mut row)?;
        Ok(Some(row))
    }

    fn process_into<L: Logit>(&self, logits: &[L], row: &mut Vec<f64>) -> Result<(), SampleError> {
        check(logits)?;
        row.clear();
        row.extend(logits.iter().map(|logit| logit.widen()));
        self.processors().apply(row, &self.place(), &mut |_, _| ())?;
        Ok(())
    }

    /// The position of the run, for its processors.
    pub(super) fn place(&self) -> Position<'_> {
        Position { prompt: self.prompt(), tokens: self.tokens(), seed: self.seed() }
    }

    /// Emits the next token from the logits of this step.
    ///
    /// # Errors
    /// As [`decide`](Self::decide); the run stays where it was.
    pub fn step_with<L: Logit>(&mut self, logits: &[L]) -> Result<u32, SampleError> {
        let token = self.decide(logits)?;
        self.emit(token, logits.len() as u64);
        Ok(token)
    }

    /// Emits the next token from a row of this step of which only the best logits are known.
    ///
    /// # Errors
    /// As [`decide_sparse`](Self::decide_sparse); the run stays where it was.
    pub fn step_with_sparse<L: Logit>(&mut self, row: &SparseRow<L>) -> Result<u32, SampleError> {
        let token = self.decide_sparse(row)?;
        self.emit(token, row.vocabulary().into());
        Ok(token)
    }

    /// Appends a token that was decided for this step, from a row of this length.
    pub(super) fn emit(&mut self, token: u32, vocabulary: u64) {
        self.state.tokens.push(token);
        self.vocabulary = Some(vocabulary);
    }

    /// The position to which [`withdraw`](Self::withdraw) returns.
    pub(super) fn mark(&self) -> Mark {
        Mark { tokens: self.state.tokens.len(), vocabulary: self.vocabulary }
    }

    /// Removes the tokens emitted since, after a call that failed halfway.
    pub(super) fn withdraw(&mut self, mark: Mark) {
        self.state.tokens.truncate(mark.tokens);
        self.vocabulary = mark.vocabulary;
    }

    /// Lets the next row have any length: a stored record may hold frames of several.
    pub(crate) fn forget_length(&mut self) {
        self.vocabulary = None;
    }

    /// The smallest lossless frame of a step from which the run gives the same token as from the whole row.
    ///
    /// # Errors
    /// As [`Frame::for_run`].
    pub fn frame(&self, step: u64, logits: &[f32]) -> Result<Frame, FrameError> {
        Frame::for_run(step, logits, self.settings(), self.processors())
    }

    /// Emits the next token from the logits of this step and returns their [frame](Self::frame). Shared work is done once.
    ///
    /// # Errors
    /// As [`decide`](Self::decide) and [`frame`](Self::frame); the run stays where it was.
    pub fn step_with_frame_of(&mut self, logits: &[f32]) -> Result<(u32, Frame), FrameError> {
        let (step, vocabulary) = (self.position(), logits.len() as u64);
        let (token, frame) = match Frame::few_needed(logits, self.settings(), self.processors()) {
            Some(k) => {
                let best = Candidates::top_k(logits, k)?;
                let token = self.decide_among(&best, vocabulary).map_err(FrameError::Sample)?;
                (token, Frame::of_best(step, logits, best, k)?)
            }
            None => {
                let token = self.decide(logits).map_err(FrameError::Sample)?;
                (token, Frame::of_allowed(step, logits)?)
            }
        };
        self.emit(token, vocabulary);
        Ok((token, frame))
    }

    /// Emits the next token from a frame.
    ///
    /// # Errors
    /// `frame_step_mismatch` for another step's frame, `frame_insufficient` for one that lacks logits these settings
    /// need; the run stays where it was.
    pub fn step_with_frame(&mut self, frame: &Frame) -> Result<u32, FrameError> {
        if frame.step() != self.position() {
            return Err(FrameError::StepMismatch { expected: self.position(), found: frame.step() });
        }
        frame.check_for_run(self.settings(), self.processors())?;
        let vocabulary = frame.vocabulary().into();
        let token = match frame.candidates() {
            Some(candidates) if self.processors().is_empty() => self.decide_among(candidates, vocabulary),
            _ => self.decide(&frame.row()),
        };
        let token = token.map_err(FrameError::Sample)?;
        self.emit(token, vocabulary);
        Ok(token)
    }

    /// The token of a row of this length, given the candidates of a run without processors.
    fn decide_among(&self, candidates: &Candidates<f32>, vocabulary: u64) -> Result<u32, SampleError> {
        let token = candidates.sample(self.settings(), self.uniform())?;
        self.check_length(vocabulary)?;
        Ok(token)
    }
}
