//! Refusals of the arithmetic. Each has a stable code; codes are part of the contract, texts are not.

use std::fmt;

use super::processors::error::ProcessorError;
use super::refusal::{Refusal, RejectedNumber};

/// A setting outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// `temperature_out_of_range`: not finite, or below 0.
    Temperature(RejectedNumber),
    /// `top_k_out_of_range`: not an integer from 0 to 2^32 − 1.
    TopK(RejectedNumber),
    /// `top_p_out_of_range`: not a number from 0 to 1.
    TopP(RejectedNumber),
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Temperature(value) => write!(f, "temperature must be finite and at least 0, but is {value}"),
            Self::TopK(value) => write!(f, "top_k must be an integer from 0 to 4294967295, but is {value}"),
            Self::TopP(value) => write!(f, "top_p must be from 0 to 1, but is {value}"),
        }
    }
}

impl std::error::Error for SettingsError {}

impl Refusal for SettingsError {
    fn code(&self) -> &'static str {
        match self {
            Self::Temperature(_) => "temperature_out_of_range",
            Self::TopK(_) => "top_k_out_of_range",
            Self::TopP(_) => "top_p_out_of_range",
        }
    }

    fn value(&self) -> Option<f64> {
        let (Self::Temperature(value) | Self::TopK(value) | Self::TopP(value)) = self;
        Some(value.get())
    }
}

/// A row of logits no token can be chosen from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogitsError {
    /// `logits_empty`: there are no logits.
    Empty,
    /// `logits_too_long`: more than 2^32 − 1, so that ids would not fit.
    TooLong(u64),
    /// `logits_nan`: the first offending index.
    NotANumber(u32),
    /// `logits_positive_infinity`: the first offending index.
    PositiveInfinity(u32),
    /// `logits_all_banned`: every logit is −∞; the number of logits.
    AllBanned(u32),
    /// `logits_length_changed`: another length than the run's earlier rows.
    LengthChanged {
        /// Logits in the earlier rows.
        expected: u64,
        /// Logits in this row.
        found: u64,
    },
}

impl fmt::Display for LogitsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no logits"),
            Self::TooLong(length) => write!(f, "{length} logits are more than 4294967295"),
            Self::NotANumber(index) => write!(f, "logit {index} is NaN"),
            Self::PositiveInfinity(index) => write!(f, "logit {index} is +infinity"),
            Self::AllBanned(length) => write!(f, "all {length} logits are -infinity, so every token is banned"),
            Self::LengthChanged { expected, found } => {
                write!(f, "a row of this run has {expected} logits, but this one has {found}; is it a single row?")
            }
        }
    }
}

impl std::error::Error for LogitsError {}

impl Refusal for LogitsError {
    fn code(&self) -> &'static str {
        match self {
            Self::Empty => "logits_empty",
            Self::TooLong(_) => "logits_too_long",
            Self::NotANumber(_) => "logits_nan",
            Self::PositiveInfinity(_) => "logits_positive_infinity",
            Self::AllBanned(_) => "logits_all_banned",
            Self::LengthChanged { .. } => "logits_length_changed",
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::LengthChanged { found, .. } => Some(*found as f64),
            _ => None,
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::NotANumber(index) | Self::PositiveInfinity(index) => Some(u64::from(*index)),
            _ => None,
        }
    }
}

/// Why no token was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SampleError {
    /// A setting is out of range.
    Settings(SettingsError),
    /// The logits are refused.
    Logits(LogitsError),
    /// A processor refused the row.
    Processor(ProcessorError),
    /// `uniform_out_of_range`: u is not a number with 0 ≤ u < 1.
    Uniform(RejectedNumber),
    /// `frame_insufficient`: these settings need logits of a [`SparseRow`](super::sparse::SparseRow) that are not known.
    Insufficient {
        /// The largest top-k the row suffices for.
        certain: u32,
        /// The top-k that is needed, 1 when greedy; 0: all logits are needed.
        top_k: u32,
    },
}

impl From<SettingsError> for SampleError {
    fn from(error: SettingsError) -> Self {
        Self::Settings(error)
    }
}

impl From<ProcessorError> for SampleError {
    fn from(error: ProcessorError) -> Self {
        Self::Processor(error)
    }
}

impl From<LogitsError> for SampleError {
    fn from(error: LogitsError) -> Self {
        Self::Logits(error)
    }
}

impl fmt::Display for SampleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::Logits(error) => error.fmt(f),
            Self::Processor(error) => error.fmt(f),
            Self::Uniform(value) => write!(f, "u must be at least 0 and below 1, but is {value}"),
            Self::Insufficient { certain, top_k: 0 } => {
                write!(f, "only the {certain} best logits of the row are certain, but this needs all of them")
            }
            Self::Insufficient { certain, top_k } => {
                write!(f, "only the {certain} best logits of the row are certain, but the {top_k} best are needed")
            }
        }
    }
}

impl std::error::Error for SampleError {}

impl Refusal for SampleError {
    fn code(&self) -> &'static str {
        match self {
            Self::Settings(error) => error.code(),
            Self::Logits(error) => error.code(),
            Self::Processor(error) => error.code(),
            Self::Uniform(_) => "uniform_out_of_range",
            Self::Insufficient { .. } => "frame_insufficient",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Logits(error) => error.index(),
            Self::Processor(error) => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Settings(error) => error.value(),
            Self::Uniform(value) => Some(value.get()),
            Self::Processor(error) => error.value(),
            Self::Logits(error) => error.value(),
            Self::Insufficient { top_k, .. } => Some(f64::from(*top_k)),
        }
    }
}

/// Probabilities that are not a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DistributionError {
    /// `distribution_empty`: there are none.
    Empty,
    /// `distribution_lengths_differ`: ids and probabilities, or p and q, have different lengths.
    Lengths {
        /// Length of the ids, or of p.
        first: u64,
        /// Length of the probabilities, or of q.
        second: u64,
    },
    /// `distribution_ids`: the first index whose id is not above the one before.
    Ids(u64),
    /// `distribution_vocabulary`: an id outside the vocabulary.
    Vocabulary {
        /// The id.
        id: u32,
        /// The size of the vocabulary.
        vocabulary: u64,
    },
    /// `distribution_probability`: a probability that is not finite or is below 0.
    Probability {
        /// The first such index.
        index: u64,
        /// The probability there.
        value: RejectedNumber,
    },
    /// `distribution_sum`: the sum is not 1 within 10^-6.
    Sum(RejectedNumber),
}

impl fmt::Display for DistributionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no probabilities"),
            Self::Lengths { first, second } => write!(f, "the lengths {first} and {second} differ"),
            Self::Ids(index) => write!(f, "ids must ascend, but the one at index {index} is not above the one before"),
            Self::Vocabulary { id, vocabulary } => write!(f, "id {id} is outside the vocabulary of {vocabulary}"),
            Self::Probability { index, value } => {
                write!(f, "probability {index} must be finite and at least 0, but is {value}")
            }
            Self::Sum(sum) => write!(f, "the probabilities must sum to 1 within 1e-6, but sum to {sum}"),
        }
    }
}

impl std::error::Error for DistributionError {}

impl Refusal for DistributionError {
    fn code(&self) -> &'static str {
        match self {
            Self::Empty => "distribution_empty",
            Self::Lengths { .. } => "distribution_lengths_differ",
            Self::Ids(_) => "distribution_ids",
            Self::Vocabulary { .. } => "distribution_vocabulary",
            Self::Probability { .. } => "distribution_probability",
            Self::Sum(_) => "distribution_sum",
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Ids(index) | Self::Probability { index, .. } => Some(*index),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Probability { value, .. } | Self::Sum(value) => Some(value.get()),
            Self::Vocabulary { id, .. } => Some(f64::from(*id)),
            _ => None,
        }
    }
}
