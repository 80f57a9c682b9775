//! The trace of a decision of the older contract.

use super::sampler::{
    ALGORITHM_VERSION, MosaicError, SamplingStage, SelectionStrategy, candidates_in_stages, drawn, select,
};
use super::state::MosaicState;
use crate::core::logits::Logit;
use crate::wire::trace::{Stage, Trace, Unit, digest};

impl MosaicState {
    /// The trace of the decision these logits lead to at this step under the older contract; emits nothing.
    ///
    /// # Errors
    /// As [`step_with`](Self::step_with).
    pub fn trace<L: Logit>(&self, logits: &[L]) -> Result<Trace, MosaicError> {
        let mut stages = Vec::new();
        let mut left = |stage: &'static str, ids: &[u32], numbers: &[f64], unit: Unit| {
            let before = stages.last().map_or(ids.len() as u64, |stage: &Stage| stage.candidates);
            // JSON has no −0 in JavaScript: the sum turns it into 0.
            let mut numbers = ids.iter().copied().zip(numbers.iter().map(|number| number + 0.0));
            stages.push(Stage::new(stage, before, unit, &mut numbers, None));
        };
        let mut row = Vec::with_capacity(logits.len());
        for logit in logits {
            row.push(logit.widen());
        }
        let ids: Vec<u32> = (0..).take(row.len()).collect();
        left("logits", &ids, &row, Unit::Logit);
        let decision = match &self.strategy {
            SelectionStrategy::Greedy => {
                let decision = select(&row, &self.strategy, self.seed, self.draws)?;
                left("greedy", &[decision.token_id], &[1.0], Unit::Probability);
                decision
            }
            SelectionStrategy::Sample(config) => {
                let kept = candidates_in_stages(&row, config, &mut |stage, ids, numbers| match stage {
                    SamplingStage::Scaled => left("scaled_logits", ids, numbers, Unit::Logit),
                    SamplingStage::TopK => left("top_k", ids, numbers, Unit::Logit),
                    SamplingStage::Softmax => left("softmax", ids, numbers, Unit::Probability),
                    SamplingStage::TopP => left("top_p", ids, numbers, Unit::Probability),
                })?;
                drawn(&kept, self.seed, self.draws)
            }
        };
        Ok(Trace {
            contract: ALGORITHM_VERSION,
            step: self.tokens.len() as u64,
            logits_sha256: Some(if self.strategy == SelectionStrategy::Greedy {
                digest(&mut row.iter().copied())
            } else {
                digest(&mut row.iter().map(|logit| logit + 0.0))
            }),
            stages,
            draw: decision.random_draw,
            token: Some(decision.token_id),
            probability: decision.selected_probability,
        })
    }
}
