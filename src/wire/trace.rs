//! Why a token: a bounded trace of what each stage left, for both contracts.
//!
//! A trace is made by [`Run::trace`](crate::Run::trace) or [`MosaicState::trace`](crate::MosaicState::trace) from a state and a
//! row of logits. Asking for one changes nothing in the run.
//!
//! # What a redacted trace keeps, and why
//!
//! [`Trace::redacted`] removes the token ids, the logits, the probabilities, the digest of the row and every draw. Draws
//! have to go because two of them, 53 bits each, are enough to compute the seed, and with the seed every other draw. The
//! names of the stages and the counts of tokens stay: they are what such a trace is read for, namely which stage cuts how
//! much. A count says how many tokens are left and not which, and no draw enters it, except from XTC on, where it says
//! whether XTC's draw was below its probability. Enough such answers single out a seed, so a redacted trace ends before
//! XTC.
//!
//! What that does not prevent: counts are functions of the logits. Whoever has the model, the settings and the prompt can
//! test a guessed text against the counts, as against any statistic of a run. Leave the counts out as well where the text
//! must be safe from such a test.

use std::borrow::Cow;

use sha2::{Digest as _, Sha256};

use super::written::{Entries, Value, serialize_written};

/// How many tokens a stage names at most.
pub const TOP: usize = 5;

/// A token and its logit, or its probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The token's id; `None` where redacted.
    pub id: Option<u32>,
    /// Its logit, in a stage that works on logits.
    pub logit: Option<f64>,
    /// Its probability, in one that works on these.
    pub probability: Option<f64>,
}

/// What one stage left.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema), schemars(rename = "TraceStage"))]
pub struct Stage {
    /// `logits` (what came from the model), a processor's name, then `greedy`, or `top_k`, `temperature` and `top_p`. Under
    /// the older contract: `logits`, then `greedy`, or `scaled_logits`, `top_k`, `softmax` and `top_p`.
    pub stage: Cow<'static, str>,
    /// How many tokens are left.
    pub candidates: u64,
    /// How many this stage removed.
    pub removed: u64,
    /// The best five at most, by logit or probability, equal ones by id; empty where redacted.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), schemars(with = "Vec<crate::forms::TopCandidate>"))]
    pub top: Vec<Candidate>,
    /// The uniform number of the stage itself, where it drew one (XTC); left out where redacted.
    #[cfg_attr(
        all(test, not(target_arch = "wasm32")),
        schemars(with = "f64", skip_serializing_if = "Option::is_none")
    )]
    pub draw: Option<f64>,
}

/// Why a token was chosen, stage by stage: at most 25 stages of five tokens, whatever the vocabulary.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(all(test, not(target_arch = "wasm32")), derive(schemars::JsonSchema))]
pub struct Trace {
    /// The contract.
    #[cfg_attr(all(test, not(target_arch = "wasm32")), schemars(schema_with = "crate::forms::contract"))]
    pub contract: &'static str,
    /// The step.
    pub step: u64,
    /// SHA-256 of the whole row as it came from the model, in hex: of its numbers as little-endian binary64. −0 is written
    /// as 0, except for a greedy decision of the older contract, which tells them apart. Left out where redacted, and in
    /// traces made before it was recorded. The stages name the best five logits; the digest shows that all others are equal.
    #[cfg_attr(
        all(test, not(target_arch = "wasm32")),
        schemars(with = "String", skip_serializing_if = "Option::is_none")
    )]
    pub logits_sha256: Option<String>,
    /// The stages in their order.
    pub stages: Vec<Stage>,
    /// The uniform number the walk was made with; `None` when greedy, and where redacted.
    pub draw: Option<f64>,
    /// The token that was chosen; `None` where redacted.
    pub token: Option<u32>,
    /// Its probability among those left; `None` when greedy, and where redacted.
    pub probability: Option<f64>,
}

impl Trace {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("contract", self.contract);
        it.integer("step", self.step);
        if let Some(digest) = &self.logits_sha256 {
            it.text("logits_sha256", digest);
        }
        it.set("stages", Value::list(&self.stages, Stage::written));
        it.number_or_null("draw", self.draw);
        it.integer_or_null("token", self.token.map(u64::from));
        it.number_or_null("probability", self.probability);
        Value::Object(it)
    }

    /// The same without what tells of the text, the model or the seed: no ids, logits, probabilities, digest or draws. Names
    /// of stages and counts stay, up to XTC, where the list of stages ends; the module says why.
    #[must_use]
    pub fn redacted(mut self) -> Self {
        if let Some(at) = self.stages.iter().position(|stage| stage.stage == XTC) {
            self.stages.truncate(at);
        }
        for stage in &mut self.stages {
            stage.top.clear();
            stage.draw = None;
        }
        (self.token, self.probability, self.draw, self.logits_sha256) = (None, None, None, None);
        self
    }
}

/// The one stage that draws by itself.
pub(crate) const XTC: &str = "xtc";

impl Candidate {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        if let Some(id) = self.id {
            it.integer("id", id.into());
        }
        it.number_if_there("logit", self.logit);
        it.number_if_there("probability", self.probability);
        Value::Object(it)
    }
}

/// What the numbers of a stage are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Logit,
    Probability,
}

impl Stage {
    /// A stage that left these tokens, each with its number, of the `before` there were.
    pub(crate) fn new(
        stage: &'static str,
        before: u64,
        unit: Unit,
        left: &mut dyn Iterator<Item = (u32, f64)>,
        draw: Option<f64>,
    ) -> Self {
        let mut candidates = 0;
        // By (number high first, id low first).
        let mut best: Vec<(u32, f64)> = Vec::with_capacity(TOP + 1);
        for (id, number) in left {
            candidates += 1;
            let at = best.partition_point(|&(other, better)| better > number || (better == number && other < id));
            best.insert(at, (id, number));
            best.truncate(TOP);
        }
        let mut top = Vec::with_capacity(best.len());
        for (id, number) in best {
            let (logit, probability) = if unit == Unit::Logit { (Some(number), None) } else { (None, Some(number)) };
            top.push(Candidate { id: Some(id), logit, probability });
        }
        Self { stage: stage.into(), candidates, removed: before - candidates, top, draw }
    }

    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("stage", &self.stage);
        it.integer("candidates", self.candidates);
        it.integer("removed", self.removed);
        it.set("top", Value::list(&self.top, Candidate::written));
        it.number_if_there("draw", self.draw);
        Value::Object(it)
    }
}

serialize_written!(Candidate, Stage, Trace);

/// SHA-256 of a row, in hex. Where no rule tells −0 from 0, the row comes with 0 for both.
pub(crate) fn digest(logits: &mut dyn Iterator<Item = f64>) -> String {
    let mut hash = Sha256::new();
    for logit in logits {
        hash.update(logit.to_le_bytes());
    }
    let mut hex = String::new();
    for byte in hash.finalize() {
        hex.push_str(&format!("{byte:02x}"));
    }
    hex
}
