//! Where two lists of traces first part: as [`first_divergence`](super::records::first_divergence), from what the
//! stages of each step were seen to leave.
//!
//! Traces hold less than records: no input ids, no settings beyond the names of the stages, no stop, and five tokens a stage.
//! So two lists of traces can show that two runs part and never that they are the same: without a difference the outcome is
//! [`Outcome::Insufficient`](super::comparison::Outcome::Insufficient), and what is missing is named.

use super::comparison::{Comparison, Difference, Evidence, Findings, RunPart, WithoutEffect};
use super::prose::Words;
use crate::core::rank::{Rank, falling, ordered};
use crate::core::text::{Quoted, beginning};
use crate::wire::json::{FieldError, Fields, Object};
use crate::wire::trace::{Candidate, Stage, TOP, Trace, XTC};
use crate::wire::version::{CONTRACT, LEGACY_CONTRACT};

/// The traces of a file, `{"traces": [{…}]}`, one a step, in the order of their steps.
///
/// # Errors
/// A missing, unknown or mistyped field, an unknown contract, and a step that is not above the one before it.
pub fn read_traces(file: Object) -> Result<Vec<Trace>, FieldError> {
    file.read(|it| traces_of(it.objects("traces")))
}

/// The same from a list of traces.
///
/// # Errors
/// As [`read_traces`].
pub fn traces_of(list: Vec<Object>) -> Result<Vec<Trace>, FieldError> {
    let mut traces: Vec<Trace> = Vec::with_capacity(list.len());
    for (at, object) in list.into_iter().enumerate() {
        let trace = read_trace(object)?;
        if let Some(before) = traces.last()
            && trace.step <= before.step
        {
            return Err(FieldError::Type {
                path: format!("traces[{at}].step"),
                expected: "above the step before it",
                found: trace.step.to_string(),
            });
        }
        traces.push(trace);
    }
    Ok(traces)
}

fn read_trace(object: Object) -> Result<Trace, FieldError> {
    object.read(|it| {
        let contract = it.string("contract");
        let Some(contract) = [CONTRACT, LEGACY_CONTRACT].into_iter().find(|known| *known == contract) else {
            let found = Quoted(&beginning(&contract, 40)).to_string();
            return Err(FieldError::Type { path: "contract".into(), expected: "the name of a contract", found });
        };
        Ok(Trace {
            contract,
            step: it.integer("step"),
            logits_sha256: if it.has("logits_sha256") { Some(digest(it.string("logits_sha256"))?) } else { None },
            stages: it.objects("stages").into_iter().map(read_stage).collect::<Result<_, _>>()?,
            draw: it.number_or_null("draw"),
            token: it.count_or_null("token"),
            probability: it.number_or_null("probability"),
        })
    })
}

fn digest(text: String) -> Result<String, FieldError> {
    let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() == 64 && text.bytes().all(hex) {
        return Ok(text);
    }
    let found = Quoted(&beginning(&text, 70)).to_string();
    Err(FieldError::Type { path: "logits_sha256".into(), expected: "64 hex digits in lower case", found })
}

fn read_stage(object: Object) -> Result<Stage, FieldError> {
    object.read(|it| {
        Ok(Stage {
            stage: it.string("stage").into(),
            candidates: it.integer("candidates"),
            removed: it.integer("removed"),
            top: it.objects("top").into_iter().map(read_candidate).collect::<Result<_, _>>()?,
            draw: number_if_given(it, "draw"),
        })
    })
}

fn read_candidate(object: Object) -> Result<Candidate, FieldError> {
    object.read(|it| {
        Ok(Candidate {
            id: it.has("id").then(|| it.count("id")),
            logit: number_if_given(it, "logit"),
            probability: number_if_given(it, "probability"),
        })
    })
}

fn number_if_given(it: &mut Fields, name: &str) -> Option<f64> {
    it.has(name).then(|| it.number(name))
}

/// Compares two runs by their traces and finds where they first part. Each list holds one trace a step, in ascending order
/// of steps; steps that only one of them has are missing in the other.
///
/// Of each step, in this order: contract, the logits as the model gave them, the list of stages, what each stage left, the
/// draw, the token and its probability. What a trace does not hold is missing. A draw of XTC that left the same tokens is
/// listed as without effect.
#[must_use]
pub fn first_divergence_of_traces(first: &[Trace], second: &[Trace], values: bool) -> Comparison {
    let at = |list: &[Trace], step: u64| list.binary_search_by_key(&step, |trace| trace.step).ok();
    let mut search = Search { values, found: Findings::default() };
    search.found.lacks(RunPart::InputIds, [true, true], None);
    search.found.lacks(RunPart::Settings, [true, true], None);
    let mut pairs = Vec::new();
    for one in first {
        match at(second, one.step) {
            Some(place) => pairs.push((one, &second[place])),
            None => drop(search.found.lacks(RunPart::Token, [false, true], Some(one.step))),
        }
    }
    if let Some(only) = second.iter().find(|other| at(first, other.step).is_none()) {
        search.found.lacks(RunPart::Token, [true, false], Some(only.step));
    }
    if first.is_empty() && second.is_empty() {
        search.found.lacks(RunPart::Token, [true, true], None);
    }
    let differ = |(one, other): &&(&Trace, &Trace)| one.token.zip(other.token).is_some_and(|(one, other)| one != other);
    search.found.first_token = pairs.iter().find(differ).map(|(one, _)| one.step);
    for (one, other) in pairs {
        search.found.first = search.step(one, other);
        if search.found.first.is_some() {
            break;
        }
        search.found.steps += 1;
    }
    search.found.lacks(RunPart::Stop, [true, true], None);
    search.found.into_comparison(&Words {
        one: "list of traces",
        both: "lists of traces",
        // Something is always missing.
        same: String::new(),
        looked_at: " Compared were, of each step that both have and as far as both hold it: the digest of the logits, the \
                    names of the stages and how many tokens each left, the five best of each, the draws, the token and its \
                    probability.",
    })
}

struct Search {
    values: bool,
    found: Findings,
}

impl Search {
    fn step(&mut self, one: &Trace, other: &Trace) -> Option<Difference> {
        let step = Some(one.step);
        if one.contract != other.contract {
            let values = [one.contract, other.contract].map(|name| Evidence::from(name.to_owned()));
            let detail = format!("made under {} and {}", one.contract, other.contract);
            return Some(self.differ(RunPart::Settings, step, "contract", detail, values));
        }
        if let Some(found) = self.logits(one, other) {
            return Some(found);
        }
        let names = [one, other].map(|trace| trace.stages.iter().map(|stage| &*stage.stage).collect::<Vec<_>>());
        let at = names[0].iter().zip(&names[1]).take_while(|(mine, theirs)| mine == theirs).count();
        // A redacted trace may end before the last stage.
        let cut = [one, other].map(|trace| trace.token.is_none() && trace.stages.len() == at);
        if names[0] != names[1] && cut == [false, false] {
            let there = names.each_ref().map(|names| names.get(at).copied().unwrap_or("none"));
            let detail = format!("stage {at} is {} and {}", there[0], there[1]);
            let values = there.map(|name| Evidence::from(name.to_owned()));
            return Some(self.differ(RunPart::Settings, step, &format!("stages[{at}]"), detail, values));
        }
        for (mine, theirs) in one.stages.iter().zip(&other.stages).skip(1) {
            let left = self.left(RunPart::Candidates, step, mine, theirs);
            if mine.stage == XTC {
                let draws = [mine.draw, theirs.draw];
                // A draw takes part by what it leaves, which a redacted stage does not tell.
                if left.is_none() && ![mine, theirs].into_iter().any(redacted) {
                    self.note_without_effect(step, draws);
                } else {
                    let detail = format!("the draw of {} itself", mine.stage);
                    if let Some(found) = self.number(RunPart::Draw, step, &mine.stage, detail, draws) {
                        return Some(found);
                    }
                }
            }
            if left.is_some() {
                return left;
            }
        }
        if names[0] != names[1] {
            self.found.lacks(RunPart::Candidates, cut, step);
        }
        // Only a greedy run has no draw and no probability. (Of what was cut off the last stage is not known.)
        if !names.iter().any(|names| names.last() == Some(&"greedy")) {
            let detail = "another number was drawn".to_owned();
            if let Some(found) = self.number(RunPart::Draw, step, "value", detail, [one.draw, other.draw]) {
                return Some(found);
            }
            let detail = "the token has another probability".to_owned();
            let probabilities = [one.probability, other.probability];
            // Another token has another probability: that is said of the token.
            if one.token == other.token
                && let Some(found) = self.number(RunPart::Candidates, step, "probability", detail, probabilities)
            {
                return Some(found);
            }
        }
        let tokens = [one.token, other.token];
        self.found.lacks(RunPart::Token, tokens.map(|token| token.is_none()), step);
        let [Some(mine), Some(theirs)] = tokens else { return None };
        let detail = "all stages and the draw are the same, as far as the traces tell".to_owned();
        (mine != theirs).then(|| self.differ(RunPart::Token, step, "id", detail, tokens.map(Evidence::from)))
    }

    /// The rows as the model gave them: how many tokens, the likeliest, and the digests of all.
    fn logits(&mut self, one: &Trace, other: &Trace) -> Option<Difference> {
        let step = Some(one.step);
        let stages = [one.stages.first(), other.stages.first()];
        let [Some(mine), Some(theirs)] = stages else {
            self.found.lacks(RunPart::Logits, stages.map(|stage| stage.is_none()), step);
            return None;
        };
        if let Some(found) = self.named(RunPart::Logits, step, mine, theirs) {
            return Some(found);
        }
        let digests = [&one.logits_sha256, &other.logits_sha256];
        if let [Some(mine), Some(theirs)] = digests {
            return (mine != theirs).then(|| {
                let mut detail = format!("below the {TOP} likeliest tokens, by the digests of the rows");
                if one.contract == LEGACY_CONTRACT {
                    detail.push_str("; or, for a greedy run, in the sign of a zero");
                }
                let mut found = self.differ(RunPart::Logits, step, "digest", detail, [Evidence::None, Evidence::None]);
                found.values = None;
                found.digests = Some([mine.clone(), theirs.clone()]);
                found
            });
        }
        // Where a stage names all its tokens, it is the row.
        let lacks = [unnamed(mine) && digests[0].is_none(), unnamed(theirs) && digests[1].is_none()];
        self.found.lacks(RunPart::Logits, lacks, step);
        None
    }

    /// What a stage left.
    fn left(&mut self, what: RunPart, step: Option<u64>, mine: &Stage, theirs: &Stage) -> Option<Difference> {
        let found = self.named(what, step, mine, theirs);
        if found.is_none() {
            self.found.lacks(what, [mine, theirs].map(unnamed), step);
        }
        found
    }

    /// How many tokens a stage left, and those it names. They are a set: each is looked for in its place by rank.
    fn named(&mut self, what: RunPart, step: Option<u64>, mine: &Stage, theirs: &Stage) -> Option<Difference> {
        if mine.candidates != theirs.candidates {
            let values = [mine.candidates, theirs.candidates];
            let detail = format!("after {} {} tokens are left and {}", mine.stage, values[0], values[1]);
            return Some(self.differ(what, step, &mine.stage, detail, values.map(Evidence::from)));
        }
        let lacks = [mine, theirs].map(redacted);
        self.found.lacks(what, lacks, step);
        if lacks.contains(&true) {
            return None;
        }
        let tops = [mine, theirs].map(by_rank);
        let there = |candidate: &Candidate| {
            [candidate.id.is_some(), candidate.logit.is_some(), candidate.probability.is_some()]
        };
        for rank in 0..tops[0].len().max(tops[1].len()) {
            let at = tops.each_ref().map(|top| top.get(rank));
            if let [Some(one), Some(other)] = at {
                if one == other {
                    continue;
                }
                // What one of them leaves out it does not contradict.
                let (fields, others) = (there(one), there(other));
                let same = (one.id == other.id || one.id.is_none() || other.id.is_none())
                    && agree(one.logit, other.logit)
                    && agree(one.probability, other.probability);
                if same {
                    let lacks = |mine: [bool; 3], theirs: [bool; 3]| {
                        mine.iter().zip(theirs).any(|(mine, theirs)| !mine && theirs)
                    };
                    self.found.lacks(what, [lacks(fields, others), lacks(others, fields)], step);
                    continue;
                }
            }
            let detail =
                format!("after {} the token at rank {} is another, or has another number", mine.stage, rank + 1);
            let values = at.map(|candidate| candidate.map_or(Evidence::None, shown));
            return Some(self.differ(what, step, &mine.stage, detail, values));
        }
        None
    }

    /// XTC's draws where what they left is the same: told once, for the first step at which they differ.
    fn note_without_effect(&mut self, step: Option<u64>, draws: [Option<f64>; 2]) {
        self.found.lacks(RunPart::Draw, draws.map(|draw| draw.is_none()), step);
        if !agree(draws[0], draws[1]) && self.found.beside.is_empty() {
            let detail = "XTC drew other numbers, which left the same tokens";
            let values = self.values.then(|| draws.map(Evidence::from));
            self.found.beside.push(WithoutEffect { field: XTC, detail, values });
        }
    }

    /// A number that both must hold to be compared.
    fn number(
        &mut self,
        what: RunPart,
        step: Option<u64>,
        at: &str,
        detail: String,
        numbers: [Option<f64>; 2],
    ) -> Option<Difference> {
        self.found.lacks(what, numbers.map(|number| number.is_none()), step);
        (!agree(numbers[0], numbers[1])).then(|| self.differ(what, step, at, detail, numbers.map(Evidence::from)))
    }

    fn differ(&self, what: RunPart, step: Option<u64>, at: &str, detail: String, values: [Evidence; 2]) -> Difference {
        Difference { what, step, at: at.to_owned(), detail, digests: None, values: self.values.then_some(values) }
    }
}

/// Whether a stage leaves tokens and names none.
fn redacted(stage: &Stage) -> bool {
    stage.top.is_empty() && stage.candidates > 0
}

/// Whether a stage leaves tokens it does not name.
fn unnamed(stage: &Stage) -> bool {
    (stage.top.len() as u64) < stage.candidates
}

/// Whether two numbers are the same bits, or one is not there.
fn agree(one: Option<f64>, other: Option<f64>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one.to_bits() == other.to_bits())
}

/// The tokens a stage names, by (number high first, id low first), in whatever order they were written; in that order where
/// a number is not there.
fn by_rank(stage: &Stage) -> Vec<Candidate> {
    let number = |candidate: &Candidate| candidate.logit.or(candidate.probability);
    let top = &stage.top;
    if !top.iter().all(|candidate| number(candidate).is_some()) {
        return top.clone();
    }
    let by_id = ordered((0..).zip(top).map(|(at, candidate)| (candidate.id.unwrap_or_default().into(), at)).collect());
    let rank = |(place, (_, at)): (u32, Rank)| (falling(number(&top[at as usize]).unwrap_or_default()), place);
    let by_number = ordered((0..).zip(by_id.iter().copied()).map(rank).collect());
    by_number.into_iter().map(|(_, place)| top[by_id[place as usize].1 as usize]).collect()
}

fn shown(candidate: &Candidate) -> Evidence {
    Evidence::List(vec![candidate.id.into(), candidate.logit.or(candidate.probability).into()])
}
