//! Why a token: a decision in one line, and a bounded trace of what each stage left, for both contracts.
//!
//! Both are functions of a run's state and a row of logits. They are asked for; a run that steps makes none, and one
//! that is asked steps no differently.
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

use super::generator::Run;
use super::mosaic::MosaicState;
use super::version::CONTRACT;
use super::written::{Entries, Value, serialize_written};
use crate::core::distribution::{Distribution, Stage as Contract, distribution_in_stages};
use crate::core::error::SampleError;
use crate::core::logits::{Logit, Row};
use crate::core::mosaic::{
    self, ALGORITHM_VERSION, MosaicError, SampleDecision, SelectionStrategy, Stage as MosaicStage,
    candidates_in_stages, drawn,
};
use crate::core::processors::Processor;
use crate::core::sparse::SparseRow;
use crate::core::splitmix::{streams, uniform};

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
pub struct Stage {
    /// `logits` (what came from the model), a processor's name, then `greedy`, or `top_k`, `temperature` and `top_p`. Under
    /// the older contract: `logits`, then `greedy`, or `scaled_logits`, `top_k`, `softmax` and `top_p`.
    pub stage: Cow<'static, str>,
    /// Tokens that are left.
    pub candidates: u64,
    /// Tokens this stage removed.
    pub removed: u64,
    /// The best [`TOP`] at most, by (logit or probability high first, id low first); empty where redacted.
    pub top: Vec<Candidate>,
    /// The uniform number of the stage itself, where it drew one (XTC); `None` where redacted.
    pub draw: Option<f64>,
}

/// Why a token was chosen, stage by stage. At most 25 stages of [`TOP`] tokens, whatever the vocabulary.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The contract.
    pub contract: &'static str,
    /// The step.
    pub step: u64,
    /// SHA-256 of the whole row as it came from the model, in hex: of its numbers as little-endian binary64. −0 is written
    /// as 0, except for a greedy decision of the older contract, which tells them apart. `None` where redacted, and in
    /// traces made before it was recorded. The stages name the best [`TOP`] logits, −0 as 0; this is what shows that all
    /// others are equal.
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
pub(super) const XTC: &str = "xtc";

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

impl Stage {
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

impl SampleDecision {
    /// All six fields, absent ones as null.
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.integer("token_id", self.token_id.into());
        it.integer("candidate_count", self.candidate_count.into());
        it.number_or_null("selected_probability", self.selected_probability);
        it.number_or_null("random_draw", self.random_draw);
        it.integer_or_null("draw_index", self.draw_index);
        it.text("algorithm_version", self.algorithm_version);
        Value::Object(it)
    }
}

serialize_written!(Candidate, Stage, Trace, SampleDecision);

impl Run {
    /// The decision these logits lead to at this step; emits nothing. For greedy settings the three in the middle are
    /// absent and the count is that of the allowed tokens.
    ///
    /// # Errors
    /// As [`Run::decide`].
    pub fn decision<L: Logit>(&self, logits: &[L]) -> Result<SampleDecision, SampleError> {
        let decision = match self.process(logits)? {
            Some(row) => self.decision_of(&row, &mut |_, _| ()),
            None => self.decision_of(logits, &mut |_, _| ()),
        }?;
        self.check_length(logits.len() as u64)?;
        Ok(decision)
    }

    /// The decision a row leads to at this step, whatever the unknown logits are; emits nothing.
    ///
    /// # Errors
    /// `frame_insufficient` where a field could depend on unknown logits: as for [`Run::decide_sparse`], and under greedy
    /// settings, whose `candidate_count` is that of all allowed tokens. Then as [`Run::decide`].
    pub fn decision_sparse<L: Logit>(&self, row: &SparseRow<L>) -> Result<SampleDecision, SampleError> {
        if let Some(logits) = row.whole() {
            return self.decision(logits);
        }
        self.check_sparse(row)?;
        if self.settings().is_greedy() {
            return Err(insufficient(row));
        }
        let decision = self.decision_of(row.logits(), &mut |_, _| ())?;
        self.check_length(row.vocabulary().into())?;
        Ok(SampleDecision { token_id: row.id(decision.token_id), ..decision })
    }

    /// The trace of the decision a row leads to. It counts and ranks all allowed tokens, so it needs a row that is whole.
    ///
    /// # Errors
    /// `frame_insufficient` where a logit is unknown. Then as [`Run::decide`].
    pub fn trace_sparse<L: Logit>(&self, row: &SparseRow<L>) -> Result<Trace, SampleError> {
        row.whole().ok_or_else(|| insufficient(row)).and_then(|logits| self.trace(logits))
    }

    /// The trace of the decision these logits lead to at this step; emits nothing.
    ///
    /// # Errors
    /// As [`Run::decide`].
    pub fn trace<L: Logit>(&self, logits: &[L]) -> Result<Trace, SampleError> {
        let first = Row::new(logits)?;
        let mut row: Vec<f64> = logits.iter().map(|logit| logit.widen()).collect();
        let mut stages = vec![stage_of_logits("logits", &row, first.allowed().into(), None)];
        self.processors().apply(&mut row, &self.place(), |processor, row| {
            let before = stages[stages.len() - 1].candidates;
            let draw =
                matches!(processor, Processor::Xtc(_)).then(|| uniform(self.seed(), self.position(), streams::XTC));
            stages.push(stage_of_logits(processor.name(), row, before, draw));
        })?;
        let decision = self.decision_of(&row, &mut |stage, left| {
            let before = stages[stages.len() - 1].candidates;
            stages.push(stage_of_distribution(stage, left, before));
        })?;
        self.check_length(logits.len() as u64)?;
        Ok(Trace {
            contract: CONTRACT,
            step: self.position(),
            logits_sha256: Some(digest(logits.iter().map(|logit| logit.widen() + 0.0))),
            stages,
            draw: decision.random_draw,
            token: Some(decision.token_id),
            probability: decision.selected_probability,
        })
    }

    fn decision_of<L: Logit>(
        &self,
        row: &[L],
        seen: &mut dyn FnMut(Contract, &Distribution),
    ) -> Result<SampleDecision, SampleError> {
        let allowed = Row::new(row)?.allowed();
        let kept = distribution_in_stages(row, self.settings(), seen)?;
        let greedy = self.settings().is_greedy();
        let u = self.uniform();
        let token_id = kept.walk(u);
        let chosen = kept.ids().iter().position(|&id| id == token_id).map(|at| kept.probabilities()[at]);
        Ok(SampleDecision {
            token_id,
            candidate_count: if greedy { allowed } else { kept.ids().len() as u32 },
            selected_probability: chosen.filter(|_| !greedy),
            random_draw: (!greedy).then_some(u),
            draw_index: (!greedy).then(|| self.position()),
            algorithm_version: CONTRACT,
        })
    }
}

/// All logits are needed, and not all of this row's are known.
fn insufficient<L: Logit>(row: &SparseRow<L>) -> SampleError {
    SampleError::Insufficient { certain: row.max_top_k().unwrap_or(0), top_k: 0 }
}

impl MosaicState {
    /// The trace of the decision these logits lead to at this step under the older contract; emits nothing.
    ///
    /// # Errors
    /// As [`step_with`](Self::step_with).
    pub fn trace<L: Logit>(&self, logits: &[L]) -> Result<Trace, MosaicError> {
        let mut stages = Vec::new();
        let mut left = |stage: &'static str, ids: &[u32], numbers: &[f64], logits: bool| {
            let candidates = ids.len() as u64;
            let before = stages.last().map_or(candidates, |stage: &Stage| stage.candidates);
            // JSON has no −0 in JavaScript: the sum turns it into 0.
            let numbers = numbers.iter().map(|number| number + 0.0);
            let top = named(best(&mut ids.iter().copied().zip(numbers)), logits);
            stages.push(Stage { stage: stage.into(), candidates, removed: before - candidates, top, draw: None });
        };
        let mut row = Vec::with_capacity(logits.len());
        for logit in logits {
            row.push(logit.widen());
        }
        let ids: Vec<u32> = (0..).take(row.len()).collect();
        left("logits", &ids, &row, true);
        let decision = match &self.strategy {
            SelectionStrategy::Greedy => {
                let decision = mosaic::select(&row, &self.strategy, self.seed, self.draws)?;
                left("greedy", &[decision.token_id], &[1.0], false);
                decision
            }
            SelectionStrategy::Sample(config) => {
                let kept = candidates_in_stages(&row, config, |stage, ids, numbers| match stage {
                    MosaicStage::Scaled => left("scaled_logits", ids, numbers, true),
                    MosaicStage::TopK => left("top_k", ids, numbers, true),
                    MosaicStage::Softmax => left("softmax", ids, numbers, false),
                    MosaicStage::TopP => left("top_p", ids, numbers, false),
                })?;
                drawn(&kept, self.seed, self.draws)
            }
        };
        Ok(Trace {
            contract: ALGORITHM_VERSION,
            step: self.tokens.len() as u64,
            logits_sha256: Some(if self.strategy == SelectionStrategy::Greedy {
                digest(row.iter().copied())
            } else {
                digest(row.iter().map(|logit| logit + 0.0))
            }),
            stages,
            draw: decision.random_draw,
            token: Some(decision.token_id),
            probability: decision.selected_probability,
        })
    }
}

/// SHA-256 of a row, in hex. Where no rule tells −0 from 0, the row comes with 0 for both.
fn digest(logits: impl Iterator<Item = f64>) -> String {
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

fn stage_of_logits(stage: &'static str, row: &[f64], before: u64, draw: Option<f64>) -> Stage {
    let allowed = row.iter().filter(|logit| **logit != f64::NEG_INFINITY).count() as u64;
    let logits = (0..).zip(row).filter(|(_, logit)| **logit != f64::NEG_INFINITY).map(|(id, logit)| (id, logit + 0.0));
    let top = named(best(&mut { logits }), true);
    Stage { stage: stage.into(), candidates: allowed, removed: before - allowed, top, draw }
}

fn stage_of_distribution(stage: Contract, left: &Distribution, before: u64) -> Stage {
    let (name, logits) = match stage {
        Contract::Greedy => ("greedy", false),
        Contract::TopK => ("top_k", true),
        Contract::Temperature => ("temperature", false),
        Contract::TopP => ("top_p", false),
    };
    let candidates = left.ids().len() as u64;
    let top = named(best(&mut left.ids().iter().copied().zip(left.probabilities().iter().copied())), logits);
    Stage { stage: name.into(), candidates, removed: before - candidates, top, draw: None }
}

/// The first [`TOP`] by (number high first, id low first).
fn best(numbers: &mut dyn Iterator<Item = (u32, f64)>) -> Vec<(u32, f64)> {
    let mut top: Vec<(u32, f64)> = Vec::with_capacity(TOP + 1);
    for (id, number) in numbers {
        let at = top.partition_point(|&(other, better)| better > number || (better == number && other < id));
        top.insert(at, (id, number));
        top.truncate(TOP);
    }
    top
}

fn named(numbers: Vec<(u32, f64)>, logits: bool) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (id, number) in numbers {
        let number = Some(number);
        let (logit, probability) = if logits { (number, None) } else { (None, number) };
        candidates.push(Candidate { id: Some(id), logit, probability });
    }
    candidates
}
