//! Refusals as clients see them: a status, a stable code, a message for people, and the value at fault.

use std::borrow::Cow;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quillmate_sampler::Refusal;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::{Value, json};

use crate::constraint::{TakeError, Unusable};
use crate::model::{Identity, ModelError};
use crate::store::StoreError;

macro_rules! codes {
    ($($(#[doc = $means:literal])+ $Name:ident = $code:literal, $STATUS:ident;)+) => {
        /// The server's own codes. Those of the sampler come as bad requests, with the sampler's own names.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($(#[doc = $means])+ $Name,)+
        }

        impl Code {
            /// All of them, by status.
            pub const ALL: &[Self] = &[$(Self::$Name),+];

            /// The code as a client sees it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Name => $code,)+
                }
            }

            /// The status it comes with.
            pub const fn status(self) -> StatusCode {
                match self {
                    $(Self::$Name => StatusCode::$STATUS,)+
                }
            }

            /// What it says, in Markdown.
            pub fn means(self) -> &'static str {
                match self {
                    $(Self::$Name => concat!($($means),+).trim_start(),)+
                }
            }
        }
    };
}

codes! {
    /// The body is not UTF-8, or not one JSON object.
    JsonSyntax = "json_syntax", BAD_REQUEST;
    /// The body's objects and lists are more than 127 deep in one another.
    JsonTooDeep = "json_too_deep", BAD_REQUEST;
    /// A field of the body or the query is missing.
    FieldMissing = "field_missing", BAD_REQUEST;
    /// A field of the body or the query is not known.
    FieldUnknown = "field_unknown", BAD_REQUEST;
    /// A field of the body or the query is given twice.
    FieldRepeated = "field_repeated", BAD_REQUEST;
    /// The body ended early.
    BodyIncomplete = "body_incomplete", BAD_REQUEST;
    /// The prompt has no tokens.
    PromptEmpty = "prompt_empty", BAD_REQUEST;
    /// The prompt has more tokens than `prompt_tokens`, with `value` and `limit`.
    PromptTooLong = "prompt_too_long", BAD_REQUEST;
    /// Prompt, tokens before the start and `length` together do not fit the model's `context`, with `value` and `limit`.
    ContextTooLong = "context_too_long", BAD_REQUEST;
    /// `length` is not from 1 to `run_tokens`, with `value` and `limit`.
    LengthOutOfRange = "length_out_of_range", BAD_REQUEST;
    /// The vocabulary has no token for a character, which is named in `character`.
    TextNotEncodable = "text_not_encodable", BAD_REQUEST;
    /// A token id of the state is not below `vocab`, with its `index` in prompt and tokens together and `limit`.
    TokenOutOfRange = "token_out_of_range", BAD_REQUEST;
    /// `from` is not a step of the run.
    FromOutOfRange = "from_out_of_range", BAD_REQUEST;
    /// The constraint has more bytes than `constraint_bytes`, with `value` and `limit`.
    ConstraintTooLong = "constraint_too_long", BAD_REQUEST;
    /// The constraint has more than one of its three fields.
    ConstraintAmbiguous = "constraint_ambiguous", BAD_REQUEST;
    /// The constraint is not a valid schema, grammar or regular expression, or no text can fit it.
    ConstraintInvalid = "constraint_invalid", BAD_REQUEST;
    /// The call has no token, see *Who may ask*.
    TokenMissing = "token_missing", UNAUTHORIZED;
    /// The call's token is not the server's.
    TokenWrong = "token_wrong", UNAUTHORIZED;
    /// The request does not name this server, or names two; `--allow-host` adds a name.
    HostRefused = "host_refused", FORBIDDEN;
    /// The page is from another origin, or two origins are given; `--allow-origin` allows an origin.
    OriginRefused = "origin_refused", FORBIDDEN;
    /// There is nothing at this path.
    NotFound = "not_found", NOT_FOUND;
    /// There is no run with this `id`.
    RunNotFound = "run_not_found", NOT_FOUND;
    /// No tokenizer with this digest is stored.
    TokenizerNotFound = "tokenizer_not_found", NOT_FOUND;
    /// The path has no such method.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED;
    /// The body did not come in time, with `limit` in milliseconds.
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT;
    /// The run is complete; there is nothing to resume.
    RunFinished = "run_finished", CONFLICT;
    /// The run is being written; stop it first.
    RunRunning = "run_running", CONFLICT;
    /// The run belongs to another model, with `run_model` and `loaded_model`.
    ModelMismatch = "model_mismatch", CONFLICT;
    /// The constraint's `engine` is not this server's.
    ConstraintMismatch = "constraint_mismatch", CONFLICT;
    /// The stored start, length or constraint of the run is not the requested one.
    StoreAltered = "store_altered", CONFLICT;
    /// The body has more bytes than `body_bytes`, with `limit`.
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE;
    /// The body was not sent as `Content-Type: application/json`.
    BodyNotJson = "body_not_json", UNSUPPORTED_MEDIA_TYPE;
    /// The limit of runs is reached, with `limit`.
    TooManyRuns = "too_many_runs", TOO_MANY_REQUESTS;
    /// The limit of streams is reached, with `limit`.
    TooManyStreams = "too_many_streams", TOO_MANY_REQUESTS;
    /// The server failed; its log says why.
    Internal = "internal", INTERNAL_SERVER_ERROR;
    /// No run can be started now, with `problems`.
    NotReady = "not_ready", SERVICE_UNAVAILABLE;
    /// The model is still being loaded. Stored runs can be read, watched and verified meanwhile.
    ModelLoading = "model_loading", SERVICE_UNAVAILABLE;
    /// The server is stopping.
    ShuttingDown = "shutting_down", SERVICE_UNAVAILABLE;
    /// Other texts are being tokenized.
    TokenizerBusy = "tokenizer_busy", SERVICE_UNAVAILABLE;
    /// Other constraints are being read.
    ConstraintsBusy = "constraints_busy", SERVICE_UNAVAILABLE;
    /// The limit of connections is reached, with `limit`.
    TooManyConnections = "too_many_connections", SERVICE_UNAVAILABLE;
    /// The limit of frame bytes is reached, with `used`, `needed` and `limit`.
    StoreFull = "store_full", INSUFFICIENT_STORAGE;
    /// The disk is full; for a new run with `free` and `needed`.
    DiskFull = "disk_full", INSUFFICIENT_STORAGE;
}

/// The sampler's refusal of a field of another type.
pub const FIELD_TYPE: &str = "field_type";

/// The sampler's refusals of settings, with or without processors, and of a seed.
pub const SETTINGS: [&str; 12] = [
    "temperature_out_of_range",
    "top_k_out_of_range",
    "top_p_out_of_range",
    "seed_not_string",
    "seed_malformed",
    "processor_unknown",
    "processor_version_unknown",
    "processor_parameter",
    "processor_empty",
    "processor_token_repeated",
    "processor_repeated",
    "processor_token",
];

/// The sampler's refusals of a state, besides those of its settings and its seed.
pub const STATE: [&str; 3] = ["contract_unknown", "format_unknown", "step_mismatch"];

/// The sampler's refusals of a constraint, and of tokens that did not follow it.
pub const CONSTRAINT: [&str; 6] = [
    "constraint_dead_end",
    "constraint_violated",
    "constraint_vocabulary",
    "constraint_empty",
    "constraint_too_complex",
    "constraint_failed",
];

/// Every code a call can be refused with. The schema says what those of the server mean.
struct ErrorCode;

impl JsonSchema for ErrorCode {
    fn schema_name() -> Cow<'static, str> {
        "ErrorCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let own = Code::ALL.iter().map(|code| json!({ "const": code.name(), "description": code.means() }));
        let sampler = [&[FIELD_TYPE][..], &SETTINGS, &STATE, &CONSTRAINT].concat();
        let sampler =
            json!({ "enum": sampler, "description": "A code of the sampler; CONTRACT.md says what it means." });
        let all: Vec<Value> = own.chain([sampler]).collect();
        json_schema!({ "description": "Stable. A later release may add codes.", "oneOf": all })
    }
}

/// The answer of every refusal.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ErrorAnswer {
    /// What was refused, and why.
    pub error: Refused,
}

/// A refusal. The description of its code says which details it has.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Refused {
    /// Stable, for programs.
    #[schemars(with = "ErrorCode")]
    pub code: &'static str,
    /// For people; it may change at any time.
    pub message: String,
    /// The id that was given, shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub id: Option<String>,
    /// Where, counted from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub index: Option<u64>,
    /// The number at fault. `null`: JSON has no such number, and the message names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<f64>")]
    pub value: Option<Value>,
    /// Bytes that frames take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub used: Option<u64>,
    /// Bytes the disk has for frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub free: Option<u64>,
    /// Bytes the run may need.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub needed: Option<u64>,
    /// The limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub limit: Option<u64>,
    /// The character that has no token.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub character: Option<String>,
    /// The model the run belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Identity")]
    pub run_model: Option<Identity>,
    /// The model the server has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Identity")]
    pub loaded_model: Option<Identity>,
    /// Why no run can be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<Problem>")]
    pub problems: Option<Vec<Problem>>,
}

/// A reason why no run can be started.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Problem {
    /// Stable, for programs.
    pub code: ProblemCode,
    /// For people.
    pub message: &'static str,
}

/// What prevents the server from starting a run.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemCode {
    /// The server is stopping.
    ShuttingDown,
    /// The model is still being loaded.
    ModelLoading,
    /// The limit of frame bytes is reached.
    StoreFull,
    /// The disk has no room for another run.
    DiskFull,
    /// The store cannot be read.
    StoreError,
}

/// A refusal with its status.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    // Boxed, since it is moved through every result.
    answer: Box<ErrorAnswer>,
}

impl ApiError {
    /// Seconds after which a temporarily refused call may be repeated.
    pub const RETRY_AFTER: u8 = 1;

    /// A refusal with a code of the server, whose status it has, and a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self::of(code.status(), code.name(), message.into())
    }

    fn of(status: StatusCode, code: &'static str, message: String) -> Self {
        Self { status, answer: Box::new(ErrorAnswer { error: Refused { code, message, ..Refused::default() } }) }
    }

    /// There is no such run.
    pub fn no_such_run(id: &str) -> Self {
        let shown: String = id.chars().take(64).collect();
        Self::new(Code::RunNotFound, format!("there is no run {shown:?}")).with(|it| it.id = Some(shown))
    }

    /// The server is about to stop.
    pub fn shutting_down() -> Self {
        Self::new(Code::ShuttingDown, "the server is stopping; the run goes on when it is back")
    }

    /// Something went wrong that is not the caller's fault; the cause goes to the log.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(Code::Internal, "the server could not do this; its log says why")
    }

    /// Adds details.
    pub fn with(mut self, details: impl FnOnce(&mut Refused)) -> Self {
        details(&mut self.answer.error);
        self
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.answer.error.code
    }

    /// The answer as JSON text.
    pub fn to_json(&self) -> String {
        json!(self.answer).to_string()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self.answer)).into_response();
        // What is refused for now, and not for what it is.
        if matches!(self.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(u16::from(Self::RETRY_AFTER)));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Every refusal of the sampler is a bad request here, with the sampler's own code.
impl<R: Refusal> From<R> for ApiError {
    fn from(refusal: R) -> Self {
        Self::of(StatusCode::BAD_REQUEST, refusal.code(), refusal.to_string()).with(|it| {
            it.index = refusal.index();
            it.value = refusal.value().map(Value::from);
        })
    }
}

impl From<Unusable> for ApiError {
    fn from(error: Unusable) -> Self {
        match error {
            Unusable::Constraint(error) => error.into(),
            Unusable::Mismatch { .. } => Self::new(Code::ConstraintMismatch, error.to_string()),
            Unusable::Invalid(_) => Self::new(Code::ConstraintInvalid, error.to_string()),
        }
    }
}

impl From<TakeError> for ApiError {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Field(error) => error.into(),
            TakeError::Ambiguous(_) => Self::new(Code::ConstraintAmbiguous, error.to_string()),
            TakeError::Unusable(error) => error.into(),
        }
    }
}

/// A failure of the store as a refusal.
pub fn from_store(error: StoreError) -> ApiError {
    match error {
        StoreError::DiskFull => {
            tracing::warn!("the disk is full");
            ApiError::new(
                Code::DiskFull,
                "the disk of the data folder is full; make room on it, or delete runs that are no longer wanted",
            )
        }
        error => ApiError::internal(error),
    }
}

/// A failure of the model as a refusal.
pub fn from_model(error: ModelError) -> ApiError {
    match error {
        ModelError::NotEncodable(character) => ApiError::new(
            Code::TextNotEncodable,
            format!(
                "the model has no token for {character:?} (U+{:04X}); take it out of the text",
                u32::from(character)
            ),
        )
        .with(|it| it.character = Some(character.to_string())),
        other => ApiError::internal(other),
    }
}
