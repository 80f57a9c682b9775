//! The decision and the trace of a run's next token. Both are functions of the run's state and a row of logits. They emit
//! nothing and are computed only on request.

use super::run::Run;
use crate::core::decision::Decision;
use crate::core::distribution::{self, Distribution, distribution_in_stages};
use crate::core::error::SampleError;
use crate::core::logits::{Logit, Row};
use crate::core::processors::Processor;
use crate::core::sparse::SparseRow;
use crate::core::splitmix::{streams, uniform};
use crate::wire::trace::{Stage, Trace, Unit, digest};
use crate::wire::version::CONTRACT;

impl Run {
    /// The decision these logits lead to at this step; emits nothing. For greedy settings the probability, the uniform number
    /// and its index are absent, and the count is that of the allowed tokens.
    ///
    /// # Errors
    /// As [`Run::decide`].
    pub fn decision<L: Logit>(&self, logits: &[L]) -> Result<Decision, SampleError> {
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
    pub fn decision_sparse<L: Logit>(&self, row: &SparseRow<L>) -> Result<Decision, SampleError> {
        if let Some(logits) = row.whole() {
            return self.decision(logits);
        }
        self.check_sparse(row)?;
        if self.settings().is_greedy() {
            return Err(insufficient(row));
        }
        let decision = self.decision_of(row.logits(), &mut |_, _| ())?;
        self.check_length(row.vocabulary().into())?;
        Ok(Decision { token_id: row.id(decision.token_id), ..decision })
    }

    /// The trace of the decision a row leads to. It counts and ranks all allowed tokens, so it needs every logit.
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
        self.processors().apply(&mut row, &self.place(), &mut |processor, row| {
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
            logits_sha256: Some(digest(&mut logits.iter().map(|logit| logit.widen() + 0.0))),
            stages,
            draw: decision.random_draw,
            token: Some(decision.token_id),
            probability: decision.selected_probability,
        })
    }

    fn decision_of<L: Logit>(
        &self,
        row: &[L],
        seen: &mut dyn FnMut(distribution::Stage, &Distribution),
    ) -> Result<Decision, SampleError> {
        let allowed = Row::new(row)?.allowed();
        let kept = distribution_in_stages(row, self.settings(), seen)?;
        let greedy = self.settings().is_greedy();
        let u = self.uniform();
        let token_id = kept.walk(u);
        let chosen = kept.ids().iter().position(|&id| id == token_id).map(|at| kept.probabilities()[at]);
        Ok(Decision {
            token_id,
            candidate_count: if greedy { allowed } else { kept.ids().len() as u32 },
            selected_probability: chosen.filter(|_| !greedy),
            random_draw: (!greedy).then_some(u),
            draw_index: (!greedy).then(|| self.position()),
            algorithm_version: CONTRACT,
        })
    }
}

/// The error of a row whose logits are not all known, where all are needed.
fn insufficient<L: Logit>(row: &SparseRow<L>) -> SampleError {
    SampleError::Insufficient { certain: row.max_top_k().unwrap_or(0), top_k: 0 }
}

fn stage_of_logits(stage: &'static str, row: &[f64], before: u64, draw: Option<f64>) -> Stage {
    let logits = (0..).zip(row).filter(|(_, logit)| **logit != f64::NEG_INFINITY).map(|(id, logit)| (id, logit + 0.0));
    Stage::new(stage, before, Unit::Logit, &mut { logits }, draw)
}

fn stage_of_distribution(stage: distribution::Stage, left: &Distribution, before: u64) -> Stage {
    let (name, unit) = match stage {
        distribution::Stage::Greedy => ("greedy", Unit::Probability),
        distribution::Stage::TopK => ("top_k", Unit::Logit),
        distribution::Stage::Temperature => ("temperature", Unit::Probability),
        distribution::Stage::TopP => ("top_p", Unit::Probability),
    };
    let mut numbers = left.ids().iter().copied().zip(left.probabilities().iter().copied());
    Stage::new(name, before, unit, &mut numbers, None)
}
