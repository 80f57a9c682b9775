//! Why an evaluation cannot be made.

use std::path::PathBuf;

use quillmate_sampler::StateError;
use quillmate_server::model::ModelError;

use crate::plan::Arm;

/// Why an evaluation cannot be made. What has been written stays as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluateError {
    /// Settings were refused.
    #[error("the settings {0:?}: {1}")]
    Setting(Arm, StateError),
    /// A seed was refused.
    #[error(transparent)]
    Seed(#[from] StateError),
    /// A seed is there twice.
    #[error("seed {0} is given twice; texts of the same seed are the same text")]
    SeedTwice(u64),
    /// The file of prompts makes no sense.
    #[error("the prompts: {0}")]
    Prompts(String),
    /// A prompt cannot be used with this model.
    #[error("the prompt {0}: {1}")]
    Prompt(String, String),
    /// The JSON Schema makes no sense.
    #[error("the schema: {0}")]
    Schema(String),
    /// The model cannot be loaded, or failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A file cannot be read or written.
    #[error("{path}: {1}", path = .0.display())]
    File(PathBuf, std::io::Error),
    /// Another process is at it.
    #[error("{path}: another evaluation is writing there", path = .0.display())]
    Busy(PathBuf),
    /// The results belong to another evaluation.
    #[error("{path} holds another evaluation; take another folder for this one:\n  {lines}", path = .0.display(), lines = .1.join("\n  "))]
    Other(PathBuf, Vec<String>),
    /// The results are not what this program wrote.
    #[error("{path}, line {1}: {2}", path = .0.display())]
    Damaged(PathBuf, usize, String),
    /// The page's plots.
    #[error("a plot: {0}")]
    Plot(String),
    /// No more threads.
    #[error("cannot set the number of threads: {0}")]
    Threads(String),
    /// No way to notice Ctrl-C.
    #[error("cannot wait for signals: {0}")]
    Signals(#[from] ctrlc::Error),
    /// Somebody asked it to stop.
    #[error("stopped after {done} of {all} texts; all of them are kept, and the same command goes on from there")]
    Stopped {
        /// Texts that are kept.
        done: usize,
        /// Texts there will be.
        all: usize,
    },
}
