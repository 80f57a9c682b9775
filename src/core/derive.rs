//! Seeds derived from a root seed, a label and an attempt number.
//!
//! HKDF-SHA256 (RFC 5869) over the bytes CONTRACT.md lists, so that no two (root, label, attempt) share an input. Which
//! root may be public and which must be secret is said there too; none of this is for passwords or tokens.

use std::fmt;

use hkdf::Hkdf;
use sha2::Sha256;

use super::refusal::Refusal;

/// The salt, which separates these seeds from other uses of HKDF.
const SALT: &[u8] = b"quillmate derive_seed v1";

/// The longest label, in bytes of UTF-8.
pub const MAX_LABEL: usize = 255;

/// Why a label was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LabelError {
    /// `label_empty`.
    Empty,
    /// `label_too_long`: more than [`MAX_LABEL`] bytes; how many.
    TooLong(u64),
}

impl fmt::Display for LabelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "a label has at least 1 byte"),
            Self::TooLong(bytes) => {
                write!(f, "a label has at most {MAX_LABEL} bytes of UTF-8, but this one has {bytes}")
            }
        }
    }
}

impl std::error::Error for LabelError {}

impl Refusal for LabelError {
    fn code(&self) -> &'static str {
        match self {
            Self::Empty => "label_empty",
            Self::TooLong(_) => "label_too_long",
        }
    }
}

/// Derives a separate seed from `root`.
///
/// * `label`: what it is for, 1 to 255 bytes of UTF-8, such as `draft-model` or `repair-attempt-1`. Labels are compared
///   by their bytes: no case is folded and nothing is normalized.
/// * `attempt`: which of several for the same label.
///
/// ```
/// use quillmate_sampler::derive_seed;
/// assert_eq!(derive_seed(42, "draft-model", 0)?, 7706032473042144921);
/// # Ok::<(), quillmate_sampler::LabelError>(())
/// ```
///
/// # Errors
/// `label_empty`, `label_too_long`.
pub fn derive_seed(root: u64, label: &str, attempt: u64) -> Result<u64, LabelError> {
    match label.len() {
        0 => Err(LabelError::Empty),
        length if length > MAX_LABEL => Err(LabelError::TooLong(length as u64)),
        _ => Ok(derive(root, label, attempt)),
    }
}

/// The seed of candidate number `attempt` of a run.
#[must_use]
pub fn candidate_seed(root: u64, attempt: u64) -> u64 {
    derive(root, "candidate", attempt)
}

/// The derivation, for a label whose length is in range.
fn derive(root: u64, label: &str, attempt: u64) -> u64 {
    let prk = Hkdf::<Sha256>::new(Some(SALT), &root.to_le_bytes());
    let length = (label.len() as u32).to_le_bytes();
    let mut seed = [0; 8];
    let info = [&length[..], label.as_bytes(), &8u32.to_le_bytes(), &attempt.to_le_bytes()];
    prk.expand_multi_info(&info, &mut seed).expect("8 bytes are fewer than 255 blocks");
    u64::from_le_bytes(seed)
}
