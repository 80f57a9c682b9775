//! What every model has: an identity, tokens, and sessions that give logits.

use super::error::ModelError;
use super::token_table::TokenTable;

/// The model a run belongs to. Another file gives other logits, so a run resumes under this one only.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "Model", deny_unknown_fields)]
pub struct Identity {
    /// A name for people.
    pub name: String,
    /// SHA-256 of the model file, in hex.
    pub sha256: String,
    /// The implementation of the forward pass, by name and version. Another one gives logits with other low bits, and
    /// eventually another token.
    pub arithmetic: String,
    /// SHA-256 of the encoded token table, in hex.
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

/// A loaded model. Shared between threads; what moves is in its [`Session`]s.
pub trait LanguageModel: Send + Sync {
    /// Its identity.
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
    /// A copy of the context that is independent from now on.
    fn fork(&self) -> Box<dyn Session>;
}
