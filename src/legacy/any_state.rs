//! Loads a stored state of either contract.

use super::sampler::ALGORITHM_VERSION;
use super::state::{LoadError, MosaicState};
use crate::wire::json::Object;
use crate::wire::state::GeneratorState;
use crate::wire::version::CONTRACT;
use crate::wire::written::{Value, serialize_written};

/// A state of any contract this release supports, selected by its field `contract`; an unknown one is refused.
///
/// ```
/// use quillmate_sampler::AnyState;
/// let stored = r#"{"contract": "mosaic-splitmix64-top-k-top-p-v1", "format": 1, "seed": "42", "draws": 0, "prompt": [],
///     "tokens": [], "strategy": {"kind": "sample", "temperature": 0.8, "top_k": 3, "top_p": 0.9}}"#;
/// let AnyState::Mosaic(mut run) = AnyState::from_json(stored)? else { panic!("another contract") };
/// for _ in 0..8 {
///     run.step_with(&[0.0, 1.0, 2.0, 3.0])?;
/// }
/// assert_eq!(run.tokens, [3, 3, 3, 3, 3, 2, 3, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnyState {
    /// `quillmate-v1`.
    Quillmate(GeneratorState),
    /// `mosaic-splitmix64-top-k-top-p-v1`.
    Mosaic(MosaicState),
}

impl AnyState {
    /// Reads a state from JSON text.
    ///
    /// # Errors
    /// `contract_unknown`, and every refusal of the contract the state names.
    pub fn from_json(text: &str) -> Result<Self, LoadError> {
        Self::from_object(Object::parse(text)?)
    }

    /// Reads a state from a JSON object.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn from_object(object: Object) -> Result<Self, LoadError> {
        // Any other name, or none, is left to the reader of the current contract.
        if object.text("contract") == Some(ALGORITHM_VERSION) {
            return MosaicState::from_object(object).map(Self::Mosaic);
        }
        Ok(Self::Quillmate(GeneratorState::from_object(object)?))
    }

    /// The name of the contract.
    #[must_use]
    pub fn contract(&self) -> &'static str {
        match self {
            Self::Quillmate(_) => CONTRACT,
            Self::Mosaic(_) => ALGORITHM_VERSION,
        }
    }

    pub(crate) fn written(&self) -> Value<'_> {
        match self {
            Self::Quillmate(state) => state.written(),
            Self::Mosaic(state) => state.written(),
        }
    }

    /// The state as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Quillmate(state) => state.to_json(),
            Self::Mosaic(state) => state.to_json(),
        }
    }
}

serialize_written!(AnyState);
