//! What can go wrong with a model.

/// Why a model could not be loaded, or could not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The file could not be read.
    #[error("cannot read the model file {path}: {source}")]
    Read {
        /// The file as it was given.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not the one that was asked for.
    #[error(
        "the model file {path} has sha256 {found}, expected {expected}; give --model-sha256 {found} to use it all the same"
    )]
    Digest {
        /// The file as it was given.
        path: String,
        /// The digest asked for.
        expected: String,
        /// The digest it has.
        found: String,
    },
    /// The file is not a model this server can run.
    #[error("not a model this server can run: {0}")]
    Unsupported(String),
    /// A tensor of the file is not what is needed.
    #[error("not a model this server can run: tensor {name} {reason}")]
    Tensor {
        /// The tensor.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A text the vocabulary has no tokens for.
    #[error("the model has no token for {0:?}")]
    NotEncodable(char),
    /// The arithmetic of a step failed.
    #[error("the model failed: {0}")]
    Inference(String),
}

impl ModelError {
    /// A stable name for the error.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Read { .. } => "model_unreadable",
            Self::Digest { .. } => "model_digest",
            Self::Unsupported(_) | Self::Tensor { .. } => "model_unsupported",
            Self::NotEncodable(_) => "text_not_encodable",
            Self::Inference(_) => "model_error",
        }
    }
}
