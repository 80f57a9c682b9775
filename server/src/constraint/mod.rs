//! Constraints on what a run may write: asked for by JSON Schema, grammar or regex, stored with the run, and compiled again
//! whenever the run is resumed.
//!
//! What is allowed at a step is a function of the constraint and the tokens emitted before it, so a run stores only
//! the constraint's source and the release that reads it ([`ENGINE`]). The frames hold
//! the rows with the bans in them; whoever replays or verifies needs neither.

mod grammar;
mod guidance;
mod prepare;
mod reader;
mod source;
mod stored;

pub use prepare::{Constraints, Ready, prepare};
pub use reader::{Compiled, ENGINE, STACK, Unusable};
pub use source::{Source, TakeError};
pub use stored::{Shown, StoredConstraint};
