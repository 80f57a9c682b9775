//! Constraints on what a run may write: asked for by JSON Schema, grammar or regex, kept with the run, and made anew from
//! what is kept whenever the run is taken up.
//!
//! What is allowed at a step is a function of the constraint and the tokens emitted before it, so a run stores no more
//! than which constraint it is under: its source, and by which release of what it is read ([`ENGINE`]). The frames hold
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
