//! A run of the older contract `mosaic-splitmix64-top-k-top-p-v1` as self-describing JSON, and its replay.
//!
//! ```json
//! {"contract": "mosaic-splitmix64-top-k-top-p-v1", "format": 1, "seed": "42", "draws": 2, "prompt": [1, 2],
//!  "tokens": [3, 3], "strategy": {"kind": "sample", "temperature": 0.8, "top_k": 3, "top_p": 0.9}}
//! ```
//!
//! The strategy of a greedy run is `{"kind": "greedy"}` and it has no draws; a sampled run has one draw per token.

use std::fmt;

use super::sampler::{ALGORITHM_VERSION, MosaicError, SamplingConfig, SelectionStrategy, select};
use crate::core::decision::Decision;
use crate::core::error::SettingsError;
use crate::core::logits::Logit;
use crate::core::refusal::Refusal;
use crate::core::settings::TopK;
use crate::core::text::{Quoted, beginning};
use crate::wire::json::{FieldError, Fields, Object};
use crate::wire::state::{StateError, take_contract, take_seed};
use crate::wire::version::STATE_FORMAT;
use crate::wire::written::{Entries, Value, serialize_written};

/// Why a stored state of either contract was not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The JSON is not of the form, or a state of the present contract is refused.
    State(StateError),
    /// A setting of the older contract is out of range.
    Settings(MosaicError),
    /// `draws_mismatch`: the number of draws of a run of the older contract does not fit its tokens.
    Draws {
        /// The draws that were given.
        draws: u64,
        /// The draws its tokens took.
        expected: u64,
    },
}

impl From<StateError> for LoadError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<FieldError> for LoadError {
    fn from(error: FieldError) -> Self {
        Self::State(error.into())
    }
}

impl From<SettingsError> for LoadError {
    fn from(error: SettingsError) -> Self {
        Self::State(error.into())
    }
}

impl From<MosaicError> for LoadError {
    fn from(error: MosaicError) -> Self {
        Self::Settings(error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Settings(error) => error.fmt(f),
            Self::Draws { draws, expected } => {
                write!(f, "the run has consumed {draws} draws, but its tokens took {expected}")
            }
        }
    }
}

impl std::error::Error for LoadError {}

impl Refusal for LoadError {
    fn code(&self) -> &'static str {
        match self {
            Self::State(error) => error.code(),
            Self::Settings(error) => error.code(),
            Self::Draws { .. } => "draws_mismatch",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::State(error) => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::State(error) => error.value(),
            Self::Settings(error) => error.value(),
            Self::Draws { .. } => None,
        }
    }
}

/// The state of a run of the older contract: all that its next token depends on besides the logits.
#[derive(Clone, Debug, PartialEq)]
pub struct MosaicState {
    /// The seed of every draw.
    pub seed: u64,
    /// How many draws have been consumed; the next one is output number `draws` of the seed's sequence.
    pub draws: u64,
    /// Token ids the run started from.
    pub prompt: Vec<u32>,
    /// Token ids emitted so far.
    pub tokens: Vec<u32>,
    /// Greedy, or temperature, top-k and top-p.
    pub strategy: SelectionStrategy,
}

impl MosaicState {
    /// A run without emitted tokens.
    #[must_use]
    pub fn new(prompt: Vec<u32>, seed: u64, strategy: SelectionStrategy) -> Self {
        Self { seed, draws: 0, prompt, tokens: Vec::new(), strategy }
    }

    /// Emits the next token from the logits of this step.
    ///
    /// # Errors
    /// Every refusal of the row; no draw is consumed, and the run is unchanged.
    pub fn step_with<L: Logit>(&mut self, logits: &[L]) -> Result<Decision, MosaicError> {
        let decision = select(logits, &self.strategy, self.seed, self.draws)?;
        self.tokens.push(decision.token_id);
        self.draws += u64::from(decision.random_draw.is_some());
        Ok(decision)
    }

    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("contract", ALGORITHM_VERSION);
        it.integer("format", STATE_FORMAT.into());
        it.set("seed", Value::Text(self.seed.to_string().into()));
        it.integer("draws", self.draws);
        it.tokens("prompt", &self.prompt);
        it.tokens("tokens", &self.tokens);
        it.set("strategy", written(&self.strategy));
        Value::Object(it)
    }

    /// The state as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a state has string keys and finite numbers only")
    }

    /// Reads a state from a JSON object.
    ///
    /// # Errors
    /// Every refusal of [`LoadError`].
    pub fn from_object(object: Object) -> Result<Self, LoadError> {
        object.read(|it| {
            take_contract(it, ALGORITHM_VERSION)?;
            let seed = take_seed(it)?;
            let draws = it.integer("draws");
            let (prompt, tokens) = (it.tokens("prompt"), it.tokens("tokens"));
            let strategy = it.object("strategy").read(take_strategy)?;
            let expected = if strategy == SelectionStrategy::Greedy { 0 } else { tokens.len() as u64 };
            if draws != expected {
                return Err(LoadError::Draws { draws, expected });
            }
            Ok(Self { seed, draws, prompt, tokens, strategy })
        })
    }
}

fn take_strategy(fields: &mut Fields) -> Result<SelectionStrategy, LoadError> {
    let kind = fields.string("kind");
    match kind.as_str() {
        "greedy" => Ok(SelectionStrategy::Greedy),
        "sample" => {
            let temperature = fields.number("temperature");
            let top_k = TopK::from_f64(fields.number("top_k"))?.get();
            Ok(SelectionStrategy::Sample(SamplingConfig::try_new(temperature, top_k, fields.number("top_p"))?))
        }
        _ => {
            let path = "strategy.kind".to_owned();
            let found = Quoted(&beginning(&kind, 40)).to_string();
            Err(FieldError::Type { path, expected: "\"greedy\" or \"sample\"", found }.into())
        }
    }
}

fn written(strategy: &SelectionStrategy) -> Value<'_> {
    let mut it = Entries::default();
    match strategy {
        SelectionStrategy::Greedy => it.text("kind", "greedy"),
        SelectionStrategy::Sample(config) => {
            it.text("kind", "sample");
            it.number("temperature", config.temperature());
            it.integer("top_k", config.top_k().into());
            it.number("top_p", config.top_p());
        }
    }
    Value::Object(it)
}

serialize_written!(MosaicState);
