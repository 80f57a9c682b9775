//! Sampling for language models that can be repeated: equal logits, settings and seed give the same tokens, bit for bit,
//! natively and in WebAssembly.
//!
//! Call [`sample_token`] to choose one token from one row of logits. Give it a number from [`uniform`], which is looked up by
//! seed and step:
//!
//! ```
//! use quillmate_sampler::{sample_token, uniform};
//!
//! let logits = [0.1f32, 2.5, 1.0, 2.5];
//! let (temperature, top_k, top_p) = (0.8, 3, 0.95);
//! let token = sample_token(&logits, temperature, top_k, top_p, uniform(42, 0, 0))?;
//! assert_eq!(token, 3);
//! # Ok::<(), quillmate_sampler::SampleError>(())
//! ```
//!
//! For a text use a [`Run`], which keeps prompt, tokens, seed and [`Settings`]. [`Run::step_with`] takes the next row of logits;
//! [`Run::state`] and [`Run::from_state`] store and resume it. A [`Generator`] is a run with a [`Model`] that it asks for each
//! row. Then, as needed:
//!
//! * [`Processors`] change the logits of a run before a token is chosen: penalties, filters, bans.
//! * [`Trace`] says why a token was chosen, stage by stage.
//! * [`step_batch`] steps many runs with one call of the model, [`Run::step_with_drafts`] checks drafted tokens.
//! * [`Frame`] holds one row of logits, compact and without loss, to be sent or stored.
//! * [`verify()`] recomputes a claimed run from its frames, [`first_divergence`] says where two records part.
//! * [`AnyState`] loads a stored state of this contract or of the older one.
//!
//! Every function refuses bad input with an error that has a stable code, and a refused call changes nothing.
//!
//! What follows is the contract itself.
//!
#![doc = include_str!("../CONTRACT.md")]

pub mod compare;
pub mod core;
#[cfg(all(test, not(target_arch = "wasm32")))]
mod forms;
pub mod legacy;
pub mod run;
#[cfg(all(target_arch = "wasm32", feature = "bindings"))]
pub mod wasm;
pub mod wire;

pub use compare::comparison::{self, Comparison};
pub use compare::records::first_divergence;
pub use compare::traces::{first_divergence_of_traces, read_traces};
pub use compare::verify::{Divergence, Verdict, Why, verify};
pub use core::decision::Decision;
pub use core::derive::{LabelError, MAX_LABEL, derive_seed};
pub use core::distribution::{Distribution, distribution};
pub use core::error::{DistributionError, LogitsError, SampleError, SettingsError};
pub use core::exp::exp;
pub use core::ln::ln;
pub use core::logits::Logit;
pub use core::processors::{
    Dry, Filter, Length, Ngram, Penalty, Position, Problem, Processor, ProcessorError, Processors, Window, Xtc,
};
pub use core::refusal::{Refusal, RejectedNumber};
pub use core::sample::{BatchError, RowError, sample, sample_batch, sample_token};
pub use core::settings::{Settings, Temperature, TopK, TopP};
pub use core::sparse::{SparseRow, SparseRowError};
pub use core::speculative::{Role, Speculation, SpeculativeError, speculative_step};
pub use core::splitmix::{draw, streams, uniform};
pub use legacy::any_state::AnyState;
pub use legacy::sampler as mosaic;
pub use legacy::state::{LoadError, MosaicState};
pub use run::batch::{StepBatchError, step_batch};
pub use run::chain::{Chain, ChainError, Draft};
pub use run::constraint;
pub use run::generator::{Generator, Model, StepError};
pub use run::run::Run;
pub use wire::claim::{Claim, Record};
pub use wire::frame::{Dtype, Frame, FrameError, Layout};
pub use wire::identity::{BUILD_FEATURES, CRATE_VERSION, Environment, Identity, ModelIdentity, TARGET};
pub use wire::json;
pub use wire::processors::ReadProcessorsError;
pub use wire::record::{RECORD_SCHEMA, RecordError, RecordFile, Stop};
pub use wire::state::{GeneratorState, RunSettings, STATE_SCHEMA, StateError};
pub use wire::trace::{Candidate, Stage, Trace};

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
