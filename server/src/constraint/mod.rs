//! Constraints on what a run may write: asked for by JSON Schema, grammar or regex, kept with the run, and made anew from
//! what is kept whenever the run is taken up.
//!
//! What is allowed at a step is a function of the constraint and the tokens emitted before it, so a run stores no more
//! than which constraint it is under: its source, and by which release of what it is read ([`ENGINE`]). The frames hold
//! the rows with the bans in them; whoever replays or verifies needs neither.
//!
//! Without the feature `grammar` a constraint is refused by name (`constraint_unavailable`).

#[cfg(feature = "grammar")]
mod grammar;
#[cfg(feature = "grammar")]
mod guidance;
mod prepare;

use std::sync::Arc;

use axum::http::StatusCode;
use quillmate_sampler::Refusal;
use quillmate_sampler::constraint::{Constraint, ConstraintError};
use quillmate_sampler::json::{Field, FieldError, Fields, Scalar};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::error::ApiError;
use crate::limits::{Limits, over};
use crate::model::{LanguageModel, hex};

pub use prepare::{Constraints, Ready, prepare};

/// What reads constraints here, by name and version. Another release may allow other tokens for the same source, so a run
/// goes on under its own only.
pub const ENGINE: &str = "llguidance-1.9.1";

/// The stack of a thread that reads constraints. Reading recurses along chains of rules, of which a source within its
/// limit ([`Limits::constraint_bytes`]) can hold thousands; an overflow would end the server. Pages never touched cost
/// nothing.
pub const STACK: usize = 256 << 20;

/// What a text must fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A JSON value that fits a schema. Its properties come in the schema's order.
    JsonSchema(Value),
    /// A text of a grammar in llguidance's variant of Lark.
    Lark(String),
    /// A text that matches a regular expression, from its beginning to its end.
    Regex(String),
}

/// A constraint that has been read, for any number of runs.
pub trait Compiled: Send + Sync {
    /// The constraint for one more run. It shares nothing that changes with the others.
    fn begin(&self) -> Box<dyn Constraint + Send>;
}

/// A constraint as it is kept with its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What reads it.
    engine: String,
    /// What was asked for.
    #[serde(flatten)]
    source: Source,
}

/// Why there is no constraint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// This server was built without the feature.
    #[error("this server was built without constraints (cargo feature `grammar`)")]
    Unavailable,
    /// The run was begun under another release.
    #[error("the run is under a constraint of {kept}, this server has {ENGINE}")]
    Mismatch {
        /// What it was begun under.
        kept: String,
    },
    /// It is no schema, grammar or regex, or says nothing that can be written.
    #[error("{0}")]
    Invalid(String),
    /// It can be read, and cannot be followed.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
}

impl Unusable {
    /// A stable name for the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable => "constraint_unavailable",
            Self::Mismatch { .. } => "constraint_mismatch",
            Self::Invalid(_) => "constraint_invalid",
            Self::Constraint(error) => error.code(),
        }
    }
}

impl From<Unusable> for ApiError {
    fn from(error: Unusable) -> Self {
        match error {
            Unusable::Constraint(error) => error.into(),
            Unusable::Unavailable => Self::new(StatusCode::NOT_IMPLEMENTED, error.code(), error.to_string()),
            Unusable::Mismatch { .. } => Self::new(StatusCode::CONFLICT, error.code(), error.to_string()),
            Unusable::Invalid(_) => Self::bad_request(error.code(), error.to_string()),
        }
    }
}

impl Kept {
    /// Takes the field `constraint` of a request, if it is there: an object with one of `json_schema`, `lark`, `regex`.
    pub fn take(body: &mut Fields, limits: &Limits) -> Result<Option<Self>, ApiError> {
        if !body.has("constraint") {
            return Ok(None);
        }
        let source = body.object("constraint").read(|it| {
            let kinds: Vec<&str> = ["json_schema", "lark", "regex"].into_iter().filter(|kind| it.has(kind)).collect();
            if kinds.len() > 1 {
                return Err(ApiError::bad_request(
                    "constraint_ambiguous",
                    format!("a constraint is of one kind, and this one has {}", kinds.join(" and ")),
                ));
            }
            Ok::<_, ApiError>(if it.has("lark") {
                Source::Lark(it.string("lark"))
            } else if it.has("regex") {
                Source::Regex(it.string("regex"))
            } else {
                let schema = it.object("json_schema");
                #[cfg_attr(not(feature = "grammar"), expect(unused_mut, reason = "nothing is completed without it"))]
                let mut schema = value(Field::Object(schema), "constraint.json_schema")?;
                #[cfg(feature = "grammar")]
                guidance::complete(&mut schema).map_err(Unusable::Invalid)?;
                Source::JsonSchema(schema)
            })
        })?;
        let kept = Self { engine: ENGINE.into(), source };
        let bytes = kept.to_json().len() as u64;
        over("constraint_too_long", "bytes of constraint", bytes, limits.constraint_bytes.into())?;
        Ok(Some(kept))
    }

    /// As it is stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        json!(self).to_string()
    }

    /// Reads what was stored.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// As a client sees it: with the digest of its compact JSON.
    #[must_use]
    pub fn show(&self) -> Value {
        let mut shown = json!(self);
        shown["sha256"] = self.sha256().into();
        shown
    }

    /// Which it is, in a word: what reads it and its digest. Two that differ in anything have different names.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.engine, self.sha256())
    }

    fn sha256(&self) -> String {
        hex(&Sha256::digest(self.to_json()))
    }

    /// Compiles the constraint for a model's tokens. It takes time and stack ([`STACK`]); [`Constraints`] does it once.
    pub fn compile(&self, model: &dyn LanguageModel) -> Result<Arc<dyn Compiled>, Unusable> {
        #[cfg(feature = "grammar")]
        {
            if self.engine != ENGINE {
                return Err(Unusable::Mismatch { kept: self.engine.clone() });
            }
            grammar::compile(&self.source, model)
        }
        #[cfg(not(feature = "grammar"))]
        {
            let _ = model;
            Err(Unusable::Unavailable)
        }
    }
}

/// A schema as serde_json has it. A key given twice is refused at any depth.
fn value(field: Field, path: &str) -> Result<Value, FieldError> {
    Ok(match field {
        Field::Object(object) => {
            let mut fields = Map::new();
            for (key, field) in object.into_entries() {
                let path = format!("{path}.{key}");
                let value = value(field, &path)?;
                if fields.insert(key, value).is_some() {
                    return Err(FieldError::Repeated(path));
                }
            }
            Value::Object(fields)
        }
        Field::List(fields) => {
            let values = fields.into_iter().enumerate().map(|(at, field)| value(field, &format!("{path}[{at}]")));
            Value::Array(values.collect::<Result<_, _>>()?)
        }
        Field::Scalar(Scalar::Null) => Value::Null,
        Field::Scalar(Scalar::Flag(flag)) => flag.into(),
        Field::Scalar(Scalar::Integer(integer)) => integer.into(),
        // Integers below 0 have come as these; up to 2^53 nothing is lost.
        Field::Scalar(Scalar::Number(number))
            if number.trunc() == number && number.abs() <= 9_007_199_254_740_992.0 =>
        {
            (number as i64).into()
        }
        Field::Scalar(Scalar::Number(number)) => number.into(),
        Field::Scalar(Scalar::Text(text)) => text.into(),
    })
}

#[cfg(test)]
mod tests {
    use quillmate_sampler::json::Object;

    use super::*;

    fn taken(text: &str) -> Result<Kept, String> {
        let value = value(Field::Object(Object::parse(text).unwrap()), "s").map_err(|error| error.to_string())?;
        Ok(Kept { engine: ENGINE.into(), source: Source::JsonSchema(value) })
    }

    #[test]
    fn a_schema_is_kept_to_the_letter() {
        let text = r#"{"z":{"enum":[-5,7,18446744073709551615,0.1,null,true,"a\u00e9\n",[{"b":1,"a":2}]]},"a":{"minimum":-0.5}}"#;
        let kept = taken(text).unwrap();
        let expected = format!("{{\"engine\":\"{ENGINE}\",\"json_schema\":{text}}}").replace("\\u00e9", "é");
        assert_eq!(kept.to_json(), expected);
        assert_eq!(Kept::from_json(&kept.to_json()).unwrap(), kept);
        assert_eq!(kept.show()["sha256"], hex(&Sha256::digest(expected)));
        assert_eq!(kept.name(), format!("{ENGINE} {}", kept.show()["sha256"].as_str().unwrap()));
        assert_ne!(kept.name(), taken("{}").unwrap().name());
    }

    #[test]
    fn a_key_given_twice_is_refused_wherever_it_stands() {
        for (text, path) in [
            (r#"{"a":1,"a":1}"#, "s.a"),
            (r#"{"b":{"a":1,"c":2,"a":3}}"#, "s.b.a"),
            (r#"{"b":[0,{"a":1,"a":1}]}"#, "s.b[1].a"),
        ] {
            assert_eq!(taken(text), Err(FieldError::Repeated(path.into()).to_string()));
        }
    }

    #[test]
    fn all_kinds_come_back_from_the_store() {
        for source in [Source::Lark("start: \"a\"".into()), Source::Regex("a+".into()), Source::JsonSchema(json!({}))] {
            let kept = Kept { engine: "another".into(), source };
            assert_eq!(Kept::from_json(&kept.to_json()).unwrap(), kept);
        }
        assert!(Kept::from_json("{\"engine\":\"a\"}").is_err());
    }
}
