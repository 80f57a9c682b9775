//! Where two records first part, and in what.
//!
//! What made the records is compared first. Then, step by step, what goes into a token is compared in the order in which it
//! goes in, and the first difference ends the search: the input ids, the logits, settings and processors, the candidates, the
//! draw, the token; after the last step, the stop.
//!
//! Only what takes part in a run can part two runs. The seeds of runs in which no draw is made, and top-k and top-p of greedy
//! ones, are listed as without effect where they differ. What is a set (end tokens, the ids a processor names) is compared
//! as a set.

use std::fmt;
use std::ops::Range;

use super::comparison::{Comparison, Difference, Evidence, Findings, ReleaseField, RunPart, WithoutEffect};
use super::order::{Parts, compare};
use super::prose::{Words, index_detail};
use super::sets::{self, same_rule};
use crate::core::decision::Decision;
use crate::core::processors::Processor;
use crate::core::splitmix::{streams, uniform};
use crate::run::run::Run;
use crate::wire::frame::Frame;
use crate::wire::identity::{Environment, Identity};
use crate::wire::record::RecordFile;
use crate::wire::state::GeneratorState;

/// How many of the likeliest tokens are shown where logits differ and values are asked for.
const TOP: usize = 5;

/// Compares two records and finds where the runs first part. `values` asks for raw values.
#[must_use]
pub fn first_divergence(first: &RecordFile, second: &RecordFile, values: bool) -> Comparison {
    let records = [Account::of(first), Account::of(second)];
    let release = release(&first.identity, &second.identity);
    let found = Findings { release, first_token: first_token(&records), ..Findings::default() };
    let mut search = Search { records: &records, places: 0..0, values, whole: true, found };
    search.run();
    let logits =
        if search.whole { "" } else { " (as far as their frames hold them, which is as far as these settings look)" };
    // Without a step nothing was drawn.
    let drawn = records[0].draws() && search.found.steps > 0;
    let draws = if drawn { ", draws and tokens" } else { " and tokens (no draw took part)" };
    let words = Words {
        one: "record",
        both: "records",
        same: format!("equal input ids, logits{logits}, settings and processors, candidates{draws}, and the same stop"),
        looked_at: "",
    };
    search.found.into_comparison(&words)
}

/// What differs, or is not said by both, of what made two records.
fn release(first: &Identity, second: &Identity) -> Vec<ReleaseField> {
    let mut release = Vec::new();
    let mut add = |mine: Vec<(_, Option<String>)>, theirs: Vec<(_, Option<String>)>, circumstance| {
        for ((field, first), (_, second)) in mine.into_iter().zip(theirs) {
            if first != second || first.is_none() {
                release.push(ReleaseField { field, first, second, circumstance });
            }
        }
    };
    add(first.parts(), second.parts(), false);
    let (mine, theirs) = (&first.environment, &second.environment);
    let unsaid = Environment::default();
    if *mine == unsaid || *theirs == unsaid {
        // One word for six.
        let said = |one: &Environment| vec![("environment", (*one != unsaid).then(|| "recorded".to_owned()))];
        add(said(mine), said(theirs), true);
    } else {
        add(mine.parts(), theirs.parts(), true);
    }
    release
}

fn first_token([a, b]: &[Account; 2]) -> Option<u64> {
    let (begin, end) = (a.begin.max(b.begin), a.ids.len().min(b.ids.len()));
    (begin..end).find(|&place| a.ids[place] != b.ids[place]).map(|place| a.step(place))
}

/// A record, with all ids its last step has seen.
struct Account<'a> {
    record: &'a RecordFile,
    ids: Vec<u32>,
    /// How many ids its first step sees.
    begin: usize,
}

impl<'a> Account<'a> {
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

    fn decided(&self, place: usize) -> Option<&'a Decision> {
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

    /// Whether a uniform number can change a token.
    fn draws(&self) -> bool {
        // A uniform number is at least 0 and below 1, so XTC acts always or never at the ends of its range.
        let drawing =
            |one: &Processor| matches!(one, Processor::Xtc(xtc) if xtc.probability > 0.0 && xtc.probability < 1.0);
        !self.greedy() || self.record.start.processors.iter().any(drawing)
    }

    fn greedy(&self) -> bool {
        self.record.start.settings.is_greedy()
    }

    /// How many ids it was to have at its end, the prompt's among them. (The most tokens count from each record's own start.)
    fn last(&self) -> Evidence {
        self.record.stop.max_tokens.map(|most| (self.begin as u64).saturating_add(most)).into()
    }

    fn end_tokens(&self) -> Evidence {
        Evidence::ids(self.record.stop.end_tokens.as_deref().map(sets::ids).as_deref())
    }

    fn reason(&self) -> Evidence {
        self.record.stop.reason.clone().into()
    }

    fn reason_in_words(&self) -> &'a str {
        self.record.stop.reason.as_deref().unwrap_or("no reason recorded")
    }
}

/// A part of what stops a run.
type Part<'a> = fn(&Account<'a>) -> Evidence;

struct Search<'a> {
    records: &'a [Account<'a>; 2],
    /// Places of the steps that both records have.
    places: Range<usize>,
    values: bool,
    /// Whether every frame that was compared holds all logits.
    whole: bool,
    found: Findings,
}

impl Search<'_> {
    fn run(&mut self) {
        let [a, b] = self.records;
        // Places count ids from the start of the prompt. What comes before both records' steps is input to one of them.
        let (begin, end) = (a.begin.max(b.begin), a.ids.len().min(b.ids.len()));
        self.places = begin..end.max(begin);
        if end < begin {
            // One ends before the other begins: but for its ids, nothing of the two can be held against each other.
            if !self.ids(end) {
                let lacks = a.ids.len() < begin;
                self.found.lacks(RunPart::Token, [lacks, !lacks], Some(a.step(end)));
            }
            return;
        }
        compare(self, begin..end);
    }

    /// Compares the first ids.
    fn ids(&mut self, count: usize) -> bool {
        let [a, b] = self.records;
        let Some(at) = (0..count).find(|&at| a.ids[at] != b.ids[at]) else { return false };
        let (place, detail) = (format_args!("index {at}"), format_args!("from id {at} on"));
        self.differ(RunPart::InputIds, None, place, detail, [a.ids[at].into(), b.ids[at].into()])
    }

    /// Where the records part.
    fn differ(
        &mut self,
        what: RunPart,
        step: Option<u64>,
        at: fmt::Arguments,
        detail: fmt::Arguments,
        values: [Evidence; 2],
    ) -> bool {
        let values = self.values.then_some(values);
        let (at, detail) = (fmt::format(at), fmt::format(detail));
        self.found.first = Some(Difference { what, step, at, detail, digests: None, values });
        true
    }

    /// What differs and takes no part.
    fn note_without_effect(&mut self, field: &'static str, detail: &'static str, values: [Evidence; 2]) -> bool {
        self.found.beside.push(WithoutEffect { field, detail, values: self.values.then_some(values) });
        false
    }

    fn setting(&mut self, step: Option<u64>, name: &str, mine: Evidence, theirs: Evidence) -> bool {
        if mine == theirs {
            return false;
        }
        let detail = format!("{name} is {mine} and {theirs}");
        self.differ(RunPart::Settings, step, format_args!("{name}"), format_args!("{detail}"), [mine, theirs])
    }

    fn index(&mut self, step: Option<u64>, mine: Evidence, theirs: Evidence) -> bool {
        let values = [mine, theirs];
        let detail = index_detail(&values);
        self.differ(RunPart::Draw, step, format_args!("index"), format_args!("{detail}"), values)
    }
}

impl Parts for Search<'_> {
    fn input_ids(&mut self) -> bool {
        self.ids(self.places.start)
    }

    fn logits(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let step = Some(a.step(place));
        let (one, other) = (a.frame(place), b.frame(place));
        let (Some(one), Some(other)) = (one, other) else {
            return self.found.lacks(RunPart::Logits, [one.is_none(), other.is_none()], step);
        };
        self.whole &= one.max_top_k().is_none() && other.max_top_k().is_none();
        let (at, detail) = if one.vocabulary() != other.vocabulary() {
            ("vocabulary".to_owned(), "over vocabularies of different sizes".to_owned())
        } else if let Some(rank) = differing_rank(one, other) {
            let rank = rank + 1;
            (format!("rank {rank}"), format!("from the token at rank {rank} of the likeliest on"))
        } else {
            return false;
        };
        let digests = Some([digest(one), digest(other)]);
        let values = self.values.then(|| [top(one), top(other)]);
        self.found.first = Some(Difference { what: RunPart::Logits, step, at, detail, digests, values });
        true
    }

    fn settings(&mut self) -> bool {
        let [a, b] = self.records;
        let step = Some(a.step(self.places.start));
        let (one, other) = (&a.record.start, &b.record.start);
        let (mine, theirs) = (&one.settings, &other.settings);
        if self.setting(step, "temperature", mine.temperature().into(), theirs.temperature().into()) {
            return true;
        }
        let cuts: [(_, _, [Evidence; 2]); 2] = [
            ("top_k", "top-k differs, which greedy runs do not look at", [mine.top_k().into(), theirs.top_k().into()]),
            ("top_p", "top-p differs, which greedy runs do not look at", [mine.top_p().into(), theirs.top_p().into()]),
        ];
        for (name, unused, [mine, theirs]) in cuts {
            if a.greedy() {
                if mine != theirs {
                    self.note_without_effect(name, unused, [mine, theirs]);
                }
            } else if self.setting(step, name, mine, theirs) {
                return true;
            }
        }
        let (mut mine, mut theirs) = (one.processors.iter(), other.processors.iter());
        let mut at = 0;
        loop {
            let (mine, theirs) = (mine.next(), theirs.next());
            let same = match (mine, theirs) {
                (Some(mine), Some(theirs)) => same_rule(mine, theirs),
                (mine, theirs) => mine.is_none() && theirs.is_none(),
            };
            if !same {
                let version = |one: Option<&Processor>| one.map_or(0, Processor::version);
                let versions =
                    mine.map(Processor::name) == theirs.map(Processor::name) && version(mine) != version(theirs);
                let name = |one: Option<&Processor>| match one {
                    Some(one) if versions => format!("{} version {}", one.name(), one.version()),
                    Some(one) => one.name().to_owned(),
                    None => "none".to_owned(),
                };
                let detail = format_args!("processor {at} differs ({} and {})", name(mine), name(theirs));
                let value = |one: Option<&Processor>| one.cloned().map_or(Evidence::None, Evidence::Processor);
                let values = [value(mine), value(theirs)];
                return self.differ(RunPart::Settings, step, format_args!("processors[{at}]"), detail, values);
            }
            if mine.is_none() {
                break;
            }
            at += 1;
        }
        let (one, other) = (&a.record.identity.constraint, &b.record.identity.constraint);
        if one == other {
            return false;
        }
        let values = [one.clone().into(), other.clone().into()];
        self.differ(RunPart::Settings, step, format_args!("constraint"), format_args!("the constraints differ"), values)
    }

    /// As recorded; where no decisions were kept, or they do not tell, equal logits and settings are the evidence, since the
    /// contract makes the candidates from nothing else.
    fn candidates(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let step = Some(a.step(place));
        let (Some(one), Some(other)) = (a.decided(place), b.decided(place)) else {
            return self.found.lacks(RunPart::Candidates, [!a.suffices(place), !b.suffices(place)], step);
        };
        let (mine, theirs) = (one.candidate_count, other.candidate_count);
        if mine != theirs {
            let detail = format_args!("chosen among {mine} tokens and among {theirs}");
            let values = [mine.into(), theirs.into()];
            return self.differ(RunPart::Candidates, step, format_args!("count"), detail, values);
        }
        // null is what was not recorded, or what a greedy run does not have; neither differs from anything.
        if let (Some(mine), Some(theirs)) = (one.selected_probability, other.selected_probability)
            && mine.to_bits() != theirs.to_bits()
        {
            let detail = format_args!("as many tokens, with other probabilities");
            let values = [mine.into(), theirs.into()];
            return self.differ(RunPart::Candidates, step, format_args!("probability"), detail, values);
        }
        if let (Some(mine), Some(theirs)) = (one.draw_index, other.draw_index)
            && mine != theirs
        {
            return self.index(step, mine.into(), theirs.into());
        }
        if let (Some(mine), Some(theirs)) = (one.random_draw, other.random_draw)
            && mine.to_bits() != theirs.to_bits()
        {
            let detail = format_args!("the same number of the stream was recorded with another value");
            return self.differ(RunPart::Draw, step, format_args!("value"), detail, [mine.into(), theirs.into()]);
        }
        let unknown = |decided: &Decision, account: &Account| {
            decided.selected_probability.is_none() && !account.greedy() && !account.suffices(place)
        };
        self.found.lacks(RunPart::Candidates, [unknown(one, a), unknown(other, b)], step)
    }

    fn draw(&mut self) -> bool {
        let [a, b] = self.records;
        let (place, there) = (self.places.start, !self.places.is_empty());
        let drawn = there && a.draws();
        let (step, other) = (a.step(place), b.step(place));
        if step != other {
            let values = [step.into(), other.into()];
            if drawn {
                let [mine, theirs] = values;
                return self.index(Some(step), mine, theirs);
            }
            if there && a.record.start.processors.iter().any(Processor::tells_prompt_from_tokens) {
                let detail = format_args!(
                    "the same ids, of which the first record emitted {step} and the second {other}, and a processor tells \
                     prompt and emitted tokens apart"
                );
                return self.differ(RunPart::InputIds, None, format_args!("emitted"), detail, values);
            }
            self.note_without_effect(
                "step",
                "the steps are counted from other places, which nothing here looks at",
                values,
            );
        }
        let (mine, theirs) = (a.record.start.seed, b.record.start.seed);
        if mine == theirs {
            return false;
        }
        if !drawn {
            let values = [mine.to_string().into(), theirs.to_string().into()];
            return self.note_without_effect("seed", "the seeds differ, and no draw took part", values);
        }
        let draw =
            |seed: u64| Evidence::List(vec![seed.to_string().into(), uniform(seed, step, streams::TOKENS).into()]);
        let detail = format_args!("another seed, so another number at index {step}");
        self.differ(RunPart::Draw, Some(step), format_args!("value"), detail, [draw(mine), draw(theirs)])
    }

    fn token(&mut self, place: usize) -> bool {
        let [a, b] = self.records;
        let (one, other) = (a.ids[place], b.ids[place]);
        if one == other {
            self.found.steps += 1;
            return false;
        }
        let detail = match (a.recomputed(place), b.recomputed(place)) {
            (Some(true), Some(false)) => "recomputed here, the step gives the first record's",
            (Some(false), Some(true)) => "recomputed here, the step gives the second record's",
            (Some(false), Some(false)) => "recomputed here, the step gives neither",
            _ => "whose it should be cannot be recomputed from what there is",
        };
        let (step, values) = (Some(a.step(place)), [one.into(), other.into()]);
        self.differ(RunPart::Token, step, format_args!("id"), format_args!("{detail}"), values)
    }

    fn stop(&mut self) -> bool {
        let [a, b] = self.records;
        let place = self.places.end;
        let step = Some(a.step(place));
        let (mine, theirs) = (a.reason_in_words(), b.reason_in_words());
        if a.ids.len() != b.ids.len() {
            let (more, other) = ((a.ids.len() - place) as u64, (b.ids.len() - place) as u64);
            let detail = format_args!(
                "the first goes on for {more} tokens from here ({mine}), the second for {other} ({theirs})"
            );
            return self.differ(RunPart::Stop, step, format_args!("tokens"), detail, [more.into(), other.into()]);
        }
        let parts: [(_, _, Part); 3] = [
            ("max_tokens", "their lengths were to be different", Account::last),
            ("end_tokens", "other tokens were to end them", Account::end_tokens),
            ("reason", &format!("the first is over by {mine}, the second by {theirs}"), Account::reason),
        ];
        let (mut a_lacks, mut b_lacks) = (false, false);
        for (at, detail, part) in parts {
            let values = [part(a), part(b)];
            let absent = (values[0] == Evidence::None, values[1] == Evidence::None);
            (a_lacks, b_lacks) = (a_lacks || absent.0, b_lacks || absent.1);
            if absent == (false, false) && values[0] != values[1] {
                return self.differ(RunPart::Stop, step, format_args!("{at}"), format_args!("{detail}"), values);
            }
        }
        let unsaid = |account: &Account| account.record.draws_used.is_none();
        self.found.lacks(RunPart::Draw, [unsaid(a), unsaid(b)], None);
        self.found.lacks(RunPart::Stop, [a_lacks, b_lacks], None)
    }
}

fn digest(frame: &Frame) -> String {
    format!("{:08x}", frame.checksum())
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
    let common = unmatched_rank(one, other).min(unmatched_rank(other, one));
    let held = |frame: &Frame| frame.entries().count();
    let ends = |frame: &Frame| common == held(frame) && frame.max_top_k().is_some();
    let agree = held(one) == common && held(other) == common || ends(one) || ends(other);
    (!agree).then_some(common)
}

/// The rank of the likeliest entry of a frame that another does not hold; how many entries there are, where it holds all.
fn unmatched_rank(frame: &Frame, other: &Frame) -> usize {
    let mut theirs = other.entries().peekable();
    let mut unmatched: Option<(u32, f32)> = None;
    for (id, logit) in frame.entries() {
        while theirs.next_if(|their| their.0 < id).is_some() {}
        let held = theirs.peek().is_some_and(|their| their.0 == id && their.1.to_bits() == logit.to_bits());
        // Ids ascend, so among equals the first has the lowest.
        if !held && unmatched.is_none_or(|(_, likeliest)| logit > likeliest) {
            unmatched = Some((id, logit));
        }
    }
    let Some(unmatched) = unmatched else { return frame.entries().count() };
    frame.entries().filter(|&entry| above(entry, unmatched)).count()
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
