//! A generator: a run and the model that gives the logits of each step.

use std::fmt;

use super::batch::step_each;
use super::run::Run;
use crate::core::error::SampleError;
use crate::core::logits::Logit;
use crate::core::refusal::Refusal;
use crate::core::settings::Settings;
use crate::wire::state::GeneratorState;

/// Gives the logits of the next token.
pub trait Model {
    /// `f32` or `f64`.
    type Logit: Logit;
    /// The model's error.
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

/// Why a generator did not step. It is unchanged.
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

/// A [`Run`] together with its model.
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

    /// A generator that continues a run, such as one with processors.
    #[must_use]
    pub fn from_run(model: M, run: Run) -> Self {
        Self { model, run }
    }

    /// A generator that resumes from a state.
    #[must_use]
    pub fn from_state(model: M, state: GeneratorState) -> Self {
        Self { model, run: Run::from_state(state) }
    }

    /// Asks the model for logits and emits the next token.
    ///
    /// # Errors
    /// The model's own, or a refusal of its logits; the generator is unchanged.
    pub fn step(&mut self) -> Result<u32, StepError<M::Error>> {
        let logits = self.model.logits(&self.run.context()).map_err(StepError::Model)?;
        self.run.step_with(&logits).map_err(StepError::Sample)
    }

    /// Advances every generator by one token, each with its own model. The result of each is that of [`step`](Self::step) alone,
    /// so a failure affects only its generator.
    ///
    /// All models are called, in the order of the list, before any generator advances. With the feature `parallel` the tokens
    /// are chosen by several threads; no result depends on it. To call one model once for all contexts, use
    /// [`step_batch`](super::batch::step_batch). Models of different types can be in one list as boxed closures.
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
    /// For each generator, those of `step`.
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
