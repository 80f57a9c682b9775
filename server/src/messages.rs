//! Every message of the API: what a call takes and what it answers with.
//!
//! A declaration here is the only one of its message. serde writes it, and schemars describes it: `openapi.json`, the tables
//! of API.md and the page's types follow. Requests are read by the sampler's strict reader and not by serde, which promises
//! neither the codes and paths of refusals nor which of several is told first. The forms of the sampler (state, record,
//! claim, verdict) are read and written by the sampler.

use std::borrow::Cow;

use quillmate_sampler::compare::verify::VERDICT_SCHEMA;
use quillmate_sampler::json::Object;
use quillmate_sampler::wire::claim::CLAIM_SCHEMA;
use quillmate_sampler::wire::record::RECORD_SCHEMA;
use quillmate_sampler::wire::state::{RunSettings, STATE_SCHEMA, take_seed, take_settings};
use quillmate_sampler::{GeneratorState, Identity as RunIdentity, Stop};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::constraint::{Shown, Source, StoredConstraint};
use crate::error::ApiError;
use crate::limits::Limits;
use crate::model::Identity;
use crate::store::Status;

/// Whether the model is loaded, and what the server has done since its start.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Health {
    /// Whether the model is loaded.
    pub status: HealthStatus,
    /// How much of the model file has been read.
    pub loaded_bytes: u64,
    /// The size of the model file.
    pub total_bytes: u64,
    /// Work since the server's start.
    pub work: Work,
}

/// Whether the model is loaded.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HealthStatus {
    /// It is being loaded.
    Loading,
    /// It is loaded.
    Ready,
}

/// Work since the server's start. `--drafts 0` turns speculation off; no text and no frame depends on it.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Work {
    /// Passes through the model that gave new tokens.
    pub passes: u64,
    /// Tokens emitted.
    pub tokens: u64,
    /// Tokens drafted from the text itself for those passes.
    pub drafted: u64,
    /// Drafted tokens that were accepted.
    pub accepted: u64,
}

/// A run can be started now.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Ready {
    /// Always true: a server that is not ready answers with 503.
    #[schemars(extend("const" = true))]
    pub ready: bool,
}

/// The loaded model, and the server's limits.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModelInfo<'a> {
    /// Which model it is.
    #[serde(flatten)]
    pub model: &'a Identity,
    /// The most tokens of prompt and run together.
    pub context: usize,
    /// The tokens after which a text is over.
    pub end_tokens: &'a [u32],
    /// The server's limits.
    pub limits: &'a Limits,
}

/// The tokens of a text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Tokens {
    /// Their ids.
    pub tokens: Vec<u32>,
}

/// A run. The server continues it whether or not a client watches, and after a restart.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Run<'a> {
    /// 32 hex digits.
    pub id: &'a str,
    /// What it is doing.
    pub status: Status,
    /// Why it is not running: `length`, `end_token`, `stopped`, or a code (see *Why a run failed*); `null` while it runs.
    pub reason: Option<&'a str>,
    /// How many tokens it is to emit after its start.
    pub length: u32,
    /// The generator's state before the first of them.
    #[schemars(with = "StateForm")]
    pub start: &'a GeneratorState,
    /// What was emitted after the start.
    pub tokens: &'a [u32],
    /// The text of these tokens, up to the last complete character. In a finished run an incomplete character at the end
    /// is U+FFFD. `null`: the tokenizer is not stored.
    pub text: Option<String>,
    /// The model it belongs to.
    pub model: &'a Identity,
    /// The constraint on its text.
    pub constraint: Option<Shown<'a>>,
}

/// The end of a stream.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct End<'a> {
    /// What the run is doing.
    pub status: Status,
    /// Why it is not running, as in a run.
    pub reason: Option<&'a str>,
    /// The step the next token would have.
    pub step: u64,
}

/// A record without its frames, which are sent after it, one by one. Its form is the sampler's.
#[derive(Debug, Serialize)]
pub struct RecordHead<'a> {
    /// Version of the form.
    pub record: u32,
    /// What a replay depends on besides the start, and the circumstances.
    pub identity: RunIdentity,
    /// The state before the first token.
    pub start: &'a GeneratorState,
    /// What was emitted after it.
    pub tokens: &'a [u32],
    /// Uniform numbers that decided the tokens.
    pub draws_used: u64,
    /// Never kept here.
    pub decisions: (),
    /// When the run was to stop, and why it did.
    pub stop: Stop,
}

/// A text to be tokenized.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Tokenize {
    /// The text. Special tokens in it are not recognized.
    pub text: String,
}

impl Tokenize {
    /// Reads the request.
    pub fn from_object(body: Object) -> Result<Self, ApiError> {
        body.read(|it| Ok(Self { text: it.string("text") }))
    }
}

/// A run to begin: from a text, a seed and settings, or from a generator's state.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
pub enum NewRun {
    /// From a text.
    FromText(RunFromText),
    /// From a state, whose next token the run emits first.
    FromState(RunFromState),
}

/// A run that begins with a text.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunFromText {
    /// The text to continue. Special tokens in it are not recognized.
    pub prompt: String,
    /// Unsigned 64-bit integer in decimal.
    #[schemars(with = "String", regex(pattern = "^(0|[1-9][0-9]{0,19})$"))]
    pub seed: u64,
    /// What chooses each token.
    #[schemars(with = "SettingsForm")]
    pub settings: RunSettings,
    /// How many tokens to emit, at most `run_tokens`.
    #[schemars(range(min = 1))]
    pub length: u64,
    /// The constraint on the text.
    #[schemars(with = "Source", skip_serializing_if = "Option::is_none")]
    pub constraint: Option<StoredConstraint>,
}

/// A run that begins with a state.
#[derive(Debug, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunFromState {
    /// The state of any generator.
    #[schemars(with = "StateForm")]
    pub start: GeneratorState,
    /// How many tokens to emit, at most `run_tokens`.
    #[schemars(range(min = 1))]
    pub length: u64,
    /// The constraint on the tokens after the prompt.
    #[schemars(with = "Source", skip_serializing_if = "Option::is_none")]
    pub constraint: Option<StoredConstraint>,
}

impl NewRun {
    /// Reads the request. A constraint of too many bytes is refused before the rest is read.
    pub fn from_object(body: Object, limits: &Limits) -> Result<Self, ApiError> {
        body.read(|it| {
            let constraint = StoredConstraint::take(it)?;
            if let Some(constraint) = &constraint {
                limits.check_constraint(constraint.to_json().len())?;
            }
            if it.has("start") {
                let start = GeneratorState::from_object(it.object("start"))?;
                return Ok(Self::FromState(RunFromState { start, length: it.integer("length"), constraint }));
            }
            Ok(Self::FromText(RunFromText {
                prompt: it.string("prompt"),
                seed: take_seed(it)?,
                settings: take_settings(it)?,
                length: it.integer("length"),
                constraint,
            }))
        })
    }
}

/// The query of a stream.
#[derive(Debug, JsonSchema)]
#[allow(dead_code, reason = "the query is read by hand, as its refusals are promised too")]
pub struct StreamQuery {
    /// The first step to send, counted as states count them.
    pub from: u64,
}

/// The query of a token table.
#[derive(Debug, JsonSchema)]
#[allow(dead_code, reason = "the query is read by hand, as its refusals are promised too")]
pub struct TokenTableQuery {
    /// Digest of the tokenizer, which may be that of an earlier model. Without it the answer is the loaded model's table.
    #[schemars(with = "String", skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// A form of the sampler, described by the JSON Schema it exports.
macro_rules! of_the_sampler {
    ($($(#[$doc:meta])+ $Form:ident = $name:literal: $schema:expr;)+) => {
        $($(#[$doc])+
        #[derive(Debug)]
        pub struct $Form;

        impl JsonSchema for $Form {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                exported($schema, $name, generator)
            }
        })+
    };
}

of_the_sampler! {
    /// A state.
    StateForm = "GeneratorState": STATE_SCHEMA;
    /// The settings of a state.
    SettingsForm = "StoredSettings": STATE_SCHEMA;
    /// A record.
    RecordForm = "RecordFile": RECORD_SCHEMA;
    /// A claim.
    ClaimForm = "Claim": CLAIM_SCHEMA;
    /// A verdict.
    VerdictForm = "Verdict": VERDICT_SCHEMA;
}

/// The schema of this name in a JSON Schema the sampler exports. The others it refers to become definitions too.
fn exported(schema: &str, name: &str, generator: &mut SchemaGenerator) -> Schema {
    let schema = schema.replace("\"#/$defs/", "\"#/components/schemas/");
    let mut root: Map<String, Value> = serde_json::from_str(&schema).expect("the sampler exports JSON Schemas");
    let mut all = match root.shift_remove("$defs") {
        Some(Value::Object(all)) => all,
        _ => Map::new(),
    };
    root.retain(|keyword, _| !["$schema", "$id"].contains(&keyword.as_str()));
    if let Some(Value::String(title)) = root.shift_remove("title") {
        all.insert(title, root.into());
    }
    let found = all.shift_remove(name).and_then(|schema| schema.try_into().ok());
    for (other, schema) in all {
        generator.definitions_mut().entry(other).or_insert(schema);
    }
    found.expect("the sampler exports a schema of this name")
}
