//! The limits, and the refusals beyond them.
//!
//! Nothing is deleted to make room: when a limit is reached, the next request is refused. Room for the last step of an
//! accepted run is reserved.

use quillmate_sampler::{Frame, GeneratorState};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::{ApiError, Code};

/// The limits of one server; each is a flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema, clap::Args)]
#[schemars(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a request's body.
    #[arg(long = "max-body-bytes", value_name = "N", default_value_t = 1 << 20)]
    pub body_bytes: usize,
    /// Tokens of a prompt.
    #[arg(long = "max-prompt-tokens", value_name = "N", default_value_t = 2048)]
    pub prompt_tokens: usize,
    /// Tokens one run may emit.
    #[arg(long = "max-run-tokens", value_name = "N", default_value_t = 512)]
    pub run_tokens: u32,
    /// Bytes of a constraint, at most 65536: a longer one could outgrow the stack it is read on.
    #[arg(long = "max-constraint-bytes", value_name = "N", default_value_t = 1 << 16,
          value_parser = clap::value_parser!(u32).range(..=1 << 16))]
    pub constraint_bytes: u32,
    /// Runs being written at once.
    #[arg(long = "max-runs", value_name = "N", default_value_t = 8)]
    pub runs: u32,
    /// Streams being watched at once.
    #[arg(long = "max-streams", value_name = "N", default_value_t = 64)]
    pub streams: usize,
    /// Bytes of frames on disk. Running runs count with the most they can need.
    #[arg(long = "max-frame-bytes", value_name = "N", default_value_t = 2 << 30)]
    pub frame_bytes: u64,
}

impl Limits {
    /// Refuses a prompt that is empty or too long.
    pub fn check_prompt(&self, tokens: usize) -> Result<(), ApiError> {
        if tokens == 0 {
            return Err(ApiError::new(
                Code::PromptEmpty,
                "the prompt has no tokens; the model needs a beginning to go on from",
            ));
        }
        over(Code::PromptTooLong, "tokens of prompt", tokens as u64, self.prompt_tokens as u64)
    }

    /// Refuses a prompt of more bytes than so many tokens can have, before anybody looks for its tokens. `longest` is the
    /// most bytes of a token.
    pub fn check_prompt_bytes(&self, bytes: usize, longest: usize) -> Result<(), ApiError> {
        let least = bytes.div_ceil(longest.max(1));
        over(Code::PromptTooLong, "tokens of prompt, at the least,", least as u64, self.prompt_tokens as u64)
    }

    /// Refuses a length that is 0 or too large.
    pub fn check_length(&self, length: u64) -> Result<u32, ApiError> {
        match u32::try_from(length) {
            Ok(short) if (1..=self.run_tokens).contains(&short) => Ok(short),
            _ => Err(ApiError::new(
                Code::LengthOutOfRange,
                format!("length must be from 1 to {}, but is {length}", self.run_tokens),
            )
            .with(|it| (it.value, it.limit) = (Some(length.into()), Some(self.run_tokens.into())))),
        }
    }

    /// Refuses a constraint of too many bytes.
    pub fn check_constraint(&self, bytes: usize) -> Result<(), ApiError> {
        over(Code::ConstraintTooLong, "bytes of constraint", bytes as u64, self.constraint_bytes.into())
    }

    /// Too many runs at once.
    pub fn too_many_runs(&self) -> ApiError {
        ApiError::new(
            Code::TooManyRuns,
            format!("{} runs are being written already; wait for one or stop one", self.runs),
        )
        .with(|it| it.limit = Some(self.runs.into()))
    }

    /// No room for another run's frames.
    pub fn store_full(&self, used: u64, needed: u64) -> ApiError {
        ApiError::new(
            Code::StoreFull,
            format!(
                "frames take {used} bytes of {}, and this run may need {needed}; delete runs that are no longer wanted",
                self.frame_bytes
            ),
        )
        .with(|it| (it.used, it.needed, it.limit) = (Some(used), Some(needed), Some(self.frame_bytes)))
    }
}

/// No room on the disk for a run.
pub fn disk_full(free: u64, needed: u64) -> ApiError {
    ApiError::new(
        Code::DiskFull,
        format!(
            "the disk of the data folder has room for {free} bytes of frames, and this run may need {needed}; make room \
             on it, or delete runs that are no longer wanted"
        ),
    )
    .with(|it| (it.free, it.needed) = (Some(free), Some(needed)))
}

/// Refuses a count above its limit.
pub fn over(code: Code, what: &str, value: u64, limit: u64) -> Result<(), ApiError> {
    if value <= limit {
        return Ok(());
    }
    Err(ApiError::new(code, format!("{value} {what} are more than the limit of {limit}"))
        .with(|it| (it.value, it.limit) = (Some(value.into()), Some(limit))))
}

/// The most bytes that `length` frames of a run can take, at this vocabulary.
pub fn frame_bytes_bound(run: &GeneratorState, length: u32, vocab: u32) -> u64 {
    Frame::max_bytes_for_run(vocab, &run.settings, &run.processors).saturating_mul(u64::from(length))
}
