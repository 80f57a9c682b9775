//! What a check of a run needs: the record that is trusted, and the claim that is not.

use super::json::{FieldError, Object};
use super::state::{GeneratorState, StateError};
use crate::core::text::{Quoted, beginning};

/// The JSON Schema (draft 2020-12) of a claim.
pub const CLAIM_SCHEMA: &str = include_str!("claim.schema.json");

/// A stored run: where it started and the frame of each step from there.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The state before the first frame's token.
    pub start: GeneratorState,
    /// Encoded frames; number i is for step `start.step() + i`.
    pub frames: Vec<Vec<u8>>,
}

/// What a client says it sampled.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Tokens emitted after the record's start.
    pub tokens: Vec<u32>,
    /// The state after the last of them.
    pub state: GeneratorState,
    /// CRC-32 of the frame each token was sampled from, where the client says so.
    pub frame_checksums: Option<Vec<u32>>,
}

impl Claim {
    /// Reads a claim: `tokens`, `state`, and where wanted `frame_checksums` as 8 hex digits each.
    ///
    /// # Errors
    /// A wrong field, or every refusal of [`StateError`].
    pub fn from_object(object: Object) -> Result<Self, StateError> {
        object.read(|it| {
            let tokens = it.tokens("tokens");
            let state = GeneratorState::from_object(it.object("state"))?;
            let given = it.has("frame_checksums");
            let frame_checksums = if given { Some(checksums(&it.strings("frame_checksums"))?) } else { None };
            Ok(Self { tokens, state, frame_checksums })
        })
    }

    /// Reads a claim from JSON text.
    ///
    /// # Errors
    /// As [`from_object`](Self::from_object).
    pub fn from_json(text: &str) -> Result<Self, StateError> {
        Self::from_object(Object::parse(text)?)
    }
}

fn checksums(texts: &[String]) -> Result<Vec<u32>, FieldError> {
    let mut checksums = Vec::with_capacity(texts.len());
    for (at, text) in texts.iter().enumerate() {
        match u32::from_str_radix(text, 16) {
            Ok(checksum) if text.len() == 8 && !text.starts_with('+') => checksums.push(checksum),
            _ => {
                return Err(FieldError::Type {
                    path: format!("frame_checksums[{at}]"),
                    expected: "8 hex digits",
                    found: Quoted(&beginning(text, 20)).to_string(),
                });
            }
        }
    }
    Ok(checksums)
}
