//! A stored run as one JSON file: what made it, where it started, the logits and the token of every step, why it stopped.
//!
//! ```json
//! {"record": 3,
//!  "identity": {"crate_version": "0.1.0", "target": "wasm32-unknown-unknown", "constraint": null,
//!    "model": {"name": "…", "sha256": "…", "arithmetic": "…", "tokenizer_sha256": "…", "vocab": 49152},
//!    "environment": {"build_features": "+simd128", "server": "0.1.0 grammar", "cpu_features": "avx2 f16c", "kernels": "avx2",
//!      "threads": "2", "drafts": "4"}},
//!  "start": {"contract": "quillmate-v1", "…": "…"},
//!  "tokens": [7, 3], "draws_used": 2, "frames": ["base64", "base64"], "decisions": null,
//!  "stop": {"max_tokens": 2, "end_tokens": [0], "reason": "length"}}
//! ```
//!
//! `start` holds the contract, the seed, the prompt's ids and the settings with their processors. What is not known is `null`,
//! never made up; also a single frame may be. Form 2, which had no `environment`, and form 1
//! (`{"record": 1, "model", "start", "tokens", "frames", "reason"}`) are read as well: what they did not hold counts as not
//! known. The form is described by [`RECORD_SCHEMA`].

use std::fmt;

use base64ct::{Base64, Encoding as _};

use super::claim::Record;
use super::form::form;
use super::frame::{Frame, FrameError};
use super::identity::{Identity, ModelIdentity};
use super::json::{FieldError, Object};
use super::state::{GeneratorState, StateError};
use super::version::RECORD_FORMAT;
use super::written::{Entries, Value, serialize_written};
use crate::core::decision::Decision;
use crate::core::refusal::Refusal;

/// The JSON Schema (draft 2020-12) of a record, form 3. It describes form alone; a reader checks what its description says.
pub const RECORD_SCHEMA: &str = include_str!("record.schema.json");

/// Why a record was refused. Nothing of it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordError {
    /// The JSON is not of the form, or the start is refused.
    State(StateError),
    /// `record_unknown`: the form that was given.
    Form(u64),
    /// `frame_not_base64`: the index of the frame.
    NotBase64(u64),
    /// A frame is refused, or is not for its step.
    Frame {
        /// Its index.
        index: u64,
        /// Why.
        error: FrameError,
    },
    /// `record_lengths`: so many of something are not one for each token.
    Lengths {
        /// What there is.
        what: &'static str,
        /// How many.
        count: u64,
        /// Tokens.
        tokens: u64,
    },
    /// `decision_mismatch`: the decision at this index is for another token.
    Decision(u64),
    /// `draws_mismatch`: the draws are not those its tokens took.
    Draws {
        /// The draws that were given.
        draws: u64,
        /// The draws its tokens took.
        expected: u64,
    },
}

impl From<StateError> for RecordError {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

impl From<FieldError> for RecordError {
    fn from(error: FieldError) -> Self {
        Self::State(error.into())
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State(error) => error.fmt(f),
            Self::Form(form) => {
                write!(f, "record form {form} is not known; this release reads 1 to {RECORD_FORMAT}")
            }
            Self::NotBase64(index) => write!(f, "frames[{index}] is not base64"),
            Self::Frame { index, error } => write!(f, "frames[{index}]: {error}"),
            Self::Lengths { what, count, tokens } => write!(f, "there are {count} {what} for {tokens} tokens"),
            Self::Decision(index) => write!(f, "decisions[{index}] is for another token"),
            Self::Draws { draws, expected } => {
                write!(f, "the record says {draws} draws were used, but its tokens took {expected}")
            }
        }
    }
}

impl std::error::Error for RecordError {}

impl Refusal for RecordError {
    fn code(&self) -> &'static str {
        match self {
            Self::State(error) => error.code(),
            Self::Form(_) => "record_unknown",
            Self::NotBase64(_) => "frame_not_base64",
            Self::Frame { error, .. } => error.code(),
            Self::Lengths { .. } => "record_lengths",
            Self::Decision(_) => "decision_mismatch",
            Self::Draws { .. } => "draws_mismatch",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::NotBase64(index) | Self::Decision(index) | Self::Frame { index, .. } => Some(*index),
            Self::State(error) => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::State(error) => error.value(),
            Self::Frame { error, .. } => error.value(),
            _ => None,
        }
    }
}

form! {
    /// When a run stops, and why it did.
    pub struct Stop {
        /// The most tokens it was to emit after its start.
        pub max_tokens: Option<u64>,
        /// The tokens after which a text is over.
        pub end_tokens: Option<Vec<u32>>,
        /// Why it is over: `length`, `end_token`, `stopped`, or a code.
        pub reason: Option<String>,
    }
}

/// A stored run, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordFile {
    /// What made it.
    pub identity: Identity,
    /// The state before the first token.
    pub start: GeneratorState,
    /// The tokens emitted after the start.
    pub tokens: Vec<u32>,
    /// How many uniform numbers decided them: one a token, none where greedy.
    pub draws_used: Option<u64>,
    /// The frame of each step; number i is for step `start.step() + i`.
    pub frames: Option<Vec<Option<Frame>>>,
    /// The decision of each step, where they were kept.
    pub decisions: Option<Vec<Decision>>,
    /// When it was to stop, and why it did.
    pub stop: Stop,
}

impl RecordFile {
    /// The draws a run's tokens take under its settings.
    #[must_use]
    pub fn draws(start: &GeneratorState, tokens: u64) -> u64 {
        if start.settings.is_greedy() { 0 } else { tokens }
    }

    /// Reads a record from JSON text.
    ///
    /// # Errors
    /// Every refusal of [`RecordError`].
    pub fn from_json(text: &str) -> Result<Self, RecordError> {
        Self::from_object(Object::parse(text)?)
    }

    /// Reads a record from a JSON object.
    ///
    /// # Errors
    /// Every refusal of [`RecordError`].
    pub fn from_object(object: Object) -> Result<Self, RecordError> {
        object.read(|it| {
            let form = it.integer("record");
            let (identity, draws_used, decisions, stop) = match form {
                1 => {
                    let model = ModelIdentity::from_form_1(it.object("model"))?;
                    let reason = it.string_or_null("reason");
                    (Identity { model, ..Identity::default() }, None, None, Stop { reason, ..Stop::default() })
                }
                2 | 3 => {
                    let identity = it.object("identity");
                    let identity =
                        if form == 2 { Identity::from_form_2(identity)? } else { Identity::from_object(identity)? };
                    let draws_used = it.integer_or_null("draws_used");
                    let decisions = if it.null("decisions") { None } else { Some(decisions(it.objects("decisions"))?) };
                    (identity, draws_used, decisions, it.form("stop", Stop::from_object))
                }
                _ => return Err(RecordError::Form(form)),
            };
            let start = GeneratorState::from_object(it.object("start"))?;
            let tokens = it.tokens("tokens");
            let frames = if it.null("frames") { None } else { Some(decode(&start, it.strings_or_null("frames"))?) };
            let record = Self { identity, draws_used, decisions, stop, frames, start, tokens };
            record.check()?;
            Ok(record)
        })
    }

    fn check(&self) -> Result<(), RecordError> {
        let tokens = self.tokens.len() as u64;
        let counts =
            [("frames", self.frames.as_ref().map(Vec::len)), ("decisions", self.decisions.as_ref().map(Vec::len))];
        for (what, count) in counts {
            if let Some(count) = count.map(|count| count as u64).filter(|count| *count != tokens) {
                return Err(RecordError::Lengths { what, count, tokens });
            }
        }
        let decided = self.decisions.iter().flatten().map(|decided| decided.token_id);
        if let Some(at) = decided.zip(&self.tokens).position(|(decided, token)| decided != *token) {
            return Err(RecordError::Decision(at as u64));
        }
        let expected = Self::draws(&self.start, tokens);
        match self.draws_used.filter(|draws| *draws != expected) {
            Some(draws) => Err(RecordError::Draws { draws, expected }),
            None => Ok(()),
        }
    }

    pub(crate) fn written(&self) -> Value<'_> {
        let frame = |frame: &Frame| Value::Text(frame.to_base64().into());
        let frames = |list| Value::list(list, |one: &Option<Frame>| one.as_ref().map_or(Value::Null, frame));
        let decisions = |list| Value::list(list, Decision::written);
        let mut it = Entries::default();
        it.integer("record", RECORD_FORMAT.into());
        it.set("identity", self.identity.written());
        it.set("start", self.start.written());
        it.tokens("tokens", &self.tokens);
        it.integer_or_null("draws_used", self.draws_used);
        it.set("frames", self.frames.as_ref().map_or(Value::Null, frames));
        it.set("decisions", self.decisions.as_ref().map_or(Value::Null, decisions));
        it.set("stop", self.stop.written());
        Value::Object(it)
    }

    /// The record as JSON text, form 3.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record has string keys and finite numbers only")
    }

    /// What [`verify`](crate::compare::verify::verify) needs; `None` where a frame is missing.
    #[must_use]
    pub fn for_verification(&self) -> Option<Record> {
        let frames = self.frames.as_ref()?.iter().map(|frame| Some(frame.as_ref()?.encode())).collect::<Option<_>>()?;
        Some(Record { start: self.start.clone(), frames })
    }
}

serialize_written!(RecordFile);

fn decisions(list: Vec<Object>) -> Result<Vec<Decision>, StateError> {
    let mut decisions = Vec::with_capacity(list.len());
    for object in list {
        decisions.push(Decision::from_object(object)?);
    }
    Ok(decisions)
}

fn decode(start: &GeneratorState, texts: Vec<Option<String>>) -> Result<Vec<Option<Frame>>, RecordError> {
    let mut frames = Vec::with_capacity(texts.len());
    for (index, text) in (0u64..).zip(texts) {
        let Some(text) = text else {
            frames.push(None);
            continue;
        };
        let bytes = Base64::decode_vec(&text).map_err(|_| RecordError::NotBase64(index))?;
        let frame = Frame::decode(&bytes).map_err(|error| RecordError::Frame { index, error })?;
        let expected = start.step().saturating_add(index);
        if frame.step() != expected {
            let error = FrameError::StepMismatch { expected, found: frame.step() };
            return Err(RecordError::Frame { index, error });
        }
        frames.push(Some(frame));
    }
    Ok(frames)
}
