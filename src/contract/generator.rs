//! A run, and a generator that asks a model for the logits of each step.

use std::cell::Cell;
use std::fmt;

use super::batch::step_each;
use super::frame::{Frame, FrameError};
use super::state::GeneratorState;
use crate::core::error::{LogitsError, Refusal, SampleError};
use crate::core::fast::check;
use crate::core::logits::Logit;
use crate::core::processors::{Position, Processors};
use crate::core::sample::sample;
use crate::core::settings::Settings;
use crate::core::sparse::SparseRow;
use crate::core::splitmix::{streams, uniform};

thread_local! {
    /// The row that processors change, kept from one token to the next: 8 bytes a logit.
    static ROW: Cell<Vec<f64>> = const { Cell::new(Vec::new()) };
}

/// A run of tokens, fed with logits from outside. At step n it has emitted n tokens, and its next token uses
/// `uniform(seed, n, 0)`; nothing but its state and the logits influences it.
///
/// All rows of one `Run` have the length of the first that gave a token; another length is a mistake of the caller (the
/// logits of several positions, or of another model) and refused with `logits_length_changed`. The length is no part of
/// the state: a run that is resumed takes rows of any length, and two runs are equal when their states are.
#[derive(Clone, Debug)]
pub struct Run {
    state: GeneratorState,
    /// The length of the rows that gave tokens since this was made.
    vocabulary: Option<u64>,
}

impl PartialEq for Run {
    fn eq(&self, other: &Self) -> bool {
        self.state == other.state
    }
}

/// How far a [`Run`] had come.
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

    /// A run at step 0 whose logits pass processors first.
    #[must_use]
    pub fn with_processors(prompt: Vec<u32>, seed: u64, settings: Settings, processors: Processors) -> Self {
        Self::from_state(GeneratorState { seed, prompt, tokens: Vec::new(), settings, processors })
    }

    /// A run that goes on from a state.
    #[must_use]
    pub fn from_state(state: GeneratorState) -> Self {
        Self { state, vocabulary: None }
    }

    /// The whole state; [`from_state`](Self::from_state) goes on from it.
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

    /// What changes the logits before them.
    #[must_use]
    pub fn processors(&self) -> &Processors {
        &self.state.processors
    }

    /// What a model is asked about: the prompt, then the emitted tokens.
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
            // Taken out while in use: a call from within finds an empty one.
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

    /// Refuses a row that is not whole where the run looks at what is unknown.
    pub(super) fn check_sparse<L: Logit>(&self, row: &SparseRow<L>) -> Result<(), SampleError> {
        match row.max_top_k() {
            Some(certain) if !self.processors().is_empty() => Err(SampleError::Insufficient { certain, top_k: 0 }),
            _ => row.check(self.settings()),
        }
    }

    /// Refuses a row that is not as long as those before.
    pub(super) fn check_length(&self, found: u64) -> Result<(), LogitsError> {
        match self.vocabulary {
            Some(expected) if expected != found => Err(LogitsError::LengthChanged { expected, found }),
            _ => Ok(()),
        }
    }

    /// The row as the processors leave it; `None` where there are none and it stays as it is.
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
        self.processors().apply(row, &self.place(), |_, _| ())?;
        Ok(())
    }

    /// Where the run stands, for its processors.
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

    /// Where [`withdraw`](Self::withdraw) goes back to.
    pub(super) fn mark(&self) -> Mark {
        Mark { tokens: self.state.tokens.len(), vocabulary: self.vocabulary }
    }

    /// Takes back what was emitted since, after a call that failed half way.
    pub(super) fn withdraw(&mut self, mark: Mark) {
        self.state.tokens.truncate(mark.tokens);
        self.vocabulary = mark.vocabulary;
    }

    /// Lets the next row have any length: a stored record may hold frames of several.
    pub(super) fn forget_length(&mut self) {
        self.vocabulary = None;
    }

    /// The smallest lossless frame of a step from which the run gives the same token as from the whole row.
    ///
    /// # Errors
    /// As [`Frame::for_run`].
    pub fn frame(&self, step: u64, logits: &[f32]) -> Result<Frame, FrameError> {
        Frame::for_run(step, logits, self.settings(), self.processors())
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
        let logits = frame.logits_for_run(self.settings(), self.processors())?;
        self.step_with(&logits).map_err(FrameError::Sample)
    }
}

/// Gives the logits of the next token.
pub trait Model {
    /// `f32` or `f64`.
    type Logit: Logit;
    /// What the model says when it fails.
    type Error;

    /// One row of V logits for a context: the prompt, then the emitted tokens.
    ///
    /// # Errors
    /// The model's own.
    fn logits(&mut self, context: &[u32]) -> Result<Vec<Self::Logit>, Self::Error>;
}

/// Any closure from a context to a row of logits is a model.
impl<F, L, E> Model for F
where
    F: FnMut(&[u32]) -> Result<Vec<L>, E>,
    L: Logit,
{
    type Logit = L;
    type Error = E;

    fn logits(&mut self, context: &[u32]) -> Result<Vec<L>, E> {
        self(context)
    }
}

/// Why a generator did not step. It stays where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepError<E> {
    /// The model failed.
    Model(E),
    /// The model's logits were refused.
    Sample(SampleError),
}

impl<E: fmt::Display> fmt::Display for StepError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(error) => write!(f, "the model failed: {error}"),
            Self::Sample(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for StepError<E> {}

impl<E: fmt::Display> Refusal for StepError<E> {
    fn code(&self) -> &'static str {
        match self {
            Self::Model(_) => "model_failed",
            Self::Sample(error) => error.code(),
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Model(_) => None,
            Self::Sample(error) => error.index(),
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Model(_) => None,
            Self::Sample(error) => error.value(),
        }
    }
}

/// A [`Run`] together with the model that feeds it.
///
/// ```
/// use std::convert::Infallible;
/// use quillmate_sampler::{Generator, GeneratorState, Settings};
///
/// let model = |context: &[u32]| Ok::<_, Infallible>(vec![0.0f32, context.len() as f32, 1.0]);
/// let mut generator = Generator::new(model, vec![1], 42, Settings::new(0.8, 0, 0.9)?);
/// generator.step()?;
/// let stored = generator.state().to_json();
///
/// let mut resumed = Generator::from_state(model, GeneratorState::from_json(&stored)?);
/// assert_eq!(resumed.step()?, generator.step()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Generator<M> {
    model: M,
    run: Run,
}

impl<M: Model> Generator<M> {
    /// A generator at step 0.
    #[must_use]
    pub fn new(model: M, prompt: Vec<u32>, seed: u64, settings: Settings) -> Self {
        Self { model, run: Run::new(prompt, seed, settings) }
    }

    /// A generator that goes on from a run, such as one with processors.
    #[must_use]
    pub fn from_run(model: M, run: Run) -> Self {
        Self { model, run }
    }

    /// A generator that goes on from a state.
    #[must_use]
    pub fn from_state(model: M, state: GeneratorState) -> Self {
        Self { model, run: Run::from_state(state) }
    }

    /// Asks the model for logits and emits the next token.
    ///
    /// # Errors
    /// The model's own, or a refusal of its logits; the generator stays where it was.
    pub fn step(&mut self) -> Result<u32, StepError<M::Error>> {
        let logits = self.model.logits(&self.run.context()).map_err(StepError::Model)?;
        self.run.step_with(&logits).map_err(StepError::Sample)
    }

    /// Advances every generator by one token, each from its own model: what comes of each is what [`step`](Self::step)
    /// would give it alone, so one that fails stays where it was and costs only itself.
    ///
    /// All models are asked, in the order of the list, before any generator advances. With the feature `parallel` the tokens
    /// are chosen by several threads; no result depends on it. Where one model can answer for all contexts at once,
    /// [`step_batch`](super::batch::step_batch) asks it once. Models of different types go in one list as boxed closures.
    ///
    /// ```
    /// use std::convert::Infallible;
    /// use quillmate_sampler::{Generator, Settings};
    ///
    /// let model = |context: &[u32]| Ok::<_, Infallible>(vec![0.0f32, context.len() as f32, 1.0]);
    /// let mut a = Generator::new(model, vec![1], 42, Settings::new(0.8, 0, 0.9)?);
    /// let mut b = Generator::new(model, vec![1, 2], 43, Settings::default());
    /// let alone = [a.clone().step(), b.clone().step()];
    /// assert_eq!(Generator::step_batch(&mut [&mut a, &mut b]), alone);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In the place of a generator, those of `step`.
    pub fn step_batch(generators: &mut [&mut Self]) -> Vec<Result<u32, StepError<M::Error>>> {
        let (mut rows, mut answers, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for Self { model, run } in generators.iter_mut().map(|it| &mut **it) {
            let answer = model.logits(&run.context());
            answers.push(answer.map(|row| {
                rows.push(row);
                runs.push(run);
            }));
        }
        let mut tokens = step_each(&mut runs, &rows).into_iter();
        let of = |answer: Result<(), M::Error>| match answer {
            Ok(()) => tokens.next().map(|token| token.map_err(StepError::Sample)),
            Err(error) => Some(Err(StepError::Model(error))),
        };
        answers.into_iter().filter_map(of).collect()
    }

    /// The whole state; the model is not part of it.
    #[must_use]
    pub fn state(&self) -> &GeneratorState {
        self.run.state()
    }

    /// The run behind the generator.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }
}
