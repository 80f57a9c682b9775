//! How is a text generated? A run, the generator that feeds it, batches, drafts, constraints, replay and traces.

pub mod batch;
pub mod chain;
pub mod constraint;
pub mod generator;
pub mod replay;
#[allow(clippy::module_inception)]
pub mod run;
pub mod trace;
