//! Where two lists of traces first part: as [`first_divergence`](super::divergence::first_divergence), from what the stages
//! of each step were seen to leave.

use super::divergence::{Comparison, Difference, Evidence, Missing, Side, What, compared, index_detail};
use super::json::{FieldError, Fields, Object};
use super::trace::{Candidate, Stage, Trace};
use super::version::CONTRACT;
use crate::core::text::Quoted;

/// The traces of a file, `{"traces": [{…}]}`, one a step.
///
/// # Errors
/// A missing, unknown or mistyped field.
pub fn read_traces(file: Object) -> Result<Vec<Trace>, FieldError> {
    file.read(|it| it.objects("traces").into_iter().map(read_trace).collect())
}

fn read_trace(object: Object) -> Result<Trace, FieldError> {
    object.read(|it| {
        let contract = it.string("contract");
        if contract != CONTRACT {
            let found = Quoted(&contract).to_string();
            return Err(FieldError::Type { path: "contract".into(), expected: "the name of the contract", found });
        }
        Ok(Trace {
            contract: CONTRACT,
            step: it.integer("step"),
            stages: it.objects("stages").into_iter().map(read_stage).collect::<Result<_, _>>()?,
            draw: it.number_or_null("draw"),
            token: it.count_or_null("token"),
            probability: it.number_or_null("probability"),
        })
    })
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

/// Compares two runs by their traces, one a step from the same step on, and finds where they first part. Of each step, in
/// this order: the logits as the model gave them, the list of stages (processors and settings), what each stage left, the
/// draw, the token. A trace names five tokens a stage; further down nothing is compared. What is redacted is missing.
#[must_use]
pub fn first_divergence_of_traces(first: &[Trace], second: &[Trace], values: bool) -> Comparison {
    let mut search = Search { values, missing: Vec::new() };
    let (mut found, mut steps) = (None, 0);
    for (one, other) in first.iter().zip(second) {
        found = search.step(one, other);
        if found.is_some() {
            break;
        }
        steps += 1;
    }
    let differ = |(one, other): (&Trace, &Trace)| one.token.zip(other.token).is_some_and(|(one, other)| one != other);
    let first_token = first.iter().zip(second).find(|pair| differ(*pair)).map(|(one, _)| one.step);
    if found.is_none() && first.len() != second.len() {
        let counts = [first, second].map(|traces| traces.len() as u64);
        let detail = format!("the first has {} traces, the second {}", counts[0], counts[1]);
        let step = first.iter().chain(second).map(|trace| trace.step).max();
        found = Some(search.differ(What::Stop, step, "tokens", detail, counts.map(Evidence::from)));
    }
    if first.is_empty() && second.is_empty() {
        search.missing.push(Missing { what: What::Token, record: Side::Both, step: None });
    }
    compared(Vec::new(), found, first_token, search.missing, steps)
}

struct Search {
    values: bool,
    missing: Vec<Missing>,
}

impl Search {
    fn step(&mut self, one: &Trace, other: &Trace) -> Option<Difference> {
        let step = Some(one.step);
        if one.step != other.step {
            let values = [one.step, other.step].map(Evidence::from);
            return Some(self.differ(What::Draw, step, "index", index_detail(&values), values));
        }
        if let [Some(mine), Some(theirs)] = [one.stages.first(), other.stages.first()]
            && let Some(found) = self.left(What::Logits, step, mine, theirs)
        {
            return Some(found);
        }
        let names = [one, other].map(|trace| trace.stages.iter().map(|stage| &*stage.stage).collect::<Vec<_>>());
        if names[0] != names[1] {
            let at = names[0].iter().zip(&names[1]).take_while(|(mine, theirs)| mine == theirs).count();
            let there = names.each_ref().map(|names| names.get(at).copied().unwrap_or("none"));
            let detail = format!("stage {at} is {} and {}", there[0], there[1]);
            let values = there.map(|name| Evidence::from(name.to_owned()));
            return Some(self.differ(What::Settings, step, &format!("stages[{at}]"), detail, values));
        }
        for (mine, theirs) in one.stages.iter().zip(&other.stages).skip(1) {
            if bits(mine.draw) != bits(theirs.draw) {
                let values = [mine.draw, theirs.draw].map(Evidence::from);
                let detail = format!("the draw of {} itself", mine.stage);
                return Some(self.differ(What::Draw, step, &mine.stage, detail, values));
            }
            if let Some(found) = self.left(What::Candidates, step, mine, theirs) {
                return Some(found);
            }
        }
        if bits(one.draw) != bits(other.draw) {
            let values = [one.draw, other.draw].map(Evidence::from);
            let detail = "another number was drawn".to_owned();
            return Some(self.differ(What::Draw, step, "value", detail, values));
        }
        let tokens = [one.token, other.token];
        self.lacks(What::Token, tokens.map(|token| token.is_none()), step);
        let [Some(mine), Some(theirs)] = tokens else { return None };
        let detail = "all stages and the draw are the same, as far as the traces tell".to_owned();
        (mine != theirs).then(|| self.differ(What::Token, step, "id", detail, tokens.map(Evidence::from)))
    }

    /// What a stage left.
    fn left(&mut self, what: What, step: Option<u64>, mine: &Stage, theirs: &Stage) -> Option<Difference> {
        if mine.candidates != theirs.candidates {
            let values = [mine.candidates, theirs.candidates];
            let detail = format!("after {} {} tokens are left and {}", mine.stage, values[0], values[1]);
            return Some(self.differ(what, step, &mine.stage, detail, values.map(Evidence::from)));
        }
        let redacted = [mine, theirs].map(|stage| stage.top.is_empty() && stage.candidates > 0);
        self.lacks(what, redacted, step);
        if redacted.contains(&true) {
            return None;
        }
        let same = |(mine, theirs): (&Candidate, &Candidate)| {
            mine.id == theirs.id
                && bits(mine.logit) == bits(theirs.logit)
                && bits(mine.probability) == bits(theirs.probability)
        };
        let common = mine.top.iter().zip(&theirs.top).take_while(|pair| same(*pair)).count();
        (common < mine.top.len() || common < theirs.top.len()).then(|| {
            let detail =
                format!("after {} the token at rank {} is another, or has another number", mine.stage, common + 1);
            let values = [mine, theirs].map(|stage| stage.top.get(common).map_or(Evidence::None, shown));
            self.differ(what, step, &mine.stage, detail, values)
        })
    }

    fn differ(&self, what: What, step: Option<u64>, at: &str, detail: String, values: [Evidence; 2]) -> Difference {
        Difference { what, step, at: at.to_owned(), detail, digests: None, values: self.values.then_some(values) }
    }

    fn lacks(&mut self, what: What, lacks: [bool; 2], step: Option<u64>) {
        let record = match lacks {
            [true, true] => Side::Both,
            [true, false] => Side::First,
            [false, true] => Side::Second,
            [false, false] => return,
        };
        if !self.missing.iter().any(|missing| missing.what == what && missing.record == record) {
            self.missing.push(Missing { what, record, step });
        }
    }
}

fn bits(number: Option<f64>) -> Option<u64> {
    number.map(f64::to_bits)
}

fn shown(candidate: &Candidate) -> Evidence {
    Evidence::List(vec![candidate.id.into(), candidate.logit.or(candidate.probability).into()])
}
