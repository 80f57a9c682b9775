//! Where two records first part, and in what: for the day somebody says "same seed, other text".
//!
//! What made the records is compared first and said first. Then, step by step, what goes into a token is compared in the
//! order in which it goes in, and the first difference ends the search: the input ids, the logits, settings and processors,
//! the candidates, the draw, the token; after the last step, the stop. What a record does not hold is reported as missing
//! and never counts as equal. Raw values (ids, logits, probabilities, seeds, draws) are left out unless asked for.

use std::fmt::{self, Write as _};

use super::frame::Frame;
use super::generator::Run;
use super::record_file::{Decided, RecordFile};
use super::state::GeneratorState;
use super::written::{Entries, Value, serialize_written};
use crate::core::processors::Processor;
use crate::core::splitmix::{streams, uniform};
use crate::core::text::{Number, Quoted};

/// How many of the likeliest tokens are shown where logits differ and values are asked for.
const TOP: usize = 5;

/// What came of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The runs are the same, with evidence for every part of every step.
    Same,
    /// They part.
    Diverged,
    /// No difference was found, but something could not be compared.
    Insufficient,
}

/// One of the two records, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first record.
    First,
    /// The second record.
    Second,
    /// Both.
    Both,
}

/// What a step is made of, in the order it is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The ids before a step: prompt, and tokens emitted before the records begin.
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

impl What {
    fn name(self) -> &'static str {
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

/// Something two records of a run are told apart by, that is not the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseField {
    /// Which, such as `target`.
    pub field: &'static str,
    /// What the first record says; `None`: nothing.
    pub first: Option<String>,
    /// What the second record says; `None`: nothing.
    pub second: Option<String>,
}

/// The first difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// In what.
    pub what: What,
    /// At which step, counted in the first record as states count them; for input ids, `None`.
    pub step: Option<u64>,
    /// Where in it, for programs: `index 3`, `rank 2`, `vocabulary`, `top_k`, `processors[0]`, `constraint`, `count`,
    /// `probability`, `index`, `value`, `id`, `tokens`, `max_tokens`, `end_tokens`, `reason`.
    pub at: String,
    /// The same in words.
    pub detail: String,
    /// Checksums of the frames, where the logits differ.
    pub digests: Option<[String; 2]>,
    /// What stands there in the first and in the second record, where values were asked for.
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
    fn ids(ids: Option<&[u32]>) -> Self {
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

/// Evidence that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Of what.
    pub what: What,
    /// Which record lacks it.
    pub record: Side,
    /// The first step that lacks it; `None` where it belongs to no step.
    pub step: Option<u64>,
}

/// What a comparison of two records found.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// In a word.
    pub outcome: Outcome,
    /// In a paragraph.
    pub paragraph: String,
    /// What differs, or is not said by both, of what made the records. No divergence of the runs by itself.
    pub release: Vec<ReleaseField>,
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

impl Side {
    fn written(self) -> Value<'static> {
        let name = match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Both => "both",
        };
        Value::Text(name.into())
    }
}

impl What {
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
        it.set("first", self.first.as_ref().map_or(Value::Null, Difference::written));
        it.integer_or_null("first_token", self.first_token);
        it.set("missing", Value::list(&self.missing, Missing::written));
        it.integer("steps", self.steps);
        Value::Object(it)
    }
}

serialize_written!(Outcome, Side, What, ReleaseField, Difference, Evidence, Missing, Comparison);

/// Compares two records and finds where the runs first part. `values` asks for raw values.
#[must_use]
pub fn first_divergence(first: &RecordFile, second: &RecordFile, values: bool) -> Comparison {
    let mut release = Vec::new();
    for (field, one, other) in first.identity.beside(&second.identity) {
        if one != other || one.is_none() {
            release.push(ReleaseField { field, first: one.clone(), second: other.clone() });
        }
    }
    let records = [Story::of(first), Story::of(second)];
    let mut search = Search { records: &records, values, found: None, missing: Vec::new(), steps: 0 };
    search.run();
    let Search { found, missing, steps, .. } = search;
    compared(release, found, first_token(&records), missing, steps)
}

/// A comparison, with its outcome and its paragraph.
pub(super) fn compared(
    release: Vec<ReleaseField>,
    first: Option<Difference>,
    first_token: Option<u64>,
    missing: Vec<Missing>,
    steps: u64,
) -> Comparison {
    let outcome = match (&first, missing.is_empty()) {
        (Some(_), _) => Outcome::Diverged,
        (None, true) => Outcome::Same,
        (None, false) => Outcome::Insufficient,
    };
    let mut comparison = Comparison { outcome, paragraph: String::new(), release, first, first_token, missing, steps };
    comparison.paragraph = paragraph(&comparison);
    comparison
}

fn first_token([a, b]: &[Story; 2]) -> Option<u64> {
    let (begin, end) = (a.begin.max(b.begin), a.ids.len().min(b.ids.len()));
    (begin..end).find(|&place| a.ids[place] != b.ids[place]).map(|place| a.step(place))
}

/// A record, with all ids its last step has seen.
struct Story<'a> {
    record: &'a RecordFile,
    ids: Vec<u32>,
    /// How many ids its first step sees.
    begin: usize,
}

impl<'a> Story<'a> {
    fn of(record: &'a RecordFile) -> Self {
        let ids = [&record.start.prompt[..], &record.start.tokens, &record.tokens].concat();
        let begin = ids.len() - record.tokens.len();
        Self { record, ids, begin }
    }

    fn step(&self, place: usize) -> u64 {
        (place as u64).wrapping_sub(self.record.start.prompt.len() as u64)
    }

    fn frame(&self, place: usize) -> Option<&'a Frame> {
        self.record.frames.as_ref()?.get(place - self.begin)?.as_ref()
    }

    fn decided(&self, place: usize) -> Option<&'a Decided> {
        self.record.decisions.as_ref()?.get(place - self.begin)
    }

    /// Whether the candidates at a place follow from the record's own frame.
    fn suffices(&self, place: usize) -> bool {
        let start = &self.record.start;
        // Processors may bring up any token.
        self.frame(place).is_some_and(|frame| {
            frame.suffices_for(&start.settings) && (start.processors.is_empty() || frame.max_top_k().is_none())
        })
    }

    /// Whether the token at a place is the one this release computes there, from the record's own frame.
    fn recomputed(&self, place: usize) -> Option<bool> {
        let tokens = self.ids[self.record.start.prompt.len()..place].to_vec();
        let mut run = Run::from_state(GeneratorState { tokens, ..self.record.start.clone() });
        let token = run.step_with_frame(self.frame(place)?).ok()?;
        Some(token == self.ids[place])
    }

    /// The step it was to end before. (The most tokens count from each record's own start.)
    fn last(&self) -> Evidence {
        self.record.stop.max_tokens.map(|most| self.step(self.begin).saturating_add(most)).into()
    }

    fn end_tokens(&self) -> Evidence {
        Evidence::ids(self.record.stop.end_tokens.as_deref())
    }

    fn reason(&self) -> Evidence {
        self.record.stop.reason.clone().into()
    }

    fn reason_in_words(&self) -> &'a str {
        self.record.stop.reason.as_deref().unwrap_or("no reason recorded")
    }
}

/// A part of what stops a run.
type Part<'a> = fn(&Story<'a>) -> Evidence;

/// Each part of a step is looked at by a method that says whether the records part there.
struct Search<'a> {
    records: &'a [Story<'a>; 2],
    values: bool,
    found: Option<Difference>,
    missing: Vec<Missing>,
    steps: u64,
}

impl<'a> Search<'a> {
    fn run(&mut self) {
        let [a, b] = self.records;
        // Places count ids from the start of the prompt. What comes before both records' steps is input to one of them.
        let (begin, end) = (a.begin.max(b.begin), a.ids.len().min(b.ids.len()));
        for at in 0..begin.min(end) {
            let (one, other) = (a.ids[at], b.ids[at]);
            if one != other {
                let (place, detail) = (format_args!("index {at}"), format_args!("from id {at} on"));
                self.differ(What::InputIds, None, place, detail, [one.into(), other.into()]);
                return;
            }
        }
        if end < begin {
            // One ends before the other begins: nothing of the two can be held against each other.
            let record = if a.ids.len() < begin { Side::First } else { Side::Second };
            self.missing.push(Missing { what: What::Token, record, step: Some(a.step(end)) });
            return;
        }
        let mut place = begin;
        loop {
            let (starts, there) = (place == begin, place < end);
            if there && self.logits(place)
                || starts && self.settings(place)
                || there && self.candidates(place)
                || (starts || there) && self.draw(place)
                || there && self.token(place)
            {
                return;
            }
            if !there {
                self.stop(place);
                return;
            }
            place += 1;
            self.steps += 1;
        }
    }

    /// Where the records part. (`true`, for the methods that say so.)
    fn differ(
        &mut self,
        what: What,
        step: Option<u64>,
        at: fmt::Arguments,
        detail: fmt::Arguments,
        values: [Evidence; 2],
    ) -> bool {
        let values = self.values.then_some(values);
        let (at, detail) = (fmt::format(at), fmt::format(detail));
        self.found = Some(Difference { what, step, at, detail, digests: None, values });
        true
    }

    /// (`false`: what is not there does not differ.)
    fn lacks(&mut self, what: What, a: bool, b: bool, step: Option<u64>) -> bool {
        let record = match (a, b) {
            (true, true) => Side::Both,
            (true, false) => Side::First,
            (false, true) => Side::Second,
            (false, false) => return false,
        };
        if !self.missing.iter().any(|missing| missing.what == what && missing.record == record) {
            self.missing.push(Missing { what, record, step });
        }
        false
    }

    fn logits(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let step = Some(a.step(place));
        let (one, other) = (a.frame(place), b.frame(place));
        let (Some(one), Some(other)) = (one, other) else {
            return self.lacks(What::Logits, one.is_none(), other.is_none(), step);
        };
        let values = |values: bool| if values { [top(one), top(other)] } else { [Evidence::None, Evidence::None] };
        if one.vocabulary() != other.vocabulary() {
            let detail = format_args!("over vocabularies of different sizes");
            self.differ(What::Logits, step, format_args!("vocabulary"), detail, values(self.values));
        } else if let Some(rank) = differing_rank(one, other) {
            let rank = rank + 1;
            let detail = format_args!("from the token at rank {rank} of the likeliest on");
            self.differ(What::Logits, step, format_args!("rank {rank}"), detail, values(self.values));
        }
        match &mut self.found {
            Some(found) => {
                found.digests = Some([digest(one), digest(other)]);
                true
            }
            None => false,
        }
    }

    fn settings(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let step = Some(a.step(place));
        let (one, other) = (&a.record.start, &b.record.start);
        let (mine, theirs) = (&one.settings, &other.settings);
        if self.setting(step, "temperature", mine.temperature().into(), theirs.temperature().into())
            || self.setting(step, "top_k", mine.top_k().into(), theirs.top_k().into())
            || self.setting(step, "top_p", mine.top_p().into(), theirs.top_p().into())
        {
            return true;
        }
        if one.processors != other.processors {
            let (mut mine, mut theirs) = (one.processors.iter(), other.processors.iter());
            let mut at = 0;
            loop {
                let (mine, theirs) = (mine.next(), theirs.next());
                if mine != theirs || mine.is_none() {
                    let name = |one: Option<&Processor>| one.map_or("none", Processor::name);
                    let detail = format_args!("processor {at} differs ({} and {})", name(mine), name(theirs));
                    let value = |one: Option<&Processor>| one.cloned().map_or(Evidence::None, Evidence::Processor);
                    let values = [value(mine), value(theirs)];
                    return self.differ(What::Settings, step, format_args!("processors[{at}]"), detail, values);
                }
                at += 1;
            }
        }
        let (one, other) = (&a.record.identity.constraint, &b.record.identity.constraint);
        one != other && {
            let values = [one.clone().into(), other.clone().into()];
            let (at, detail) = (format_args!("constraint"), format_args!("the constraints differ"));
            self.differ(What::Settings, step, at, detail, values)
        }
    }

    fn setting(&mut self, step: Option<u64>, name: &str, mine: Evidence, theirs: Evidence) -> bool {
        mine != theirs && {
            let detail = format!("{name} is {mine} and {theirs}");
            self.differ(What::Settings, step, format_args!("{name}"), format_args!("{detail}"), [mine, theirs])
        }
    }

    /// As recorded; where no decisions were kept, equal logits and settings are the evidence, since the contract makes
    /// the candidates from nothing else.
    fn candidates(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let step = Some(a.step(place));
        let (Some(one), Some(other)) = (a.decided(place), b.decided(place)) else {
            return self.lacks(What::Candidates, !a.suffices(place), !b.suffices(place), step);
        };
        let (mine, theirs) = (one.candidate_count, other.candidate_count);
        if mine != theirs {
            let detail = format_args!("chosen among {mine} tokens and among {theirs}");
            let values = [mine.into(), theirs.into()];
            return self.differ(What::Candidates, step, format_args!("count"), detail, values);
        }
        let same = |one: Option<f64>, other: Option<f64>| one.map(f64::to_bits) == other.map(f64::to_bits);
        let (mine, theirs) = (one.selected_probability, other.selected_probability);
        if !same(mine, theirs) {
            let detail = format_args!("as many tokens, with other probabilities");
            let values = [mine.into(), theirs.into()];
            return self.differ(What::Candidates, step, format_args!("probability"), detail, values);
        }
        if one.draw_index != other.draw_index {
            return self.index(step, one.draw_index.into(), other.draw_index.into());
        }
        let (mine, theirs) = (one.random_draw, other.random_draw);
        !same(mine, theirs) && {
            let detail = format_args!("the same number of the stream was recorded with another value");
            self.differ(What::Draw, step, format_args!("value"), detail, [mine.into(), theirs.into()])
        }
    }

    fn index(&mut self, step: Option<u64>, mine: Evidence, theirs: Evidence) -> bool {
        let values = [mine, theirs];
        let detail = index_detail(&values);
        self.differ(What::Draw, step, format_args!("index"), format_args!("{detail}"), values)
    }

    fn draw(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let (step, other) = (a.step(place), b.step(place));
        if step != other {
            return self.index(Some(step), step.into(), other.into());
        }
        let (mine, theirs) = (a.record.start.seed, b.record.start.seed);
        mine != theirs && {
            let draw =
                |seed: u64| Evidence::List(vec![seed.to_string().into(), uniform(seed, step, streams::TOKENS).into()]);
            let detail = format_args!("another seed, so another number at index {step}");
            self.differ(What::Draw, Some(step), format_args!("value"), detail, [draw(mine), draw(theirs)])
        }
    }

    fn token(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let (one, other) = (a.ids[place], b.ids[place]);
        one != other && {
            let detail = match (a.recomputed(place), b.recomputed(place)) {
                (Some(true), Some(false)) => "recomputed here, the step gives the first record's",
                (Some(false), Some(true)) => "recomputed here, the step gives the second record's",
                (Some(false), Some(false)) => "recomputed here, the step gives neither",
                _ => "whose it should be cannot be recomputed from what there is",
            };
            let (step, values) = (Some(a.step(place)), [one.into(), other.into()]);
            self.differ(What::Token, step, format_args!("id"), format_args!("{detail}"), values)
        }
    }

    fn stop(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let step = Some(a.step(place));
        let (mine, theirs) = (a.reason_in_words(), b.reason_in_words());
        if a.ids.len() != b.ids.len() {
            let (more, other) = ((a.ids.len() - place) as u64, (b.ids.len() - place) as u64);
            let detail = format_args!(
                "the first goes on for {more} tokens from here ({mine}), the second for {other} ({theirs})"
            );
            return self.differ(What::Stop, step, format_args!("tokens"), detail, [more.into(), other.into()]);
        }
        let parts: [(_, _, Part); 3] = [
            ("max_tokens", "their lengths were to be different", Story::last),
            ("end_tokens", "other tokens were to end them", Story::end_tokens),
            ("reason", &format!("the first is over by {mine}, the second by {theirs}"), Story::reason),
        ];
        let (mut a_lacks, mut b_lacks) = (false, false);
        for (at, detail, part) in parts {
            let values = [part(a), part(b)];
            let absent = (values[0] == Evidence::None, values[1] == Evidence::None);
            (a_lacks, b_lacks) = (a_lacks || absent.0, b_lacks || absent.1);
            if absent == (false, false) && values[0] != values[1] {
                return self.differ(What::Stop, step, format_args!("{at}"), format_args!("{detail}"), values);
            }
        }
        self.lacks(What::Stop, a_lacks, b_lacks, None)
    }
}

fn digest(frame: &Frame) -> String {
    format!("{:08x}", frame.checksum())
}

pub(super) fn index_detail(values: &[Evidence; 2]) -> String {
    format!("number {} of the stream in the first record, number {} in the second", values[0], values[1])
}

/// The first rank at which two frames' likeliest tokens differ, as far as both hold them. What one leaves out it does
/// not contradict.
///
/// Nothing is sorted: up to that rank both hold the same, so it is the rank of the likeliest entry that only one of them
/// holds.
fn differing_rank(one: &Frame, other: &Frame) -> Option<usize> {
    if one == other {
        return None;
    }
    let common = odd_rank(one, other).min(odd_rank(other, one));
    let held = |frame: &Frame| frame.entries().count();
    let ends = |frame: &Frame| common == held(frame) && frame.max_top_k().is_some();
    let agree = held(one) == common && held(other) == common || ends(one) || ends(other);
    (!agree).then_some(common)
}

/// The rank of the likeliest entry of a frame that another does not hold; how many entries there are, where it holds all.
fn odd_rank(frame: &Frame, other: &Frame) -> usize {
    let mut theirs = other.entries().peekable();
    let mut odd: Option<(u32, f32)> = None;
    for (id, logit) in frame.entries() {
        while theirs.next_if(|their| their.0 < id).is_some() {}
        let held = theirs.peek().is_some_and(|their| their.0 == id && their.1.to_bits() == logit.to_bits());
        // Ids ascend, so among equals the first has the lowest.
        if !held && odd.is_none_or(|(_, likeliest)| logit > likeliest) {
            odd = Some((id, logit));
        }
    }
    let Some(odd) = odd else { return frame.entries().count() };
    frame.entries().filter(|&entry| above(entry, odd)).count()
}

/// Whether an entry ranks above another: by logit, and by lower id among equals.
fn above(entry: (u32, f32), other: (u32, f32)) -> bool {
    entry.1 > other.1 || (entry.1 == other.1 && entry.0 < other.0)
}

/// The likeliest tokens of a frame, each as `[id, logit]`.
fn top(frame: &Frame) -> Evidence {
    let mut top = Vec::new();
    let mut last = None;
    while top.len() < TOP {
        let rest = frame.entries().filter(|&entry| last.is_none_or(|last| above(last, entry)));
        let next = rest.reduce(|best, entry| if above(entry, best) { entry } else { best });
        let Some(next) = next else { break };
        top.push(Evidence::List(vec![next.0.into(), f64::from(next.1).into()]));
        last = Some(next);
    }
    Evidence::List(top)
}

fn paragraph(comparison: &Comparison) -> String {
    let Comparison { outcome, release, first, first_token, missing, steps, .. } = comparison;
    let mut text = String::new();
    releases(&mut text, release);
    let plural = if *steps == 1 { "step" } else { "steps" };
    match (outcome, first) {
        (Outcome::Diverged, Some(found)) => differs(&mut text, found, *first_token),
        (Outcome::Insufficient, _) => say(
            &mut text,
            format_args!(
                "No difference was found in {steps} {plural}, but there is not enough to call the runs the same."
            ),
        ),
        _ => say(
            &mut text,
            format_args!(
                "The runs are the same: {steps} {plural} with equal input ids, logits, settings and processors, candidates, \
                 draws and tokens, and the same stop."
            ),
        ),
    }
    if !missing.is_empty() {
        lacking(&mut text, missing, first.is_some());
    }
    text
}

fn say(text: &mut String, words: fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(words);
}

fn releases(text: &mut String, release: &[ReleaseField]) {
    let mut opening = "The records were not made by the same release: ";
    for ReleaseField { field, first, second } in release {
        if let (Some(first), Some(second)) = (first, second) {
            say(text, format_args!("{opening}{field} {first} and {second}"));
            opening = ", ";
        }
    }
    if opening == ", " {
        text.push_str(". ");
    }
    opening = "Not recorded, and so not compared: ";
    for ReleaseField { field, first, second } in release {
        let who = match (first, second) {
            (Some(_), Some(_)) => continue,
            (None, None) => "both",
            (None, _) => "the first",
            _ => "the second",
        };
        say(text, format_args!("{opening}{field} ({who})"));
        opening = ", ";
    }
    if opening == ", " {
        text.push_str(". ");
    }
}

fn differs(text: &mut String, found: &Difference, first_token: Option<u64>) {
    match found.step {
        Some(step) => say(text, format_args!("The runs part at step {step}")),
        None => text.push_str("The runs part before their first step"),
    }
    say(text, format_args!(", in the {}: {}", found.what.name(), found.detail));
    if let Some([first, second]) = &found.digests {
        say(text, format_args!(" (frame {first} and frame {second})"));
    }
    if let Some([first, second]) = &found.values {
        say(text, format_args!("; first {first}, second {second}"));
    }
    text.push('.');
    match first_token {
        _ if matches!(found.what, What::Token | What::InputIds | What::Stop) => {}
        Some(token) => say(text, format_args!(" The first token that differs is that of step {token}.")),
        None => text.push_str(" Their tokens are the same all the same, as far as both have them."),
    }
}

fn lacking(text: &mut String, missing: &[Missing], found: bool) {
    let mut opening = if found { " Missing up to there: " } else { " Missing: " };
    for Missing { what, record, step } in missing {
        let record = match record {
            Side::First => "in the first record",
            Side::Second => "in the second record",
            Side::Both => "in both records",
        };
        say(text, format_args!("{opening}{} {record}", what.name()));
        if let Some(step) = step {
            say(text, format_args!(" from step {step}"));
        }
        opening = "; ";
    }
    text.push('.');
}
