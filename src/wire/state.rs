//! The whole state of a run as self-describing JSON.
//!
//! ```json
//! {"contract": "quillmate-v1", "format": 1, "seed": "42", "step": 2, "prompt": [1, 2], "tokens": [7, 3],
//!  "settings": {"temperature": 0.8, "top_k": 50, "top_p": 0.95}}
//! ```
//!
//! Where processors act, the settings have a list `"processors": [{"name": "min_p", "version": 1, "p": 0.05}]`.
//!
//! The seed is decimal text because JavaScript numbers lose bits above 2^53; floats are written so that they read back
//! to the same bits. The form is described by [`STATE_SCHEMA`].

use std::fmt;

use serde::Deserialize;

use super::json::{Field, FieldError, Fields, Object, Scalar};
use super::processors::{ReadProcessorsError, read_processors};
use super::version::{CONTRACT, LEGACY_CONTRACT, STATE_FORMAT};
use super::written::{Entries, Value, serialize_written};
use crate::core::error::SettingsError;
use crate::core::processors::{ProcessorError, Processors};
use crate::core::refusal::Refusal;
use crate::core::settings::{Settings, Temperature, TopK, TopP};
use crate::core::text::{Quoted, beginning};

/// The JSON Schema (draft 2020-12) of a state.
///
/// It describes form alone; that `step` equals the number of tokens and that the seed is below 2^64 is checked when a
/// state is read.
pub const STATE_SCHEMA: &str = include_str!("state.schema.json");

/// Why a state was refused. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateError {
    /// The JSON is not of the form.
    Field(FieldError),
    /// A setting is out of range.
    Settings(SettingsError),
    /// The processors are refused.
    Processors(ReadProcessorsError),
    /// `contract_unknown`: the name that was given.
    Contract(String),
    /// `format_unknown`: the version that was given.
    Format(u64),
    /// `seed_not_string`: what was given instead of decimal text.
    SeedNotString(String),
    /// `seed_malformed`: text that is not a decimal integer below 2^64 without sign, space or leading zero.
    SeedMalformed(String),
    /// `step_mismatch`: the step and the number of tokens differ.
    StepMismatch {
        /// The step that was given.
        step: u64,
        /// How many tokens there are.
        tokens: u64,
    },
}

impl From<FieldError> for StateError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl From<SettingsError> for StateError {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error)
    }
}

impl From<ReadProcessorsError> for StateError {
    fn from(error: ReadProcessorsError) -> Self {
        Self::Processors(error)
    }
}

impl From<ProcessorError> for StateError {
    fn from(error: ProcessorError) -> Self {
        Self::Processors(error.into())
    }
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(error) => error.fmt(f),
            Self::Settings(error) => error.fmt(f),
            Self::Processors(error) => error.fmt(f),
            Self::Contract(name) if name == LEGACY_CONTRACT => {
                write!(f, "a run of \"{name}\" does not go on under \"{CONTRACT}\"; it is loaded as what it is")
            }
            Self::Contract(name) => {
                let name = Quoted(name);
                write!(f, "contract {name} is not known; this release keeps \"{CONTRACT}\" and \"{LEGACY_CONTRACT}\"")
            }
            Self::Format(version) => {
                write!(f, "state format {version} is not known; this release reads {STATE_FORMAT}")
            }
            Self::SeedNotString(found) => write!(f, "the seed must be a string of decimal digits, but is {found}"),
            Self::SeedMalformed(text) => {
                write!(f, "the seed must be a decimal integer from 0 to 18446744073709551615, but is {}", Quoted(text))
            }
            Self::StepMismatch { step, tokens } => write!(f, "the step is {step}, but there are {tokens} tokens"),
        }
    }
}

impl std::error::Error for StateError {}

impl Refusal for StateError {
    fn code(&self) -> &'static str {
        match self {
            Self::Field(error) => error.code(),
            Self::Settings(error) => error.code(),
            Self::Processors(error) => error.code(),
            Self::Contract(_) => "contract_unknown",
            Self::Format(_) => "format_unknown",
            Self::SeedNotString(_) => "seed_not_string",
            Self::SeedMalformed(_) => "seed_malformed",
            Self::StepMismatch { .. } => "step_mismatch",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Processors(error) => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Settings(error) => error.value(),
            Self::Processors(error) => error.value(),
            _ => None,
        }
    }
}

/// Reads a seed: decimal digits, no sign, no space, no leading zero, below 2^64.
///
/// # Errors
/// `seed_malformed`, with the text.
pub fn parse_seed(text: &str) -> Result<u64, StateError> {
    let canonical = text == "0" || (text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0'));
    text.parse().ok().filter(|_| canonical).ok_or_else(|| StateError::SeedMalformed(beginning(text, 40)))
}

/// Takes the fields `contract` and `format` of a state. They come first: of another contract's state the rest says nothing.
pub(crate) fn take_contract(fields: &mut Fields, name: &str) -> Result<(), StateError> {
    let contract = fields.string("contract");
    if contract != name {
        return Err(StateError::Contract(contract));
    }
    match fields.integer("format") {
        format if format == u64::from(STATE_FORMAT) => Ok(()),
        format => Err(StateError::Format(format)),
    }
}

/// Takes the field `seed` of an object: a string as [`parse_seed`] reads it.
///
/// # Errors
/// `seed_not_string`, `seed_malformed`, and those of a missing field.
pub fn take_seed(fields: &mut Fields) -> Result<u64, StateError> {
    match fields.any("seed") {
        None => Ok(0),
        Some(Field::Scalar(Scalar::Text(text))) => parse_seed(&text),
        Some(number @ Field::Scalar(Scalar::Integer(_) | Scalar::Number(_))) => {
            Err(StateError::SeedNotString(format!("the number {number}")))
        }
        Some(other) => Err(StateError::SeedNotString(other.to_string())),
    }
}

/// Takes the field `settings` of an object: temperature, top_k and top_p, all three given, `processors` where there are
/// any, and nothing else.
///
/// # Errors
/// A missing, unknown or mistyped field, a setting out of range, and the refusals of [`read_processors`].
pub fn take_settings(fields: &mut Fields) -> Result<RunSettings, StateError> {
    fields.object("settings").read(settings)
}

/// The same from the fields of the settings themselves.
///
/// # Errors
/// As [`take_settings`].
pub fn settings(fields: &mut Fields) -> Result<RunSettings, StateError> {
    let temperature = Temperature::new(fields.number("temperature"))?;
    let top_k = TopK::from_f64(fields.number("top_k"))?;
    let top_p = TopP::new(fields.number("top_p"))?;
    let given = fields.has("processors");
    let processors = if given { read_processors(fields.objects("processors"))? } else { Processors::default() };
    Ok(RunSettings { settings: Settings::from_parts(temperature, top_k, top_p), processors })
}

/// The settings of a run, as a state has them.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSettings {
    /// Temperature, top-k and top-p.
    pub settings: Settings,
    /// What comes before them.
    pub processors: Processors,
}

impl RunSettings {
    pub(crate) fn written(&self) -> Value<'_> {
        written(&self.settings, &self.processors)
    }
}

fn written<'a>(settings: &Settings, processors: &'a Processors) -> Value<'a> {
    let mut it = Entries::default();
    it.number("temperature", settings.temperature());
    it.integer("top_k", settings.top_k().into());
    it.number("top_p", settings.top_p());
    if !processors.is_empty() {
        it.set("processors", processors.written());
    }
    Value::Object(it)
}

/// The state of a run: all that its next token depends on besides the logits.
#[derive(Clone, Debug, PartialEq)]
pub struct GeneratorState {
    /// The seed of every draw.
    pub seed: u64,
    /// Token ids the run started from.
    pub prompt: Vec<u32>,
    /// Token ids emitted so far; their number is the step.
    pub tokens: Vec<u32>,
    /// Temperature, top-k and top-p.
    pub settings: Settings,
    /// What changes the logits before them.
    pub processors: Processors,
}

impl GeneratorState {
    /// Settings and processors together.
    #[must_use]
    pub fn run_settings(&self) -> RunSettings {
        RunSettings { settings: self.settings, processors: self.processors.clone() }
    }

    /// The step the next token will have.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.tokens.len() as u64
    }

    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("contract", CONTRACT);
        it.integer("format", STATE_FORMAT.into());
        it.set("seed", Value::Text(self.seed.to_string().into()));
        it.integer("step", self.step());
        it.tokens("prompt", &self.prompt);
        it.tokens("tokens", &self.tokens);
        it.set("settings", written(&self.settings, &self.processors));
        Value::Object(it)
    }

    /// The state as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a state has string keys and finite numbers only")
    }

    /// Reads a state from JSON text.
    ///
    /// # Errors
    /// Every refusal of [`StateError`].
    pub fn from_json(text: &str) -> Result<Self, StateError> {
        Self::from_object(Object::parse(text)?)
    }

    /// Reads a state from a JSON object.
    ///
    /// # Errors
    /// Every refusal of [`StateError`].
    pub fn from_object(object: Object) -> Result<Self, StateError> {
        object.read(|it| {
            take_contract(it, CONTRACT)?;
            let seed = take_seed(it)?;
            let step = it.integer("step");
            let (prompt, tokens) = (it.tokens("prompt"), it.tokens("tokens"));
            let RunSettings { settings, processors } = take_settings(it)?;
            let state = Self { seed, prompt, tokens, settings, processors };
            if step == state.step() {
                return Ok(state);
            }
            Err(StateError::StepMismatch { step, tokens: state.step() })
        })
    }
}

serialize_written!(RunSettings, GeneratorState);

impl<'de> Deserialize<'de> for GeneratorState {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_object(Object::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
