//! Strict reading of JSON objects: a missing, unknown, repeated or mistyped field is an error that names it.
//!
//! Everything that arrives as JSON comes through this door, so that a misspelt setting is refused rather than ignored.

use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};

use crate::core::refusal::Refusal;
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

/// A JSON object. Its fields are taken one by one, in [`read`](Self::read), which refuses those nobody took.
#[derive(Clone, Debug, Default)]
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

    /// Whether a field is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key == name)
    }

    /// The fields, in their order and with repeated keys, for a value whose form is somebody else's.
    #[must_use]
    pub fn into_entries(self) -> Vec<(String, Field)> {
        self.entries
    }

    /// Looks at a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.entries.iter().find(|(key, _)| key == name) {
            Some((_, Field::Scalar(Scalar::Text(text)))) => Some(text),
            _ => None,
        }
    }

    /// What `value` makes of the fields, if it took every one and none was refused. A refused field is handed to `value`
    /// as nothing (0, "", an empty list), and the first refusal is what comes of the reading, whatever `value` returns.
    ///
    /// ```
    /// use quillmate_sampler::json::{FieldError, Object};
    /// let pair = |text| Object::parse(text)?.read(|it| Ok::<_, FieldError>((it.integer("a"), it.string("b"))));
    /// assert_eq!(pair(r#"{"a": 7, "b": "x"}"#)?, (7, "x".to_owned()));
    /// assert_eq!(pair(r#"{"a": 7}"#).unwrap_err(), FieldError::Missing("b".into()));
    /// assert_eq!(pair(r#"{"a": 7, "b": "x", "c": 1}"#).unwrap_err(), FieldError::Unknown("c".into()));
    /// # Ok::<(), FieldError>(())
    /// ```
    ///
    /// # Errors
    /// `field_missing`, `field_repeated`, `field_type`, each with the path of the field (and the index of an element);
    /// else those of `value`; else `field_unknown`.
    pub fn read<T, E: From<FieldError>>(self, value: impl FnOnce(&mut Fields) -> Result<T, E>) -> Result<T, E> {
        let mut fields = Fields { object: self, refused: None };
        let value = value(&mut fields);
        fields.end(value.is_ok())?;
        value
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }
}

/// The fields of an object that is being read. Each way of taking one refuses what it is not documented to take; see
/// [`Object::read`].
pub struct Fields {
    object: Object,
    refused: Option<FieldError>,
}

impl Fields {
    /// Whether a field is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.object.has(name)
    }

    /// The first refusal; where there was none and the value is sound, that of a field nobody took.
    fn end(self, sound: bool) -> Result<(), FieldError> {
        match (self.refused, self.object.entries.first()) {
            (Some(refused), _) => Err(refused),
            (None, Some((name, _))) if sound => Err(FieldError::Unknown(self.object.path_of(name))),
            _ => Ok(()),
        }
    }

    fn refuse(&mut self, error: FieldError) {
        self.refused.get_or_insert(error);
    }

    fn mistyped<T: Default>(&mut self, path: String, expected: &'static str, found: Option<Field>) -> T {
        // What was not there has been refused already.
        if let Some(found) = found {
            self.refuse(FieldError::Type { path, expected, found: found.to_string() });
        }
        T::default()
    }

    /// Takes anything.
    pub fn any(&mut self, name: &str) -> Option<Field> {
        let entries = &mut self.object.entries;
        let Some(at) = entries.iter().position(|(key, _)| key == name) else {
            self.refuse(FieldError::Missing(self.object.path_of(name)));
            return None;
        };
        let (_, field) = entries.swap_remove(at);
        if self.has(name) {
            self.refuse(FieldError::Repeated(self.object.path_of(name)));
            return None;
        }
        Some(field)
    }

    /// Takes an object.
    pub fn object(&mut self, name: &str) -> Object {
        let path = self.object.path_of(name);
        match self.any(name) {
            Some(Field::Object(object)) => object.named(&path),
            found => self.mistyped(path, "an object", found),
        }
    }

    /// Takes an object and reads it.
    pub(crate) fn form<T: Default>(&mut self, name: &str, read: impl FnOnce(Object) -> Result<T, FieldError>) -> T {
        let object = self.object(name);
        // What is no object has been refused already.
        if self.refused.is_some() {
            return T::default();
        }
        read(object).unwrap_or_else(|error| {
            self.refuse(error);
            T::default()
        })
    }

    /// Takes a string.
    pub fn string(&mut self, name: &str) -> String {
        match self.any(name) {
            Some(Field::Scalar(Scalar::Text(text))) => text,
            found => self.mistyped(self.object.path_of(name), "a string", found),
        }
    }

    /// Takes a flag.
    pub fn flag(&mut self, name: &str) -> bool {
        match self.any(name) {
            Some(Field::Scalar(Scalar::Flag(flag))) => flag,
            found => self.mistyped(self.object.path_of(name), "true or false", found),
        }
    }

    /// Takes a number.
    pub fn number(&mut self, name: &str) -> f64 {
        let found = self.any(name);
        match found.as_ref().and_then(number) {
            Some(number) => number,
            None => self.mistyped(self.object.path_of(name), "a number", found),
        }
    }

    /// Takes an integer from 0 to 2^64 − 1.
    pub fn integer(&mut self, name: &str) -> u64 {
        let found = self.any(name);
        match found.as_ref().and_then(integer) {
            Some(integer) => integer,
            None => self.mistyped(self.object.path_of(name), "an integer, 0 or above", found),
        }
    }

    /// Takes an integer from 0 to 2^32 − 1.
    pub fn count(&mut self, name: &str) -> u32 {
        let found = self.any(name);
        match found.as_ref().and_then(token) {
            Some(count) => count,
            None => self.mistyped(self.object.path_of(name), "an integer from 0 to 4294967295", found),
        }
    }

    /// Takes a field if it is null, and says whether it was; one that may be null must be there all the same.
    pub fn null(&mut self, name: &str) -> bool {
        let null = |(key, field): &(String, Field)| key == name && matches!(field, Field::Scalar(Scalar::Null));
        self.object.entries.iter().any(null) && self.any(name).is_some()
    }

    /// Takes a string that may be null.
    pub fn string_or_null(&mut self, name: &str) -> Option<String> {
        if self.null(name) { None } else { Some(self.string(name)) }
    }

    /// Takes an integer from 0 to 2^64 − 1 that may be null.
    pub fn integer_or_null(&mut self, name: &str) -> Option<u64> {
        if self.null(name) { None } else { Some(self.integer(name)) }
    }

    /// Takes an integer from 0 to 2^32 − 1 that may be null.
    pub fn count_or_null(&mut self, name: &str) -> Option<u32> {
        if self.null(name) { None } else { Some(self.count(name)) }
    }

    /// Takes a number that may be null.
    pub fn number_or_null(&mut self, name: &str) -> Option<f64> {
        if self.null(name) { None } else { Some(self.number(name)) }
    }

    /// Takes a list of objects, each named by its index in errors.
    pub fn objects(&mut self, name: &str) -> Vec<Object> {
        let path = self.object.path_of(name);
        let objects = self.list(name, "an object", |field| match field {
            Field::Object(object) => Ok(object),
            other => Err(other),
        });
        objects.into_iter().enumerate().map(|(at, object)| object.named(&format!("{path}[{at}]"))).collect()
    }

    /// Takes a list of strings.
    pub fn strings(&mut self, name: &str) -> Vec<String> {
        self.list(name, "a string", |field| match field {
            Field::Scalar(Scalar::Text(text)) => Ok(text),
            other => Err(other),
        })
    }

    /// Takes a list of strings, each of which may be null.
    pub fn strings_or_null(&mut self, name: &str) -> Vec<Option<String>> {
        self.list(name, "a string or null", |field| match field {
            Field::Scalar(Scalar::Null) => Ok(None),
            Field::Scalar(Scalar::Text(text)) => Ok(Some(text)),
            other => Err(other),
        })
    }

    /// Takes a list of token ids.
    pub fn tokens(&mut self, name: &str) -> Vec<u32> {
        self.list(name, "a token id, an integer from 0 to 4294967295", |field| token(&field).ok_or(field))
    }

    /// Takes a list of lists of token ids.
    pub fn token_lists(&mut self, name: &str) -> Vec<Vec<u32>> {
        self.list(name, "a list of token ids, integers from 0 to 4294967295", |field| match &field {
            Field::List(list) => list.iter().map(token).collect::<Option<_>>().ok_or(field),
            _ => Err(field),
        })
    }

    /// Takes a list of pairs of a token id and a number.
    pub fn token_numbers(&mut self, name: &str) -> Vec<(u32, f64)> {
        self.list(name, "a pair of a token id and a number", |field| match &field {
            Field::List(pair) if pair.len() == 2 => token(&pair[0]).zip(number(&pair[1])).ok_or(field),
            _ => Err(field),
        })
    }

    fn list<T>(&mut self, name: &str, expected: &'static str, convert: impl Fn(Field) -> Result<T, Field>) -> Vec<T> {
        let mut list = Vec::new();
        self.each(name, expected, &mut |field| {
            list.push(convert(field)?);
            Ok(())
        });
        list
    }

    /// Takes a list element by element, up to one that is handed back. (Not generic, for the size of the wasm.)
    fn each(&mut self, name: &str, expected: &'static str, take: &mut dyn FnMut(Field) -> Result<(), Field>) {
        let path = self.object.path_of(name);
        match self.any(name) {
            Some(Field::List(fields)) => {
                for (at, field) in fields.into_iter().enumerate() {
                    if let Err(found) = take(field) {
                        return self.mistyped(format!("{path}[{at}]"), expected, Some(found));
                    }
                }
            }
            found => self.mistyped(path, "a list", found),
        }
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
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(fields) => write!(f, "a list of {}", fields.len()),
            Self::Object(_) => f.write_str("an object"),
            Self::Scalar(scalar) => {
                let text = scalar.to_string();
                let shown = beginning(&text, 60);
                f.write_str(&shown)?;
                f.write_str(if shown.len() < text.len() { "…" } else { "" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Field, FieldError, Object, Scalar};
    use serde::Deserialize;
    use serde::de::IntoDeserializer;
    use serde::de::value::Error;

    /// Takes `a`, judges it, then takes `b`.
    fn read(text: &str) -> Result<(u64, u32), FieldError> {
        Object::parse(text)?.read(|it| {
            let a = it.integer("a");
            if a == 0 {
                return Err(FieldError::Syntax("a is 0".into()));
            }
            Ok((a, it.count("b")))
        })
    }

    #[test]
    fn the_first_refusal_is_what_comes_of_a_reading() {
        assert_eq!(read(r#"{"a": 1, "b": 2}"#), Ok((1, 2)));
        // A field that is not there is handed over as 0, and that is not what is refused.
        assert_eq!(read(r#"{"b": 2}"#), Err(FieldError::Missing("a".into())));
        assert_eq!(read(r#"{"a": 1, "a": 2, "b": 2}"#), Err(FieldError::Repeated("a".into())));
        assert_eq!(read(r#"{"a": 0}"#), Err(FieldError::Syntax("a is 0".into())));
        let b = FieldError::Type {
            path: "b".into(),
            expected: "an integer from 0 to 4294967295",
            found: "4294967296".into(),
        };
        assert_eq!(read(r#"{"a": 1, "b": 4294967296, "c": 3}"#), Err(b));
        assert_eq!(read(r#"{"a": 1, "b": 2, "c": 3}"#), Err(FieldError::Unknown("c".into())));
    }

    #[test]
    fn an_integer_may_be_written_as_a_float_as_far_as_floats_know_it() {
        let a = |text: &str| read(&format!(r#"{{"a": {text}, "b": 2}}"#)).map(|(a, _)| a);
        assert_eq!(a("7.0"), Ok(7));
        assert_eq!(a("9007199254740992.0"), Ok(1 << 53));
        for (text, found) in [
            ("7.5", "7.5"),
            ("9007199254740994.0", "9007199254740994"),
            ("-1.0", "-1"),
            ("1e300", "1e300"),
            (r#""7""#, r#""7""#),
            ("[1, 2]", "a list of 2"),
            ("{}", "an object"),
            ("null", "null"),
            ("true", "true"),
        ] {
            let Err(FieldError::Type { found: said, .. }) = a(text) else { panic!("{text}") };
            assert_eq!(said, found);
        }
    }

    #[test]
    fn a_long_value_is_shortened_and_says_so() {
        let said = |length: usize| {
            let Err(FieldError::Type { found, .. }) = read(&format!(r#"{{"a": "{}"}}"#, "x".repeat(length))) else {
                panic!()
            };
            found
        };
        assert_eq!(said(20), format!("\"{}\"", "x".repeat(20)));
        assert!(said(100).ends_with("x…") && said(100).chars().count() <= 61, "{}", said(100));
    }

    #[test]
    fn what_is_not_of_the_form_is_named() {
        let syntax = |text: &str| Object::parse(text).unwrap_err().to_string();
        assert!(
            syntax("3").starts_with("not valid JSON: invalid type: integer `3`, expected an object"),
            "{}",
            syntax("3")
        );
        let wide: serde::de::value::I128Deserializer<Error> = 5i128.into_deserializer();
        let error = Field::deserialize(wide).unwrap_err().to_string();
        assert!(error.ends_with("expected a value"), "{error}");
        let entries = Object::parse(r#"{"b": 1, "a": null}"#).unwrap().into_entries();
        let keys: Vec<&str> = entries.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["b", "a"]);
        assert!(matches!(entries[0].1, Field::Scalar(Scalar::Integer(1))));
    }
}
