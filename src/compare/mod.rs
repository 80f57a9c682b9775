//! Do two runs agree, and where not? The check of a claim, and the first difference of two records or two lists of traces.

pub mod comparison;
mod order;
pub(crate) mod prose;
pub mod records;
pub(crate) mod sets;
pub mod traces;
pub mod verify;
