//! A language model as the server sees it: who it is, what its tokens are, and **logits that depend on the tokens alone**.
//!
//! What a [`Session`] says after a context is a function of the context's token ids, bit for bit: fed one by one, in one
//! pass or in pieces, with rejected drafts in between or without, whatever other sessions do. So neither a restart nor
//! speculation can change a text.

pub mod kernels;
pub mod llama;
pub mod smollm2;
pub mod tiny;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use smollm2::{Progress, SmolLm2};
use tiny::Tiny;

/// Which model a run belongs to. Logits of another file are other numbers, so a run goes on under this one only.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Identity {
    /// A name for people.
    pub name: String,
    /// SHA-256 of the model file, in hex.
    pub sha256: String,
    /// What computes with it, by name and version. Another implementation gives other low bits from the same file, and
    /// one day another token.
    pub arithmetic: String,
    /// SHA-256 of the encoded [`TokenTable`], in hex.
    pub tokenizer_sha256: String,
    /// How many tokens the vocabulary has; ids are below it.
    pub vocab: u32,
}

impl Identity {
    /// Whether both give the same logits: the same file, computed in the same way.
    #[must_use]
    pub fn same_logits(&self, other: &Self) -> bool {
        self.sha256 == other.sha256 && self.arithmetic == other.arithmetic
    }
}

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

/// A loaded model. Shared between threads; what moves is in its [`Session`]s.
pub trait LanguageModel: Send + Sync {
    /// Who it is.
    fn identity(&self) -> &Identity;
    /// Which kernels compute with it on this processor, by name. They change no bit.
    fn kernels(&self) -> &'static str {
        "plain"
    }
    /// The longest context (prompt and tokens together) it can see.
    fn context(&self) -> usize;
    /// The tokens after which a text is over.
    fn end_tokens(&self) -> &[u32];
    /// The bytes of every token.
    fn tokens(&self) -> &TokenTable;
    /// The tokens of a text. Their bytes, one after the other, are the text; where that cannot be, the text is refused.
    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError>;
    /// An empty context of its own: two sessions share nothing that changes.
    fn open(&self) -> Box<dyn Session>;
}

/// Loads a model: `tiny`, or a GGUF file that must have this SHA-256.
pub fn load(path: &Path, sha256: &str, progress: &Progress) -> Result<Arc<dyn LanguageModel>, ModelError> {
    if path.as_os_str() == "tiny" {
        return Ok(Arc::new(Tiny::new()?));
    }
    Ok(Arc::new(SmolLm2::load(path, sha256, progress)?))
}

/// Sees to it that models compute with so many threads: as many as cores, at most 8, if none is said. It changes how long
/// a step takes and not a bit of it.
pub fn use_threads(threads: Option<u16>) -> Result<(), rayon::ThreadPoolBuildError> {
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8));
    let threads = threads.map_or_else(cores, usize::from);
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|at| format!("model {at}")).build_global()
}

/// One context and its caches. Whatever the moves that led to a context, its logits have the same bits.
pub trait Session: Send {
    /// Adds tokens and gives the logits after the last of them. A prompt may be read in pieces; where it is cut changes
    /// no bit. No tokens at all are an error, and an error adds none.
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>, ModelError>;
    /// Forgets what was fed, takes the whole prompt and gives the logits after it.
    fn prefill(&mut self, prompt: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.truncate(0);
        self.read(prompt)
    }
    /// Adds one token and gives the logits after it.
    fn feed(&mut self, token: u32) -> Result<Vec<f32>, ModelError> {
        self.read(&[token])
    }
    /// Adds tokens in one pass and gives the logits after each of them. An error adds none.
    fn extend(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, ModelError>;
    /// Takes back all tokens but the first `len`, the prompt's among them; as rejected drafts are. Does nothing if there
    /// are no more than that.
    fn truncate(&mut self, len: usize);
    /// The same context once more; from here on each goes its own way.
    fn fork(&self) -> Box<dyn Session>;
}

/// The bytes of every token, special tokens having none.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl fmt::Debug for TokenTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenTable({} tokens)", self.len())
    }
}

impl TokenTable {
    /// Collects the tokens' bytes in the order of their ids. A token longer than the encoding can say is refused.
    pub fn new<T: AsRef<[u8]>>(tokens: impl IntoIterator<Item = T>) -> Result<Self, ModelError> {
        let mut table = Self { bytes: Vec::new(), ends: Vec::new() };
        for token in tokens {
            let token = token.as_ref();
            if token.len() > usize::from(u16::MAX) {
                return Err(ModelError::Unsupported(format!("token {} is {} bytes long", table.len(), token.len())));
            }
            table.bytes.extend_from_slice(token);
            table.ends.push(table.bytes.len());
        }
        if u32::try_from(table.len()).is_err() {
            return Err(ModelError::Unsupported("too many tokens".into()));
        }
        Ok(table)
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of a token; none for a special token, and none for an id the vocabulary does not have.
    pub fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else {
            return &[];
        };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start..end]
    }

    /// The most bytes a token has.
    pub fn longest(&self) -> usize {
        (0..self.len()).map(|id| self.get(id as u32).len()).max().unwrap_or(0)
    }

    /// The table as it travels: little-endian u32 count, then for each id a u16 length and as many bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 + 2 * self.len() + self.bytes.len());
        // `new` has seen to it that neither cast loses anything.
        out.extend_from_slice(&(self.len() as u32).to_le_bytes());
        for id in 0..self.len() as u32 {
            let token = self.get(id);
            out.extend_from_slice(&(token.len() as u16).to_le_bytes());
            out.extend_from_slice(token);
        }
        out
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for anything else.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let count = u32::from_le_bytes(*bytes.split_off(..4)?.first_chunk()?);
        let mut tokens = Vec::new();
        for _ in 0..count {
            let length = u16::from_le_bytes(*bytes.split_off(..2)?.first_chunk()?);
            tokens.push(bytes.split_off(..usize::from(length))?);
        }
        if !bytes.is_empty() {
            return None;
        }
        Self::new(tokens).ok()
    }

    /// SHA-256 of the encoded table, in hex.
    pub fn sha256(&self) -> String {
        hex(&Sha256::digest(self.encode()))
    }
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_table_travels_and_a_damaged_one_does_not() {
        let table = TokenTable::new([&b""[..], b"a", b"\xe2\x82", b"\xac", b" the"]).unwrap();
        let bytes = table.encode();
        assert_eq!(TokenTable::decode(&bytes).unwrap(), table);
        assert_eq!(table.get(2), b"\xe2\x82");
        assert_eq!(table.get(0), b"");
        assert_eq!(table.get(5), b"");
        for end in 0..bytes.len() {
            assert_eq!(TokenTable::decode(&bytes[..end]), None);
        }
        assert_eq!(TokenTable::decode(&[&bytes[..], b"x"].concat()), None);
        assert!(TokenTable::new([vec![b'x'; 70_000]]).is_err());
    }
}
