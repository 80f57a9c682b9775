//! Refusals of processors.

use std::fmt;

use crate::core::refusal::{Refusal, RejectedNumber};

/// What is wrong with a processor or its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// `processor_parameter`: a number out of its range.
    Parameter {
        /// Which.
        parameter: &'static str,
        /// The number.
        value: RejectedNumber,
    },
    /// `processor_empty`: a list that must hold something, or one of its sequences.
    Empty {
        /// Which.
        parameter: &'static str,
    },
    /// `processor_token_repeated`: an id with two biases.
    TokenRepeated(u32),
    /// `processor_repeated`: the name is already in the list.
    Repeated,
    /// `processor_token`: a parameter names an id outside the vocabulary.
    Token {
        /// The id.
        id: u32,
        /// V.
        vocabulary: u64,
    },
    /// `processor_overflow`: a logit that was finite no longer is; the id, where it was one token's.
    Overflow(Option<u32>),
    /// `processor_all_banned`: no token is left.
    AllBanned,
}

/// A refusal, with the processor it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessorError {
    /// Its place in the list, from 0.
    pub at: u32,
    /// Its name.
    pub name: &'static str,
    /// What was wrong.
    pub problem: Problem,
}

impl fmt::Display for ProcessorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "processor {}, {}: ", self.at, self.name)?;
        match &self.problem {
            Problem::Parameter { parameter, value } => write!(f, "{parameter} is out of range: {value}"),
            Problem::Empty { parameter } => write!(f, "{parameter} must not be empty, nor hold anything empty"),
            Problem::TokenRepeated(id) => write!(f, "token {id} is given twice"),
            Problem::Repeated => write!(f, "it is in the list already"),
            Problem::Token { id, vocabulary } => write!(f, "token {id} is outside the vocabulary of {vocabulary}"),
            Problem::Overflow(Some(id)) => write!(f, "the logit of token {id} is no longer finite"),
            Problem::Overflow(None) => write!(f, "the logits are too large for it"),
            Problem::AllBanned => write!(f, "no token is left"),
        }
    }
}

impl std::error::Error for ProcessorError {}

impl Refusal for ProcessorError {
    fn code(&self) -> &'static str {
        match self.problem {
            Problem::Parameter { .. } => "processor_parameter",
            Problem::Empty { .. } => "processor_empty",
            Problem::TokenRepeated(_) => "processor_token_repeated",
            Problem::Repeated => "processor_repeated",
            Problem::Token { .. } => "processor_token",
            Problem::Overflow(_) => "processor_overflow",
            Problem::AllBanned => "processor_all_banned",
        }
    }

    /// The processor's place in the list.
    fn index(&self) -> Option<u64> {
        Some(self.at.into())
    }

    /// The parameter's value, or the token's id.
    fn value(&self) -> Option<f64> {
        match self.problem {
            Problem::Parameter { value, .. } => Some(value.get()),
            Problem::Token { id, .. } | Problem::TokenRepeated(id) | Problem::Overflow(Some(id)) => Some(id.into()),
            _ => None,
        }
    }
}
