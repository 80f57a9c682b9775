//! SmolLM2 from a GGUF file, through candle's quantized llama.
//!
//! candle keeps a context's keys and values inside the weights object, as tensors that are never written to again:
//! every step makes new ones. A clone therefore costs a few hundred pointers, shares the weights, and goes its own way
//! from its first step on, which is what makes one session per run and [`Session::fork`] free.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use candle_core::quantized::gguf_file::{self, Content, Value};
use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};
use candle_transformers::models::quantized_llama::{MAX_SEQ_LEN, ModelWeights};
use sha2::{Digest, Sha256};

use super::{Identity, LanguageModel, ModelError, Session, TokenTable, hex};
use crate::tokenizer::Tokenizer;

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
    context: usize,
    end_tokens: Vec<u32>,
    tokenizer: Tokenizer,
    weights: ModelWeights,
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
        let unsupported = |error: candle_core::Error| ModelError::Unsupported(error.to_string());
        let mut reader = Cursor::new(bytes);
        let content = Content::read(&mut reader).map_err(unsupported)?;
        let tokenizer = Tokenizer::from_gguf(&content)?;
        let number = |key: &str| {
            let value =
                content.metadata.get(key).ok_or_else(|| ModelError::Unsupported(format!("{key} is missing")))?;
            value.to_u32().map_err(unsupported)
        };
        let context = (number("llama.context_length")? as usize).min(MAX_SEQ_LEN);
        let mut end_tokens = vec![number("tokenizer.ggml.eos_token_id")?];
        // What the model was pretrained to end a document with; the entry above is what its chat turns end with.
        end_tokens.extend(tokenizer.special("<|endoftext|>"));
        end_tokens.sort_unstable();
        end_tokens.dedup();
        let name = match content.metadata.get("general.name") {
            Some(Value::String(name)) => name.clone(),
            _ => "unnamed".into(),
        };
        let weights = weights(&content, &mut reader).map_err(unsupported)?;
        let vocab =
            u32::try_from(tokenizer.table().len()).map_err(|_| ModelError::Unsupported("too many tokens".into()))?;
        let identity = Identity { name, sha256, tokenizer_sha256: tokenizer.table().sha256(), vocab };
        let model = Self { identity, context, end_tokens, tokenizer, weights };
        // One step now rather than a surprise later: a row must have one number per token.
        let row = model.open().prefill(&[0])?;
        if row.len() != vocab as usize {
            return Err(ModelError::Unsupported(format!(
                "its rows have {} logits, its vocabulary {vocab} tokens",
                row.len()
            )));
        }
        Ok(model)
    }
}

/// The weights, ready to be multiplied with.
///
/// Four-bit weights with an offset (Q4_1) are widened to eight bits on the way: candle multiplies the former without
/// vector instructions, and the widened ones several times as fast, with an error far below what four bits cost already.
/// The conversion is plain arithmetic and gives the same bits at every start.
fn weights(content: &Content, file: &mut Cursor<&[u8]>) -> candle_core::Result<ModelWeights> {
    let mut tensors = Vec::with_capacity(content.tensor_infos.len());
    for (name, info) in &content.tensor_infos {
        let tensor = content.tensor(file, name, &Device::Cpu)?;
        let tensor = match info.ggml_dtype {
            GgmlDType::Q4_1 => QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, GgmlDType::Q8_0)?,
            _ => tensor,
        };
        tensors.push((name.as_str(), tensor));
    }
    // candle makes a model out of a file and nothing else, so a file it is. The vocabulary can stay behind.
    let metadata = content.metadata.iter().map(|(name, value)| (name.as_str(), value));
    let metadata: Vec<(&str, &Value)> = metadata.filter(|(name, _)| !name.starts_with("tokenizer.")).collect();
    let borrowed: Vec<(&str, &QTensor)> = tensors.iter().map(|(name, tensor)| (*name, tensor)).collect();
    let mut widened = Cursor::new(Vec::new());
    gguf_file::write(&mut widened, &metadata, &borrowed)?;
    drop(tensors);
    widened.set_position(0);
    ModelWeights::from_gguf(Content::read(&mut widened)?, &mut widened, &Device::Cpu)
}

impl LanguageModel for SmolLm2 {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn context(&self) -> usize {
        self.context
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
        Box::new(Context { weights: self.weights.clone(), fed: 0 })
    }
}

struct Context {
    weights: ModelWeights,
    fed: usize,
}

impl Context {
    fn pass(&mut self, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        // candle narrows its tables of angles to the position and would fail in its own words.
        if tokens.is_empty() || self.fed + tokens.len() > MAX_SEQ_LEN {
            return Err(ModelError::Inference(format!(
                "a context of {} tokens after {} is not possible",
                tokens.len(),
                self.fed
            )));
        }
        let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let row = self.weights.forward(&input, self.fed)?.squeeze(0)?;
        self.fed += tokens.len();
        Ok(row.to_vec1()?)
    }
}

impl Session for Context {
    fn prefill(&mut self, prompt: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.weights.clear_kv_cache();
        self.fed = 0;
        self.pass(prompt)
    }

    fn feed(&mut self, token: u32) -> Result<Vec<f32>, ModelError> {
        self.pass(&[token])
    }

    fn fork(&self) -> Box<dyn Session> {
        Box::new(Self { weights: self.weights.clone(), fed: self.fed })
    }
}
