//! Values as they are written to JSON, the counterpart of [`json`](super::json).
//!
//! Types write themselves to this one and only this one is serialized: a `Serialize` of its own for each type would bring
//! a copy of the serializer for each type into the wasm.

use std::borrow::Cow;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A value to be written.
pub enum Value<'a> {
    Null,
    Flag(bool),
    Integer(u64),
    Number(f64),
    Text(Cow<'a, str>),
    /// A list of ids, which may be long, as it lies.
    Tokens(Cow<'a, [u32]>),
    List(Vec<Value<'a>>),
    Object(Entries<'a>),
}

/// The fields of an object, in their order.
#[derive(Default)]
pub struct Entries<'a>(Vec<(&'static str, Value<'a>)>);

impl<'a> Value<'a> {
    pub fn list<T>(items: impl IntoIterator<Item = T>, written: impl Fn(T) -> Self) -> Self {
        let mut list = Vec::new();
        for item in items {
            list.push(written(item));
        }
        Self::List(list)
    }

    pub fn text_or_null(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, |text| Self::Text(text.into()))
    }
}

impl<'a> Entries<'a> {
    pub fn set(&mut self, name: &'static str, value: Value<'a>) {
        self.0.push((name, value));
    }

    pub fn integer(&mut self, name: &'static str, integer: u64) {
        self.set(name, Value::Integer(integer));
    }

    pub fn number(&mut self, name: &'static str, number: f64) {
        self.set(name, Value::Number(number));
    }

    pub fn text(&mut self, name: &'static str, text: &'a str) {
        self.set(name, Value::Text(text.into()));
    }

    pub fn tokens(&mut self, name: &'static str, tokens: &'a [u32]) {
        self.set(name, Value::Tokens(tokens.into()));
    }

    pub fn number_if_there(&mut self, name: &'static str, number: Option<f64>) {
        if let Some(number) = number {
            self.number(name, number);
        }
    }

    pub fn integer_or_null(&mut self, name: &'static str, integer: Option<u64>) {
        self.set(name, integer.map_or(Value::Null, Value::Integer));
    }

    pub fn number_or_null(&mut self, name: &'static str, number: Option<f64>) {
        self.set(name, number.map_or(Value::Null, Value::Number));
    }

    pub fn text_or_null(&mut self, name: &'static str, text: Option<&'a str>) {
        self.set(name, Value::text_or_null(text));
    }
}

impl Serialize for Value<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_none(),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Integer(integer) => serializer.serialize_u64(*integer),
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Tokens(tokens) => serializer.collect_seq(&**tokens),
            Self::List(list) => serializer.collect_seq(list),
            Self::Object(entries) => {
                let mut map = serializer.serialize_map(Some(entries.0.len()))?;
                for (name, value) in &entries.0 {
                    map.serialize_entry(*name, value)?;
                }
                map.end()
            }
        }
    }
}

/// `Serialize` for types that write themselves to a [`Value`].
macro_rules! serialize_written {
    ($($type:ty),+) => {
        $(impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.written().serialize(serializer)
            }
        })+
    };
}
pub(crate) use serialize_written;
