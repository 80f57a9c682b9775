#![doc = include_str!("../CONTRACT.md")]

pub mod contract;
pub mod core;
#[cfg(target_arch = "wasm32")]
pub mod wasm;

pub use contract::any_state::AnyState;
pub use contract::batch::{StepBatchError, step_batch};
pub use contract::divergence::{self, Comparison};
pub use contract::frame::{Dtype, Frame, FrameError, Layout};
pub use contract::generator::{Generator, Model, Run, StepError};
pub use contract::identity::{BUILD_FEATURES, CRATE_VERSION, Environment, Identity, ModelIdentity, TARGET};
pub use contract::json;
pub use contract::mosaic::MosaicState;
pub use contract::record::{Claim, Record};
pub use contract::record_divergence::first_divergence;
pub use contract::record_file::{Decided, RECORD_SCHEMA, RecordError, RecordFile, Stop};
pub use contract::speculation::{Chain, ChainError, Draft};
pub use contract::state::{GeneratorState, RunSettings, STATE_SCHEMA, StateError};
pub use contract::trace::{Candidate, Stage, Trace};
pub use contract::trace_divergence::{first_divergence_of_traces, read_traces};
pub use contract::verify::{Divergence, Verdict, Why, verify};
pub use core::constraint;
pub use core::derive::{LabelError, MAX_LABEL, derive_seed};
pub use core::distribution::{Distribution, distribution};
pub use core::error::{DistributionError, LogitsError, Refusal, SampleError, SettingsError};
pub use core::exp::exp;
pub use core::ln::ln;
pub use core::logits::Logit;
pub use core::mosaic;
pub use core::processors::{
    Dry, Filter, Penalty, Position, Problem, Processor, ProcessorError, Processors, Window, Xtc,
};
pub use core::sample::{BatchError, RowError, sample, sample_batch, sample_token};
pub use core::settings::{Settings, Temperature, TopK, TopP};
pub use core::sparse::{SparseRow, SparseRowError};
pub use core::speculative::{Side, Speculation, SpeculativeError, speculative_step};
pub use core::splitmix::{draw, streams, uniform};

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
