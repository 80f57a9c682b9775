//! Strict reading of JSON objects: a missing, unknown, repeated or mistyped field is an error that names it.
//!
//! Everything that arrives as JSON comes through this door, so that a misspelt setting is refused rather than ignored.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::{Number, Value};

use crate::core::error::Refusal;

/// What was wrong with a JSON object.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldError {
    /// `json_syntax`: not JSON; what the parser said.
    Syntax(String),
    /// `field_missing`: its path.
    Missing(String),
    /// `field_unknown`: its path.
    Unknown(String),
    /// `field_repeated`: its path.
    Repeated(String),
    /// `field_type`: its path, what it must be, what is there.
    Type {
        /// Path of the field, such as `settings.top_k` or `tokens[3]`.
        path: String,
        /// What it must be.
        expected: &'static str,
        /// What is there, shortened.
        found: String,
    },
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(message) => write!(f, "not valid JSON: {message}"),
            Self::Missing(path) => write!(f, "field {path} is missing"),
            Self::Unknown(path) => write!(f, "field {path} is not known"),
            Self::Repeated(path) => write!(f, "field {path} is given twice"),
            Self::Type { path, expected, found } => write!(f, "{path} must be {expected}, but is {found}"),
        }
    }
}

impl std::error::Error for FieldError {}

impl Refusal for FieldError {
    fn code(&self) -> &'static str {
        match self {
            Self::Syntax(_) => "json_syntax",
            Self::Missing(_) => "field_missing",
            Self::Unknown(_) => "field_unknown",
            Self::Repeated(_) => "field_repeated",
            Self::Type { .. } => "field_type",
        }
    }
}

/// A JSON object whose fields are taken one by one; [`finish`](Self::finish) refuses those nobody took.
#[derive(Clone, Debug)]
pub struct Object {
    path: String,
    entries: Vec<(String, Field)>,
}

/// What a field holds. An object has kept repeated keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Field {
    /// An object.
    Object(Object),
    /// Anything else.
    Value(Value),
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Object { path: String::new(), entries })
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

impl Object {
    /// Reads an object from JSON text.
    ///
    /// # Errors
    /// `json_syntax` when the text is not one JSON object.
    pub fn parse(text: &str) -> Result<Self, FieldError> {
        serde_json::from_str(text).map_err(|error| FieldError::Syntax(error.to_string()))
    }

    /// An object from its fields.
    #[must_use]
    pub fn from_entries(entries: Vec<(String, Field)>) -> Self {
        Self { path: String::new(), entries }
    }

    /// Names this object in errors: `settings` makes its fields `settings.top_k`.
    #[must_use]
    pub fn named(mut self, path: &str) -> Self {
        self.path = path.to_owned();
        self
    }

    /// The path of one of this object's fields.
    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    fn take_node(&mut self, name: &str) -> Result<Field, FieldError> {
        let at = self
            .entries
            .iter()
            .position(|(key, _)| key == name)
            .ok_or_else(|| FieldError::Missing(self.path_of(name)))?;
        let (_, node) = self.entries.swap_remove(at);
        if self.entries.iter().any(|(key, _)| key == name) {
            return Err(FieldError::Repeated(self.path_of(name)));
        }
        Ok(node)
    }

    fn take_as<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        convert: impl FnOnce(Value) -> Result<T, Value>,
    ) -> Result<T, FieldError> {
        let path = self.path_of(name);
        match self.take_node(name)? {
            Field::Value(value) => {
                convert(value).map_err(|value| FieldError::Type { path, expected, found: shorten(&value) })
            }
            Field::Object(_) => Err(FieldError::Type { path, expected, found: "an object".to_owned() }),
        }
    }

    /// Whether a field is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key == name)
    }

    /// Takes an object.
    ///
    /// # Errors
    /// `field_missing`, `field_repeated`, `field_type`.
    pub fn object(&mut self, name: &str) -> Result<Object, FieldError> {
        let path = self.path_of(name);
        match self.take_node(name)? {
            Field::Object(object) => Ok(object.named(&path)),
            Field::Value(value) => Err(FieldError::Type { path, expected: "an object", found: shorten(&value) }),
        }
    }

    /// Takes a string.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn string(&mut self, name: &str) -> Result<String, FieldError> {
        self.take_as(name, "a string", |value| match value {
            Value::String(text) => Ok(text),
            other => Err(other),
        })
    }

    /// Takes a value of any kind but an object, to be judged by the caller.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn value(&mut self, name: &str) -> Result<Value, FieldError> {
        self.take_as(name, "a value", Ok)
    }

    /// Takes a number.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn number(&mut self, name: &str) -> Result<f64, FieldError> {
        self.take_as(name, "a number", |value| value.as_f64().ok_or(value))
    }

    /// Takes an integer from 0 to 2^64 − 1.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn integer(&mut self, name: &str) -> Result<u64, FieldError> {
        self.take_as(name, "an integer, 0 or above", |value| integer(&value).ok_or(value))
    }

    /// Takes a list of strings.
    ///
    /// # Errors
    /// As [`object`](Self::object); a wrong element is named by its index.
    pub fn strings(&mut self, name: &str) -> Result<Vec<String>, FieldError> {
        self.list(name, "a string", |value| match value {
            Value::String(text) => Ok(text),
            other => Err(other),
        })
    }

    /// Takes a list of token ids.
    ///
    /// # Errors
    /// As [`object`](Self::object); a wrong element is named by its index.
    pub fn tokens(&mut self, name: &str) -> Result<Vec<u32>, FieldError> {
        self.list(name, "a token id, an integer from 0 to 4294967295", |value| {
            integer(&value).and_then(|id| u32::try_from(id).ok()).ok_or(value)
        })
    }

    fn list<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        convert: impl Fn(Value) -> Result<T, Value>,
    ) -> Result<Vec<T>, FieldError> {
        let path = self.path_of(name);
        let values = self.take_as(name, "a list", |value| match value {
            Value::Array(values) => Ok(values),
            other => Err(other),
        })?;
        let mut list = Vec::with_capacity(values.len());
        for (at, value) in values.into_iter().enumerate() {
            list.push(convert(value).map_err(|value| FieldError::Type {
                path: format!("{path}[{at}]"),
                expected,
                found: shorten(&value),
            })?);
        }
        Ok(list)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `field_unknown` when a field is left.
    pub fn finish(self) -> Result<(), FieldError> {
        match self.entries.first() {
            None => Ok(()),
            Some((name, _)) => Err(FieldError::Unknown(self.path_of(name))),
        }
    }
}

/// An integer that JSON may also write as 7.0.
fn integer(value: &Value) -> Option<u64> {
    let number: &Number = value.as_number()?;
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        // Above 2^53 a float no longer says which integer was meant.
        (float.trunc() == float && (0.0..=9_007_199_254_740_992.0).contains(&float)).then_some(float as u64)
    })
}

/// A value as text, short enough for a message.
fn shorten(value: &Value) -> String {
    match value {
        Value::Array(values) => format!("a list of {}", values.len()),
        Value::Object(_) => "an object".to_owned(),
        other => {
            let text = other.to_string();
            match text.char_indices().nth(60) {
                Some((at, _)) => format!("{}…", &text[..at]),
                None => text,
            }
        }
    }
}
