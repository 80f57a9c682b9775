//! The parameters of the processors that look at how long a run is.

use super::parameters::{List, Visitor};

/// A number of tokens, and the tokens that end a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Length {
    /// For `min_length`, the tokens a run emits before it may end. For `forced_end`, the number of the token from which on only
    /// tokens that end the run are allowed, counted from 1: how long the run is with its end token.
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
