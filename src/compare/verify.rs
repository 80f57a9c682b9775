//! The check of a client's run, the same function in the browser and on the server.

use std::fmt;

use super::order::{Parts, compare};
use crate::core::refusal::Refusal;
use crate::core::splitmix::{streams, uniform};
use crate::run::run::Run;
use crate::wire::claim::{Claim, Record};
use crate::wire::frame::Frame;
use crate::wire::state::RunSettings;
use crate::wire::written::{Entries, Value, serialize_written};

/// The JSON Schema (draft 2020-12) of a verdict.
pub const VERDICT_SCHEMA: &str = include_str!("verdict.schema.json");

/// What a check found.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Every claimed token is the record's.
    Match {
        /// How many were recomputed; at least 1.
        steps: u64,
    },
    /// The claim differs from the record.
    Diverged(Divergence),
    /// The claim could not be judged.
    Refused {
        /// Stable, for programs: `claim_empty`, `claim_malformed`, `frames_missing`, or the code of a frame's refusal.
        code: &'static str,
        /// For people.
        message: String,
    },
}

/// The first step at which a claim differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// The step, counted from the start of the run.
    pub step: u64,
    /// The record's token there; `None` when it has none.
    pub expected_token: Option<u32>,
    /// The claim's token there; `None` when it has none.
    pub claimed_token: Option<u32>,
    /// What differs.
    pub why: Why,
}

/// What differs, and how.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// The run started from other token ids.
    Prompt {
        /// The first index that differs.
        index: u64,
        /// The record's id there.
        expected: Option<u32>,
        /// The claim's id there.
        claimed: Option<u32>,
    },
    /// Other settings.
    Settings {
        /// The record's.
        expected: RunSettings,
        /// The claim's.
        claimed: RunSettings,
    },
    /// Another seed, so another uniform number.
    Draw {
        /// The record's.
        expected: Draw,
        /// The claim's.
        claimed: Draw,
    },
    /// The claim was sampled from other logits.
    Logits {
        /// Checksum of the record's frame, hex.
        expected: String,
        /// Checksum of the claim's frame, hex.
        claimed: String,
    },
    /// All that goes in is the same, and the token is another.
    Token,
}

/// A seed and the uniform number it gives at the step in question.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// Decimal.
    pub seed: String,
    /// In [0, 1).
    pub uniform: f64,
}

impl Draw {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("seed", &self.seed);
        it.number("uniform", self.uniform);
        Value::Object(it)
    }

    fn at(seed: u64, step: u64) -> Self {
        Self { seed: seed.to_string(), uniform: uniform(seed, step, streams::TOKENS) }
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = |token: Option<u32>| token.map_or_else(|| "no token".to_owned(), |id| format!("token {id}"));
        write!(
            f,
            "step {}: the record gives {}, the claim {}; ",
            self.step,
            token(self.expected_token),
            token(self.claimed_token)
        )?;
        match &self.why {
            Why::Prompt { index, .. } => write!(f, "the prompts differ from index {index}"),
            Why::Settings { .. } => write!(f, "the settings differ"),
            Why::Draw { expected, claimed } => {
                write!(f, "the seed is {}, the claim's is {}", expected.seed, claimed.seed)
            }
            Why::Logits { expected, claimed } => {
                write!(f, "the logits differ (frame {expected}, the claim's is {claimed})")
            }
            Why::Token => write!(f, "logits, settings and draw are the same"),
        }
    }
}

impl Verdict {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        match self {
            Self::Match { steps } => {
                it.text("verdict", "match");
                it.integer("steps", *steps);
            }
            Self::Diverged(divergence) => {
                it.text("verdict", "diverged");
                divergence.write(&mut it);
            }
            Self::Refused { code, message } => {
                it.text("verdict", "refused");
                it.text("code", code);
                it.text("message", message);
            }
        }
        Value::Object(it)
    }
}

impl Divergence {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        self.write(&mut it);
        Value::Object(it)
    }

    /// With the fields of `why` beside its own.
    fn write<'a>(&'a self, it: &mut Entries<'a>) {
        it.integer("step", self.step);
        it.integer_or_null("expected_token", self.expected_token.map(u64::from));
        it.integer_or_null("claimed_token", self.claimed_token.map(u64::from));
        it.set("message", Value::Text(self.to_string().into()));
        let id = |id: Option<u32>| id.map_or(Value::Null, |id| Value::Integer(id.into()));
        let (why, index, values) = match &self.why {
            Why::Prompt { index, expected, claimed } => ("prompt", Some(*index), Some((id(*expected), id(*claimed)))),
            Why::Settings { expected, claimed } => ("settings", None, Some((expected.written(), claimed.written()))),
            Why::Draw { expected, claimed } => ("draw", None, Some((expected.written(), claimed.written()))),
            Why::Logits { expected, claimed } => {
                ("logits", None, Some((Value::Text(expected.into()), Value::Text(claimed.into()))))
            }
            Why::Token => ("token", None, None),
        };
        it.text("why", why);
        if let Some(index) = index {
            it.integer("index", index);
        }
        if let Some((expected, claimed)) = values {
            it.set("expected", expected);
            it.set("claimed", claimed);
        }
    }
}

serialize_written!(Verdict, Divergence, Draw);

/// Recomputes a claim from a record. A claim may cover fewer steps than the record; [`Verdict::Match`] says how many.
///
/// Compared in the same order as by [`first_divergence`](super::records::first_divergence): the ids before the first step;
/// then of each step the logits, of the first also settings and seed, and the token. The first difference is the verdict.
/// Unlike there, prompt, settings and seed must be the record's even where they have no effect on a token.
#[must_use]
pub fn verify(record: &Record, claim: &Claim) -> Verdict {
    let steps = claim.tokens.len();
    if steps == 0 {
        return Verdict::Refused { code: "claim_empty", message: "the claim has no tokens".to_owned() };
    }
    if claim.frame_checksums.as_ref().is_some_and(|checksums| checksums.len() != steps) {
        let message = "frame_checksums must have one entry a token".to_owned();
        return Verdict::Refused { code: "claim_malformed", message };
    }
    let run = Run::from_state(record.start.clone());
    let mut check = Check { record, claim, run, expected: 0, checksum: 0, verdict: None };
    compare(&mut check, 0..steps);
    check.verdict.unwrap_or(Verdict::Match { steps: steps as u64 })
}

/// A claim and the record's run, computed again.
struct Check<'a> {
    record: &'a Record,
    claim: &'a Claim,
    run: Run,
    /// The token of the last step computed, and the checksum of its frame.
    expected: u32,
    checksum: u32,
    /// Where the comparison ended before the end of the claim.
    verdict: Option<Verdict>,
}

impl Check<'_> {
    /// Computes the next step of the record's run.
    fn compute(&mut self) -> Result<(), (&'static str, String)> {
        let step = self.run.position();
        let at = (step - self.record.start.step()) as usize;
        let Some(bytes) = self.record.frames.get(at) else {
            return Err(("frames_missing", format!("the record has no frame for step {step}")));
        };
        let frame = Frame::decode(bytes)
            .map_err(|error| (error.code(), format!("the record's frame for step {step}: {error}")))?;
        self.run.forget_length();
        self.expected = self
            .run
            .step_with_frame(&frame)
            .map_err(|error| (error.code(), format!("the record's step {step}: {error}")))?;
        self.checksum = frame.checksum();
        Ok(())
    }

    /// Computes the next step, and refuses the claim where that fails. Whether it failed.
    fn fails(&mut self) -> bool {
        let Err((code, message)) = self.compute() else { return false };
        self.refuse(code, message)
    }

    fn refuse(&mut self, code: &'static str, message: String) -> bool {
        self.verdict = Some(Verdict::Refused { code, message });
        true
    }

    fn differ(&mut self, step: u64, expected: Option<u32>, claimed: Option<u32>, why: Why) -> bool {
        self.verdict =
            Some(Verdict::Diverged(Divergence { step, expected_token: expected, claimed_token: claimed, why }));
        true
    }

    /// The claim differs in what is the same for all steps.
    fn differ_throughout(&mut self, why: Why) -> bool {
        let (expected, claimed) = (self.expected, self.claim.tokens.first().copied());
        self.differ(self.record.start.step(), Some(expected), claimed, why)
    }
}

impl Parts for Check<'_> {
    fn input_ids(&mut self) -> bool {
        let (start, state) = (&self.record.start, &self.claim.state);
        let at = |ids: &[u32], index: usize| ids.get(index).copied();
        if let Some(index) = first_difference(&start.prompt, &state.prompt) {
            let (expected, claimed) = (at(&start.prompt, index), at(&state.prompt, index));
            return self.fails() || self.differ_throughout(Why::Prompt { index: index as u64, expected, claimed });
        }
        let earlier = &state.tokens[..state.tokens.len().min(start.tokens.len())];
        first_difference(&start.tokens, earlier)
            .is_some_and(|index| self.differ(index as u64, at(&start.tokens, index), at(earlier, index), Why::Token))
    }

    fn logits(&mut self, place: usize) -> bool {
        if self.fails() {
            return true;
        }
        match self.claim.frame_checksums.as_ref().and_then(|checksums| checksums.get(place)) {
            Some(&claimed) if claimed != self.checksum => {
                let hex = |checksum| format!("{checksum:08x}");
                let why = Why::Logits { expected: hex(self.checksum), claimed: hex(claimed) };
                let step = self.record.start.step() + place as u64;
                self.differ(step, Some(self.expected), Some(self.claim.tokens[place]), why)
            }
            _ => false,
        }
    }

    fn settings(&mut self) -> bool {
        let (start, state) = (&self.record.start, &self.claim.state);
        if start.settings == state.settings && start.processors == state.processors {
            return false;
        }
        self.differ_throughout(Why::Settings { expected: start.run_settings(), claimed: state.run_settings() })
    }

    /// A claim says nothing of them.
    fn candidates(&mut self, _: usize) -> bool {
        false
    }

    fn draw(&mut self) -> bool {
        let (expected, claimed, step) = (self.record.start.seed, self.claim.state.seed, self.record.start.step());
        if expected == claimed {
            return false;
        }
        self.differ_throughout(Why::Draw { expected: Draw::at(expected, step), claimed: Draw::at(claimed, step) })
    }

    fn token(&mut self, place: usize) -> bool {
        let step = self.record.start.step() + place as u64;
        let (expected, claimed) = (Some(self.expected), Some(self.claim.tokens[place]));
        // The state must have the same tokens as the list.
        let stated = self.claim.state.tokens.get(step as usize).copied();
        let other = if claimed == expected { stated } else { claimed };
        other != expected && self.differ(step, expected, other, Why::Token)
    }

    /// The state ends where the claimed tokens do.
    fn stop(&mut self) -> bool {
        let end = self.run.position();
        let Some(&surplus) = self.claim.state.tokens.get(end as usize) else { return false };
        if self.fails() {
            return true;
        }
        if self.expected != surplus {
            return self.differ(end, Some(self.expected), Some(surplus), Why::Token);
        }
        let count = self.claim.state.step();
        self.refuse("claim_malformed", format!("the state has {count} tokens, but the claim ends at {end}"))
    }
}

fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len() || common < b.len()).then_some(common)
}
