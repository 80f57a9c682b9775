//! A decision as JSON: all six fields, absent ones as null.

use super::json::Object;
use super::state::StateError;
use super::version::CONTRACT;
use super::written::{Entries, Value, serialize_written};
use crate::core::decision::Decision;

impl Decision {
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

    /// Reads a decision of the contract of this release.
    ///
    /// # Errors
    /// A missing, unknown or mistyped field; `contract_unknown` for a decision of another contract.
    pub(super) fn from_object(object: Object) -> Result<Self, StateError> {
        object.read(|it| {
            let decision = Self {
                token_id: it.count("token_id"),
                candidate_count: it.count("candidate_count"),
                selected_probability: it.number_or_null("selected_probability"),
                random_draw: it.number_or_null("random_draw"),
                draw_index: it.integer_or_null("draw_index"),
                algorithm_version: CONTRACT,
            };
            let contract = it.string("algorithm_version");
            if contract == CONTRACT { Ok(decision) } else { Err(StateError::Contract(contract)) }
        })
    }
}

serialize_written!(Decision);
