#![doc = include_str!("../CONTRACT.md")]

pub mod compare;
pub mod core;
pub mod legacy;
pub mod run;
#[cfg(target_arch = "wasm32")]
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
pub use core::speculative::{Side, Speculation, SpeculativeError, speculative_step};
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
