//! What a caller is told when something is refused: a status, a stable code, a message for people, and the value at fault.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use quillmate_sampler::Refusal;
use serde_json::{Value, json};

use crate::constraint::{TakeError, Unusable};
use crate::model::ModelError;
use crate::store::StoreError;

/// An error as it leaves the server: `{"error": {"code", "message", …details}}`.
#[derive(Debug, Clone)]
pub struct ApiError {
    status: StatusCode,
    code: String,
    message: String,
    details: Vec<(String, Value)>,
}

impl ApiError {
    /// Seconds after which a call that was refused for now may be made again.
    pub const RETRY_AFTER: u8 = 1;

    /// An error with a status, a stable code and a message.
    pub fn new(status: StatusCode, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), details: Vec::new() }
    }

    /// Something in the request is wrong.
    pub fn bad_request(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// There is no such run.
    pub fn no_such_run(id: &str) -> Self {
        let shown: String = id.chars().take(64).collect();
        Self::new(StatusCode::NOT_FOUND, "run_not_found", format!("there is no run {shown:?}")).with("id", shown)
    }

    /// The server is about to stop.
    pub fn shutting_down() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "shutting_down",
            "the server is stopping; the run goes on when it is back",
        )
    }

    /// Something went wrong that is not the caller's fault; the cause goes to the log.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the server could not do this; its log says why")
    }

    /// Adds a detail.
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.push((name.into(), value.into()));
        self
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The error as JSON.
    pub fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Value::Object(fields) = &mut error {
            fields.extend(self.details.clone());
        }
        json!({"error": error})
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_json())).into_response();
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
        let mut error = Self::bad_request(refusal.code(), refusal.to_string());
        if let Some(index) = refusal.index() {
            error = error.with("index", index);
        }
        if let Some(value) = refusal.value() {
            // JSON has no NaN and no infinity; the message names them.
            error = error.with("value", value);
        }
        error
    }
}

impl From<Unusable> for ApiError {
    fn from(error: Unusable) -> Self {
        match error {
            Unusable::Constraint(error) => error.into(),
            Unusable::Mismatch { .. } => Self::new(StatusCode::CONFLICT, error.code(), error.to_string()),
            Unusable::Invalid(_) => Self::bad_request(error.code(), error.to_string()),
        }
    }
}

impl From<TakeError> for ApiError {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Field(error) => error.into(),
            TakeError::Ambiguous(_) => Self::bad_request("constraint_ambiguous", error.to_string()),
            TakeError::Unusable(error) => error.into(),
        }
    }
}

/// A store's failure, told to a caller.
pub fn from_store(error: StoreError) -> ApiError {
    match error {
        StoreError::DiskFull => {
            tracing::warn!("the disk is full");
            ApiError::new(
                StatusCode::INSUFFICIENT_STORAGE,
                error.code(),
                "the disk of the data folder is full; make room on it, or delete runs that are no longer wanted",
            )
        }
        error => ApiError::internal(error),
    }
}

/// A model's failure, told to a caller.
pub fn from_model(error: ModelError) -> ApiError {
    match error {
        ModelError::NotEncodable(character) => ApiError::bad_request(
            error.code(),
            format!(
                "the model has no token for {character:?} (U+{:04X}); take it out of the text",
                u32::from(character)
            ),
        )
        .with("character", character.to_string()),
        other => ApiError::internal(other),
    }
}
