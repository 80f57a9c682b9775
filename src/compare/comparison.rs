//! What a comparison of two runs found, as a value, as JSON and as a paragraph: for the day somebody says "same seed, other
//! text".
//!
//! What made the runs is said first. Then the first difference ends the search: of input ids, logits, settings and
//! processors, candidates, draw, token, stop, in the order in which they go into a token. What the evidence does not hold is
//! reported as missing and never counts as equal; what differs and had no effect on the run is listed apart. Raw values (ids,
//! logits, probabilities, seeds, draws) are left out unless asked for.
//!
//! [`records`](super::records) compares records, [`traces`](super::traces) traces.

use std::fmt;

use crate::core::processors::Processor;
use crate::core::text::{Number, Quoted};
use crate::wire::written::{Entries, Value, serialize_written};

/// What came of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    all(test, not(target_arch = "wasm32")),
    derive(schemars::JsonSchema),
    schemars(rename = "ComparisonOutcome", rename_all = "snake_case")
)]
pub enum Outcome {
    /// The runs are the same, with evidence for every part of every step.
    Same,
    /// They part.
    Diverged,
    /// No difference was found, but something could not be compared.
    Insufficient,
}

/// Which of the two that are compared, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
pub enum Lacking {
    /// The first.
    First,
    /// The second.
    Second,
    /// Both.
    Both,
}

/// What a step is made of, in the order it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema), schemars(rename_all = "snake_case"))]
pub enum RunPart {
    /// The ids before a step: prompt, and tokens emitted before the evidence begins.
    InputIds,
    /// What the model gave.
    Logits,
    /// Temperature, top-k, top-p, processors, constraint.
    Settings,
    /// The tokens a token was chosen among.
    Candidates,
    /// The uniform number: its index, then its value.
    Draw,
    /// The token.
    Token,
    /// When and why the run stopped.
    Stop,
}

impl RunPart {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::InputIds => "input ids",
            Self::Logits => "logits",
            Self::Settings => "settings and processors",
            Self::Candidates => "candidates",
            Self::Draw => "draw",
            Self::Token => "token",
            Self::Stop => "stop",
        }
    }
}

/// A difference in what made two records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema))]
pub struct ReleaseField {
    /// Which, such as `target` or `threads`; `environment` where one record says nothing of any circumstance.
    pub field: &'static str,
    /// What the first record says; `None`: nothing.
    pub first: Option<String>,
    /// What the second record says; `None`: nothing.
    pub second: Option<String>,
    /// Whether it is of the [`Environment`](crate::wire::identity::Environment), on which no replay depends.
    pub circumstance: bool,
}

/// The first difference.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema))]
pub struct Difference {
    /// In which part of the run.
    pub what: RunPart,
    /// At which step, counted in the first record as states count them; for input ids, `None`.
    pub step: Option<u64>,
    /// Where in it, for programs: `index 3`, `emitted`, `rank 2`, `vocabulary`, `top_k`, `processors[0]`, `constraint`,
    /// `count`, `probability`, `index`, `value`, `id`, `tokens`, `max_tokens`, `end_tokens`, `reason`; for traces also
    /// `contract`, `stages[1]`, `digest` or the name of a stage.
    pub at: String,
    /// The same in words.
    pub detail: String,
    /// Checksums of the frames, or digests of the rows, where the logits differ.
    #[cfg_attr(
        all(test, not(target_arch = "wasm32")),
        schemars(with = "[String; 2]", skip_serializing_if = "Option::is_none")
    )]
    pub digests: Option<[String; 2]>,
    /// What stands there in the first and in the second record, where values were asked for.
    #[cfg_attr(
        all(test, not(target_arch = "wasm32")),
        schemars(with = "[serde_json::Value; 2]", skip_serializing_if = "Option::is_none")
    )]
    pub values: Option<[Evidence; 2]>,
}

/// A raw value.
#[derive(Clone, Debug, PartialEq)]
pub enum Evidence {
    /// Nothing: `null`.
    None,
    /// A count, an id, an index.
    Integer(u64),
    /// A logit, a probability, a uniform number.
    Number(f64),
    /// A seed, a reason, a constraint.
    Text(String),
    /// A processor with its parameters.
    Processor(Processor),
    /// Several.
    List(Vec<Evidence>),
}

impl Evidence {
    pub(super) fn ids(ids: Option<&[u32]>) -> Self {
        ids.map_or(Self::None, |ids| Self::List(ids.iter().map(|id| (*id).into()).collect()))
    }
}

impl From<u64> for Evidence {
    fn from(integer: u64) -> Self {
        Self::Integer(integer)
    }
}

impl From<u32> for Evidence {
    fn from(integer: u32) -> Self {
        Self::Integer(integer.into())
    }
}

impl From<f64> for Evidence {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Evidence {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Evidence>> From<Option<T>> for Evidence {
    fn from(option: Option<T>) -> Self {
        option.map_or(Self::None, T::into)
    }
}

/// For a paragraph: as JSON, but for a processor, of which the name must do.
impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Integer(integer) => write!(f, "{integer}"),
            Self::Number(number) => Number(*number).fmt(f),
            Self::Text(text) => Quoted(text).fmt(f),
            Self::Processor(processor) => f.write_str(processor.name()),
            Self::List(list) => {
                for (at, one) in list.iter().enumerate() {
                    write!(f, "{}{one}", if at == 0 { "[" } else { ", " })?;
                }
                f.write_str(if list.is_empty() { "[]" } else { "]" })
            }
        }
    }
}

/// Something that differs and had no effect on the run, such as the seeds of two runs in which no draw was made.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema))]
pub struct WithoutEffect {
    /// Which, such as `seed`, `top_k`, `top_p`, `step`; for traces `xtc`.
    pub field: &'static str,
    /// Why it had no effect, in words.
    pub detail: &'static str,
    /// What the first and the second say, where values were asked for.
    #[cfg_attr(
        all(test, not(target_arch = "wasm32")),
        schemars(with = "[serde_json::Value; 2]", skip_serializing_if = "Option::is_none")
    )]
    pub values: Option<[Evidence; 2]>,
}

/// Evidence that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema), schemars(rename = "MissingEvidence"))]
pub struct Missing {
    /// Of which part of the run.
    pub what: RunPart,
    /// Which record, or list of traces, lacks it.
    pub record: Lacking,
    /// The first step that lacks it; `None` where it belongs to no step.
    pub step: Option<u64>,
}

/// What a comparison found.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema))]
pub struct Comparison {
    /// Whether they are the same. `same` needs evidence for every part of every step; without it the outcome is `insufficient`.
    /// Traces hold neither input ids nor all settings nor the stop, so two lists of them are never `same`.
    pub outcome: Outcome,
    /// The whole in words. What differs in what made the records comes first.
    pub paragraph: String,
    /// What made the records, as far as it differs or one does not say it. It is no difference of the runs by itself.
    pub release: Vec<ReleaseField>,
    /// What differs and had no effect on the runs.
    pub beside: Vec<WithoutEffect>,
    /// The first difference of the runs.
    pub first: Option<Difference>,
    /// The first step whose tokens differ, which may come later.
    pub first_token: Option<u64>,
    /// What could not be compared up to there.
    pub missing: Vec<Missing>,
    /// Steps that were compared and found without difference.
    pub steps: u64,
}

// As JSON. Names of variants are those of the types, in snake case.

impl Outcome {
    fn written(self) -> Value<'static> {
        let name = match self {
            Self::Same => "same",
            Self::Diverged => "diverged",
            Self::Insufficient => "insufficient",
        };
        Value::Text(name.into())
    }
}

impl Lacking {
    fn written(self) -> Value<'static> {
        let name = match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Both => "both",
        };
        Value::Text(name.into())
    }
}

impl RunPart {
    fn written(self) -> Value<'static> {
        let name = match self {
            Self::InputIds => "input_ids",
            Self::Settings => "settings",
            other => other.name(),
        };
        Value::Text(name.into())
    }
}

impl ReleaseField {
    fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("field", self.field);
        it.text_or_null("first", self.first.as_deref());
        it.text_or_null("second", self.second.as_deref());
        it.set("circumstance", Value::Flag(self.circumstance));
        Value::Object(it)
    }
}

impl Difference {
    fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.set("what", self.what.written());
        it.integer_or_null("step", self.step);
        it.text("at", &self.at);
        it.text("detail", &self.detail);
        if let Some(digests) = &self.digests {
            it.set("digests", Value::list(digests, |digest| Value::Text(digest.into())));
        }
        if let Some(values) = &self.values {
            it.set("values", Value::list(values, Evidence::written));
        }
        Value::Object(it)
    }
}

impl Evidence {
    fn written(&self) -> Value<'_> {
        match self {
            Self::None => Value::Null,
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Number(number) => Value::Number(*number),
            Self::Text(text) => Value::Text(text.into()),
            Self::Processor(processor) => processor.written(),
            Self::List(list) => Value::list(list, Self::written),
        }
    }
}

impl WithoutEffect {
    fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("field", self.field);
        it.text("detail", self.detail);
        if let Some(values) = &self.values {
            it.set("values", Value::list(values, Evidence::written));
        }
        Value::Object(it)
    }
}

impl Missing {
    fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.set("what", self.what.written());
        it.set("record", self.record.written());
        it.integer_or_null("step", self.step);
        Value::Object(it)
    }
}

impl Comparison {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.set("outcome", self.outcome.written());
        it.text("paragraph", &self.paragraph);
        it.set("release", Value::list(&self.release, ReleaseField::written));
        it.set("beside", Value::list(&self.beside, WithoutEffect::written));
        it.set("first", self.first.as_ref().map_or(Value::Null, Difference::written));
        it.integer_or_null("first_token", self.first_token);
        it.set("missing", Value::list(&self.missing, Missing::written));
        it.integer("steps", self.steps);
        Value::Object(it)
    }
}

serialize_written!(Outcome, Lacking, RunPart, ReleaseField, Difference, Evidence, WithoutEffect, Missing, Comparison);

/// What a search found, before it is said.
#[derive(Default)]
pub(super) struct Findings {
    pub release: Vec<ReleaseField>,
    pub beside: Vec<WithoutEffect>,
    pub first: Option<Difference>,
    pub first_token: Option<u64>,
    pub missing: Vec<Missing>,
    pub steps: u64,
}

impl Findings {
    /// Notes what is missing, once for each part and side. (`false`: what is not there does not differ.)
    pub fn lacks(&mut self, what: RunPart, lacks: [bool; 2], step: Option<u64>) -> bool {
        let record = match lacks {
            [true, true] => Lacking::Both,
            [true, false] => Lacking::First,
            [false, true] => Lacking::Second,
            [false, false] => return false,
        };
        if !self.missing.iter().any(|missing| missing.what == what && missing.record == record) {
            self.missing.push(Missing { what, record, step });
        }
        false
    }
}
