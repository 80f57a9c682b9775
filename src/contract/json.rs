//! Strict reading of JSON objects: a missing, unknown, repeated or mistyped field is an error that names it.
//!
//! Everything that arrives as JSON comes through this door, so that a misspelt setting is refused rather than ignored.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};

use crate::core::error::Refusal;
use crate::core::text::{Number, Quoted, beginning};

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

/// What a field holds.
#[derive(Clone, Debug)]
pub enum Field {
    /// An object, with repeated keys kept.
    Object(Object),
    /// A list.
    List(Vec<Field>),
    /// A number, text, flag or null.
    Scalar(Scalar),
}

/// A value that holds no other. (Not serde_json's, which would bring its own writing of numbers into the browser.)
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// null
    Null,
    /// true or false
    Flag(bool),
    /// An integer from 0 to 2^64 − 1.
    Integer(u64),
    /// Any other number.
    Number(f64),
    /// A string.
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Number(number) => {
                let text = Number(*number).to_string();
                f.write_str(text.strip_suffix(".0").unwrap_or(&text))
            }
            Self::Text(text) => Quoted(text).fmt(f),
        }
    }
}

/// Written out rather than derived: an untagged enum would read everything twice.
impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Field;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Field, E> {
                Ok(Field::Scalar(Scalar::Flag(flag)))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Field, E> {
                Ok(Field::Scalar(Scalar::Number(number as f64)))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Field, E> {
                Ok(Field::Scalar(Scalar::Integer(number)))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Field, E> {
                Ok(Field::Scalar(Scalar::Number(number)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Field, E> {
                Ok(Field::Scalar(Scalar::Text(text.to_owned())))
            }
            fn visit_unit<E>(self) -> Result<Field, E> {
                Ok(Field::Scalar(Scalar::Null))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Field, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Field::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Field, A::Error> {
                entries(map).map(Field::Object)
            }
        }
        deserializer.deserialize_any(Any)
    }
}

fn entries<'de, A: MapAccess<'de>>(mut map: A) -> Result<Object, A::Error> {
    let mut entries = Vec::new();
    while let Some(entry) = map.next_entry()? {
        entries.push(entry);
    }
    Ok(Object::from_entries(entries))
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Object;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object, A::Error> {
                entries(map)
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

    fn take(&mut self, name: &str) -> Result<Field, FieldError> {
        let at = self
            .entries
            .iter()
            .position(|(key, _)| key == name)
            .ok_or_else(|| FieldError::Missing(self.path_of(name)))?;
        let (_, field) = self.entries.swap_remove(at);
        if self.entries.iter().any(|(key, _)| key == name) {
            return Err(FieldError::Repeated(self.path_of(name)));
        }
        Ok(field)
    }

    fn take_as<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        convert: impl FnOnce(Field) -> Result<T, Field>,
    ) -> Result<T, FieldError> {
        let path = self.path_of(name);
        convert(self.take(name)?).map_err(|found| FieldError::Type { path, expected, found: shorten(&found) })
    }

    /// Whether a field is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key == name)
    }

    /// The fields nobody took, in their order and with repeated keys, for a value whose form is somebody else's.
    #[must_use]
    pub fn into_entries(self) -> Vec<(String, Field)> {
        self.entries
    }

    /// Looks at a string without taking it.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.entries.iter().find(|(key, _)| key == name) {
            Some((_, Field::Scalar(Scalar::Text(text)))) => Some(text),
            _ => None,
        }
    }

    /// Takes an object.
    ///
    /// # Errors
    /// `field_missing`, `field_repeated`, `field_type`.
    pub fn object(&mut self, name: &str) -> Result<Object, FieldError> {
        let path = self.path_of(name);
        self.take_as(name, "an object", |field| match field {
            Field::Object(object) => Ok(object.named(&path)),
            other => Err(other),
        })
    }

    /// Takes a list of objects, each named by its index in errors.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn objects(&mut self, name: &str) -> Result<Vec<Object>, FieldError> {
        let path = self.path_of(name);
        let objects = self.list(name, "an object", |field| match field {
            Field::Object(object) => Ok(object),
            other => Err(other),
        })?;
        Ok(objects.into_iter().enumerate().map(|(at, object)| object.named(&format!("{path}[{at}]"))).collect())
    }

    /// Takes a string.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn string(&mut self, name: &str) -> Result<String, FieldError> {
        self.take_as(name, "a string", text)
    }

    /// Takes a number, a string, a flag or null, to be judged by the caller.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn scalar(&mut self, name: &str) -> Result<Scalar, FieldError> {
        self.take_as(name, "a value", |field| match field {
            Field::Scalar(scalar) => Ok(scalar),
            other => Err(other),
        })
    }

    /// Takes a flag.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn flag(&mut self, name: &str) -> Result<bool, FieldError> {
        self.take_as(name, "true or false", |field| match field {
            Field::Scalar(Scalar::Flag(flag)) => Ok(flag),
            other => Err(other),
        })
    }

    /// Takes a number.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn number(&mut self, name: &str) -> Result<f64, FieldError> {
        self.take_as(name, "a number", |field| number(&field).ok_or(field))
    }

    /// Takes an integer from 0 to 2^64 − 1.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn integer(&mut self, name: &str) -> Result<u64, FieldError> {
        self.take_as(name, "an integer, 0 or above", |field| integer(&field).ok_or(field))
    }

    /// Takes an integer from 0 to 2^32 − 1.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn count(&mut self, name: &str) -> Result<u32, FieldError> {
        self.take_as(name, "an integer from 0 to 4294967295", |field| token(&field).ok_or(field))
    }

    /// Takes a list of strings.
    ///
    /// # Errors
    /// As [`object`](Self::object); a wrong element is named by its index.
    pub fn strings(&mut self, name: &str) -> Result<Vec<String>, FieldError> {
        self.list(name, "a string", text)
    }

    /// Takes a list of strings, each of which may be null.
    ///
    /// # Errors
    /// As [`object`](Self::object); a wrong element is named by its index.
    pub fn strings_or_null(&mut self, name: &str) -> Result<Vec<Option<String>>, FieldError> {
        self.list(name, "a string or null", |field| match field {
            Field::Scalar(Scalar::Null) => Ok(None),
            other => text(other).map(Some),
        })
    }

    /// Takes a field if it is null, and says whether it was; one that may be null must be there all the same.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn null(&mut self, name: &str) -> Result<bool, FieldError> {
        let null = |(key, field): &(String, Field)| key == name && matches!(field, Field::Scalar(Scalar::Null));
        if self.entries.iter().any(null) {
            return self.scalar(name).map(|_| true);
        }
        Ok(false)
    }

    /// Takes a string that may be null.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn string_or_null(&mut self, name: &str) -> Result<Option<String>, FieldError> {
        if self.null(name)? { Ok(None) } else { self.string(name).map(Some) }
    }

    /// Takes an integer from 0 to 2^64 − 1 that may be null.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn integer_or_null(&mut self, name: &str) -> Result<Option<u64>, FieldError> {
        if self.null(name)? { Ok(None) } else { self.integer(name).map(Some) }
    }

    /// Takes an integer from 0 to 2^32 − 1 that may be null.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn count_or_null(&mut self, name: &str) -> Result<Option<u32>, FieldError> {
        if self.null(name)? { Ok(None) } else { self.count(name).map(Some) }
    }

    /// Takes a number that may be null.
    ///
    /// # Errors
    /// As [`object`](Self::object).
    pub fn number_or_null(&mut self, name: &str) -> Result<Option<f64>, FieldError> {
        if self.null(name)? { Ok(None) } else { self.number(name).map(Some) }
    }

    /// Takes a list of token ids.
    ///
    /// # Errors
    /// As [`object`](Self::object); a wrong element is named by its index.
    pub fn tokens(&mut self, name: &str) -> Result<Vec<u32>, FieldError> {
        self.list(name, "a token id, an integer from 0 to 4294967295", |field| token(&field).ok_or(field))
    }

    /// Takes a list of lists of token ids.
    ///
    /// # Errors
    /// As [`object`](Self::object); a wrong element is named by its index.
    pub fn token_lists(&mut self, name: &str) -> Result<Vec<Vec<u32>>, FieldError> {
        self.list(name, "a list of token ids, integers from 0 to 4294967295", |field| match &field {
            Field::List(list) => list.iter().map(token).collect::<Option<_>>().ok_or(field),
            _ => Err(field),
        })
    }

    /// Takes a list of pairs of a token id and a number.
    ///
    /// # Errors
    /// As [`object`](Self::object); a wrong element is named by its index.
    pub fn token_numbers(&mut self, name: &str) -> Result<Vec<(u32, f64)>, FieldError> {
        self.list(name, "a pair of a token id and a number", |field| match &field {
            Field::List(pair) if pair.len() == 2 => token(&pair[0]).zip(number(&pair[1])).ok_or(field),
            _ => Err(field),
        })
    }

    fn list<T>(
        &mut self,
        name: &str,
        expected: &'static str,
        convert: impl Fn(Field) -> Result<T, Field>,
    ) -> Result<Vec<T>, FieldError> {
        let path = self.path_of(name);
        let fields = self.take_as(name, "a list", |field| match field {
            Field::List(fields) => Ok(fields),
            other => Err(other),
        })?;
        let mut list = Vec::with_capacity(fields.len());
        for (at, field) in fields.into_iter().enumerate() {
            list.push(convert(field).map_err(|found| FieldError::Type {
                path: format!("{path}[{at}]"),
                expected,
                found: shorten(&found),
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

fn text(field: Field) -> Result<String, Field> {
    match field {
        Field::Scalar(Scalar::Text(text)) => Ok(text),
        other => Err(other),
    }
}

fn number(field: &Field) -> Option<f64> {
    match field {
        Field::Scalar(Scalar::Integer(integer)) => Some(*integer as f64),
        Field::Scalar(Scalar::Number(number)) => Some(*number),
        _ => None,
    }
}

fn token(field: &Field) -> Option<u32> {
    integer(field).and_then(|id| u32::try_from(id).ok())
}

/// An integer that JSON may also write as 7.0.
fn integer(field: &Field) -> Option<u64> {
    match field {
        Field::Scalar(Scalar::Integer(integer)) => Some(*integer),
        // Above 2^53 a float no longer says which integer was meant.
        Field::Scalar(Scalar::Number(number))
            if number.trunc() == *number && (0.0..=9_007_199_254_740_992.0).contains(number) =>
        {
            Some(*number as u64)
        }
        _ => None,
    }
}

/// A field as text, short enough for a message.
fn shorten(field: &Field) -> String {
    match field {
        Field::List(fields) => format!("a list of {}", fields.len()),
        Field::Object(_) => "an object".to_owned(),
        Field::Scalar(scalar) => {
            let text = scalar.to_string();
            let mut shown = beginning(&text, 60);
            if shown.len() < text.len() {
                shown.push('…');
            }
            shown
        }
    }
}
