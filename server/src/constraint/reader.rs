//! The interface of a reader of constraints: its name, the stack it needs, and what it gives.

use quillmate_sampler::Refusal as _;
use quillmate_sampler::constraint::{Constraint, ConstraintError};

/// What reads constraints here, by name and version. Another release may allow other tokens for the same source, so a run
/// goes on under its own only.
pub const ENGINE: &str = "llguidance-1.9.1";

/// The stack of a thread that reads constraints. Reading recurses along chains of rules, of which a source within its
/// limit (`--max-constraint-bytes`) can hold thousands; an overflow would end the server. Pages never touched cost
/// nothing.
pub const STACK: usize = 256 << 20;

/// A constraint that has been read, for any number of runs.
pub trait Compiled: Send + Sync {
    /// The constraint for one more run. It shares nothing that changes with the others.
    fn begin(&self) -> Box<dyn Constraint + Send>;
}

/// Why there is no constraint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// The run was begun under another release.
    #[error("the run is under a constraint of {kept}, this server has {ENGINE}")]
    Mismatch {
        /// What it was begun under.
        kept: String,
    },
    /// It is no schema, grammar or regex, or says nothing that can be written.
    #[error("{0}")]
    Invalid(String),
    /// It can be read, and cannot be followed.
    #[error(transparent)]
    Constraint(#[from] ConstraintError),
}

impl Unusable {
    /// A stable name for the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Mismatch { .. } => "constraint_mismatch",
            Self::Invalid(_) => "constraint_invalid",
            Self::Constraint(error) => error.code(),
        }
    }
}
