//! The parameters of the processors that keep the likely tokens.

use super::parameters::{Range, Visitor};

/// Keeps the likely tokens by a threshold or a mass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// The threshold or the mass; its range depends on the filter.
    pub value: f64,
    /// How many tokens are kept at least, from 1.
    pub min_keep: u32,
}

impl Default for Filter {
    fn default() -> Self {
        Self { value: 0.0, min_keep: 1 }
    }
}

impl Filter {
    pub(super) fn parameters(&mut self, name: &'static str, range: Range, visitor: &mut dyn Visitor) {
        visitor.number(name, &mut self.value, range);
        visitor.count("min_keep", &mut self.min_keep, 1, Some(1));
    }
}
