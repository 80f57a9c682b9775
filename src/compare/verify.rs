//! The check of a client's run, the same function in the browser and on the server.

use std::fmt;

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
#[must_use]
pub fn verify(record: &Record, claim: &Claim) -> Verdict {
    match judge(record, claim) {
        Ok(verdict) => verdict,
        Err((code, message)) => Verdict::Refused { code, message },
    }
}

type Judged<T> = Result<T, (&'static str, String)>;

fn judge(record: &Record, claim: &Claim) -> Judged<Verdict> {
    let start = record.start.step();
    let mut run = Run::from_state(record.start.clone());
    if claim.tokens.is_empty() {
        return Err(("claim_empty", "the claim has no tokens".to_owned()));
    }
    let claimed_steps = claim.tokens.len() as u64;
    if claim.frame_checksums.as_ref().is_some_and(|checksums| checksums.len() != claim.tokens.len()) {
        return Err(("claim_malformed", "frame_checksums must have one entry a token".to_owned()));
    }
    let diverged = |step, expected_token, claimed_token, why| {
        Ok(Verdict::Diverged(Divergence { step, expected_token, claimed_token, why }))
    };

    // What the whole run hangs on differs from its first step.
    let state = &claim.state;
    let why = if let Some(index) = first_difference(&record.start.prompt, &state.prompt) {
        let at = |ids: &[u32]| ids.get(index).copied();
        Some(Why::Prompt { index: index as u64, expected: at(&record.start.prompt), claimed: at(&state.prompt) })
    } else if record.start.settings != state.settings || record.start.processors != state.processors {
        Some(Why::Settings { expected: record.start.run_settings(), claimed: state.run_settings() })
    } else if record.start.seed != state.seed {
        Some(Why::Draw { expected: Draw::at(record.start.seed, start), claimed: Draw::at(state.seed, start) })
    } else {
        None
    };
    if let Some(why) = why {
        let expected = step(&mut run, record, 0)?.0;
        return diverged(start, Some(expected), claim.tokens.first().copied(), why);
    }
    let earlier = &state.tokens[..state.tokens.len().min(start as usize)];
    if let Some(index) = first_difference(&record.start.tokens, earlier) {
        let expected = record.start.tokens.get(index).copied();
        return diverged(index as u64, expected, earlier.get(index).copied(), Why::Token);
    }

    for (at, &claimed) in claim.tokens.iter().enumerate() {
        let (expected, checksum) = step(&mut run, record, at)?;
        let position = start + at as u64;
        if let Some(&claimed_checksum) = claim.frame_checksums.as_ref().and_then(|checksums| checksums.get(at))
            && claimed_checksum != checksum
        {
            let hex = |checksum| format!("{checksum:08x}");
            let why = Why::Logits { expected: hex(checksum), claimed: hex(claimed_checksum) };
            return diverged(position, Some(expected), Some(claimed), why);
        }
        if claimed != expected {
            return diverged(position, Some(expected), Some(claimed), Why::Token);
        }
        // The state must tell the same story as the list of tokens.
        let stated = state.tokens.get(position as usize).copied();
        if stated != Some(expected) {
            return diverged(position, Some(expected), stated, Why::Token);
        }
    }
    let end = start + claimed_steps;
    if let Some(&surplus) = state.tokens.get(end as usize) {
        // The state goes on after the claimed tokens end.
        let expected = step(&mut run, record, claim.tokens.len())?.0;
        if expected != surplus {
            return diverged(end, Some(expected), Some(surplus), Why::Token);
        }
        return Err(("claim_malformed", format!("the state has {} tokens, but the claim ends at {end}", state.step())));
    }
    Ok(Verdict::Match { steps: claimed_steps })
}

/// Takes the record's run one step on: its token, and the checksum of the frame it came from.
fn step(run: &mut Run, record: &Record, at: usize) -> Judged<(u32, u32)> {
    let position = run.position();
    let Some(bytes) = record.frames.get(at) else {
        return Err(("frames_missing", format!("the record has no frame for step {position}")));
    };
    let frame = Frame::decode(bytes)
        .map_err(|error| (error.code(), format!("the record's frame for step {position}: {error}")))?;
    run.forget_length();
    let token = run
        .step_with_frame(&frame)
        .map_err(|error| (error.code(), format!("the record's step {position}: {error}")))?;
    Ok((token, frame.checksum()))
}

fn first_difference(a: &[u32], b: &[u32]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len() || common < b.len()).then_some(common)
}
