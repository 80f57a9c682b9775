//! Processors as JSON: `{"name": "min_p", "version": 1, "p": 0.05}`.

use std::fmt;
use std::mem::take;

use super::json::{FieldError, Fields, Object};
use super::written::{Entries, Value, serialize_written};
use crate::core::processors::parameters::{List, Range, Visitor};
use crate::core::processors::{Processor, ProcessorError, Processors};
use crate::core::refusal::Refusal;
use crate::core::text::Quoted;

/// Why a list of processors was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadProcessorsError {
    /// The JSON is not of the form.
    Field(FieldError),
    /// `processor_unknown`: the name that was given.
    Unknown(String),
    /// `processor_version_unknown`: the version that was given.
    Version(u64),
    /// The parameters of a processor are refused.
    Processor(ProcessorError),
}

impl From<FieldError> for ReadProcessorsError {
    fn from(error: FieldError) -> Self {
        Self::Field(error)
    }
}

impl From<ProcessorError> for ReadProcessorsError {
    fn from(error: ProcessorError) -> Self {
        Self::Processor(error)
    }
}

impl fmt::Display for ReadProcessorsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(error) => error.fmt(f),
            Self::Unknown(name) => write!(f, "processor {} is not known", Quoted(name)),
            Self::Version(version) => write!(f, "version {version} of this processor is not known"),
            Self::Processor(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadProcessorsError {}

impl Refusal for ReadProcessorsError {
    fn code(&self) -> &'static str {
        match self {
            Self::Field(error) => error.code(),
            Self::Unknown(_) => "processor_unknown",
            Self::Version(_) => "processor_version_unknown",
            Self::Processor(error) => error.code(),
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Processor(error) => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Processor(error) => error.value(),
            _ => None,
        }
    }
}

/// Reads a list of processors.
///
/// # Errors
/// `processor_unknown`, `processor_version_unknown`, a missing, unknown or mistyped field, and every refusal of
/// [`Processors::new`].
pub fn read_processors(list: Vec<Object>) -> Result<Processors, ReadProcessorsError> {
    let mut processors = Vec::with_capacity(list.len());
    for object in list {
        processors.push(read(object)?);
    }
    Ok(Processors::new(processors)?)
}

fn read(object: Object) -> Result<Processor, ReadProcessorsError> {
    object.read(|it| {
        // The name first: of an unknown processor the fields say nothing. Then the version, which says what they mean.
        let name = it.string("name");
        if !Processor::every().any(|processor| processor.name() == name) {
            return Err(ReadProcessorsError::Unknown(name));
        }
        let version = it.integer("version");
        let known = |processor: &Processor| processor.name() == name && u64::from(processor.version()) == version;
        let mut processor = Processor::every().find(known).ok_or(ReadProcessorsError::Version(version))?;
        processor.visit(&mut Reader { fields: it });
        Ok(processor)
    })
}

/// Takes the parameters from the fields of an object.
struct Reader<'a> {
    fields: &'a mut Fields,
}

impl Visitor for Reader<'_> {
    fn number(&mut self, name: &'static str, value: &mut f64, _: Range) {
        *value = self.fields.number(name);
    }

    fn count(&mut self, name: &'static str, value: &mut u32, _: u32, default: Option<u32>) {
        *value = match default {
            Some(default) if !self.fields.has(name) => default,
            _ => self.fields.count(name),
        };
    }

    fn limit(&mut self, name: &'static str, value: &mut Option<u32>) {
        *value = self.fields.has(name).then(|| self.fields.count(name));
    }

    fn flag(&mut self, name: &'static str, value: &mut bool) {
        *value = !self.fields.has(name) || self.fields.flag(name);
    }

    fn tokens(&mut self, name: &'static str, value: &mut Vec<u32>, list: List) {
        if list != List::OptionalSet || self.fields.has(name) {
            *value = self.fields.tokens(name);
        }
    }

    fn sequences(&mut self, name: &'static str, value: &mut Vec<Vec<u32>>, required: bool) {
        if required || self.fields.has(name) {
            *value = self.fields.token_lists(name);
        }
    }

    fn biases(&mut self, name: &'static str, value: &mut Vec<(u32, f64)>) {
        *value = self.fields.token_numbers(name);
    }
}

/// Writes the parameters. What is as if it were not given is not written.
struct Writer {
    entries: Entries<'static>,
}

impl Visitor for Writer {
    fn number(&mut self, name: &'static str, value: &mut f64, _: Range) {
        self.entries.number(name, *value);
    }

    fn count(&mut self, name: &'static str, value: &mut u32, _: u32, default: Option<u32>) {
        if Some(*value) != default {
            self.entries.integer(name, (*value).into());
        }
    }

    fn limit(&mut self, name: &'static str, value: &mut Option<u32>) {
        if let Some(limit) = value {
            self.entries.integer(name, (*limit).into());
        }
    }

    fn flag(&mut self, name: &'static str, value: &mut bool) {
        if !*value {
            self.entries.set(name, Value::Flag(false));
        }
    }

    fn tokens(&mut self, name: &'static str, value: &mut Vec<u32>, list: List) {
        if list != List::OptionalSet || !value.is_empty() {
            self.entries.set(name, Value::Tokens(take(value).into()));
        }
    }

    fn sequences(&mut self, name: &'static str, value: &mut Vec<Vec<u32>>, required: bool) {
        if required || !value.is_empty() {
            self.entries.set(name, Value::list(take(value), |list| Value::Tokens(list.into())));
        }
    }

    fn biases(&mut self, name: &'static str, value: &mut Vec<(u32, f64)>) {
        let pair = |(id, bias): (u32, f64)| Value::List(vec![Value::Integer(id.into()), Value::Number(bias)]);
        self.entries.set(name, Value::list(take(value), pair));
    }
}

impl Processors {
    pub(crate) fn written(&self) -> Value<'_> {
        Value::list(self.iter(), Processor::written)
    }
}

impl Processor {
    pub(crate) fn written(&self) -> Value<'static> {
        let mut entries = Entries::default();
        entries.text("name", self.name());
        entries.integer("version", self.version().into());
        let mut writer = Writer { entries };
        self.clone().visit(&mut writer);
        Value::Object(writer.entries)
    }
}

serialize_written!(Processors, Processor);
