//! The parameters of the processors that depend on the length of a run.

use super::parameters::{List, Visitor};

/// A number of tokens, and the tokens that end a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Length {
    /// For `min_length`, the number of tokens a run emits before it may end. For `forced_end`, the number of the token, from 1, at
    /// which only end tokens are allowed: the length of the run with its end token.
    pub length: u32,
    /// The tokens that end it.
    pub end_tokens: Vec<u32>,
}

impl Length {
    pub(super) fn parameters(&mut self, least: u32, visitor: &mut dyn Visitor) {
        visitor.count("length", &mut self.length, least, None);
        visitor.tokens("end_tokens", &mut self.end_tokens, List::Set);
    }
}
