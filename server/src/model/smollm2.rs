//! SmolLM2 from a GGUF file: its tokenizer, and the [`Llama`] in it.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::quantized::gguf_file::Value;
use sha2::{Digest, Sha256};

use super::error::ModelError;
use super::kernels::Isa;
use super::language_model::{Identity, LanguageModel, Session};
use super::llama::{ARITHMETIC, Llama, read_head};
use super::token_table::TokenTable;
use super::tokenizer::Tokenizer;
use crate::hex::hex;

/// SHA-256 of the file this server is made for: SmolLM2-135M-Instruct, Q4_1.
pub const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// How far loading has come, for whoever waits.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes read so far.
    pub loaded: AtomicU64,
    /// Bytes the file has; 0 until it is known.
    pub total: AtomicU64,
}

/// A llama-like model with a byte-level vocabulary, read from a GGUF file.
pub struct SmolLm2 {
    identity: Identity,
    end_tokens: Vec<u32>,
    tokenizer: Tokenizer,
    llama: Arc<Llama>,
}

impl SmolLm2 {
    /// Reads a model file. It is hashed as it is read, and the bytes that were hashed are the bytes that are used.
    pub fn load(path: &Path, expected_sha256: &str, progress: &Progress) -> Result<Self, ModelError> {
        let shown = path.display().to_string();
        let unreadable = |source| ModelError::Read { path: shown.clone(), source };
        let mut file = File::open(path).map_err(unreadable)?;
        let total = file.metadata().map_err(unreadable)?.len();
        progress.total.store(total, Ordering::Relaxed);
        let mut bytes = Vec::new();
        let mut hash = Sha256::new();
        let mut chunk = vec![0; 1 << 20];
        loop {
            let read = file.read(&mut chunk).map_err(unreadable)?;
            if read == 0 {
                break;
            }
            hash.update(&chunk[..read]);
            bytes.extend_from_slice(&chunk[..read]);
            progress.loaded.fetch_add(read as u64, Ordering::Relaxed);
        }
        let found = hex(&hash.finalize());
        if found != expected_sha256 {
            return Err(ModelError::Digest { path: shown, expected: expected_sha256.into(), found });
        }
        Self::from_bytes(&bytes, found)
    }

    fn from_bytes(bytes: &[u8], sha256: String) -> Result<Self, ModelError> {
        let content = read_head(bytes)?;
        let tokenizer = Tokenizer::from_gguf(&content)?;
        let eos = tokenizer.eos(&content)?;
        let mut end_tokens = vec![eos];
        // What the model was pretrained to end a document with; the entry above is what its chat turns end with.
        end_tokens.extend(tokenizer.special("<|endoftext|>"));
        end_tokens.sort_unstable();
        end_tokens.dedup();
        // What that file calls itself is the name of a training run, which says nothing to a writer.
        let name = match content.metadata.get("general.name") {
            _ if sha256 == SHA256 => "SmolLM2-135M-Instruct".into(),
            Some(Value::String(name)) => name.clone(),
            _ => "unnamed".into(),
        };
        let tokens = tokenizer.table().len();
        let llama = Arc::new(Llama::load(&content, bytes, tokens, Isa::detect())?);
        let identity = Identity {
            name,
            sha256,
            arithmetic: ARITHMETIC.into(),
            tokenizer_sha256: tokenizer.table().sha256(),
            vocab: u32::try_from(tokens).map_err(|_| ModelError::Unsupported("too many tokens".into()))?,
        };
        Ok(Self { identity, end_tokens, tokenizer, llama })
    }
}

impl LanguageModel for SmolLm2 {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kernels(&self) -> &'static str {
        self.llama.isa().name()
    }

    fn context(&self) -> usize {
        self.llama.context()
    }

    fn end_tokens(&self) -> &[u32] {
        &self.end_tokens
    }

    fn tokens(&self) -> &TokenTable {
        self.tokenizer.table()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        self.tokenizer.encode(text)
    }

    fn open(&self) -> Box<dyn Session> {
        Box::new(self.llama.open())
    }
}
