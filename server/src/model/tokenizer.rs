//! SmolLM2's tokenizer, built from the vocabulary and merges inside the model file.
//!
//! A byte-level BPE: digits stand alone, then the GPT-2 pattern cuts the text into words, then merges. Special tokens
//! are **not** looked for in a text: a writer who types `<|im_end|>` gets these ten characters and not the end of the
//! story.

use candle_core::quantized::gguf_file::{Content, Value};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;

use super::error::ModelError;
use super::token_table::TokenTable;

/// The only pre-tokenizer this file knows; another one would cut texts elsewhere.
const PRE_TOKENIZER: &str = "smollm";
/// GGUF's type of a token that stands for no text.
const CONTROL: i64 = 3;

/// Text to tokens, and the bytes of each token.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    table: TokenTable,
    special: Vec<(String, u32)>,
}

fn unsupported(what: impl std::fmt::Display) -> ModelError {
    ModelError::Unsupported(format!("its tokenizer: {what}"))
}

fn strings<'a>(content: &'a Content, key: &str) -> Result<Vec<&'a str>, ModelError> {
    let Some(Value::Array(values)) = content.metadata.get(key) else {
        return Err(unsupported(format!("{key} is missing")));
    };
    values
        .iter()
        .map(|value| match value {
            Value::String(text) => Ok(text.as_str()),
            _ => Err(unsupported(format!("{key} holds something that is not text"))),
        })
        .collect()
}

fn text<'a>(content: &'a Content, key: &str) -> &'a str {
    match content.metadata.get(key) {
        Some(Value::String(text)) => text,
        _ => "",
    }
}

impl Tokenizer {
    /// Builds the tokenizer from a model file's metadata.
    pub fn from_gguf(content: &Content) -> Result<Self, ModelError> {
        let kind = (text(content, "tokenizer.ggml.model"), text(content, "tokenizer.ggml.pre"));
        if kind != ("gpt2", PRE_TOKENIZER) {
            return Err(unsupported(format!("kind {kind:?} is not known")));
        }
        let tokens = strings(content, "tokenizer.ggml.tokens")?;
        let merges = strings(content, "tokenizer.ggml.merges")?
            .into_iter()
            .map(|merge| match merge.split_once(' ') {
                Some((left, right)) => Ok((left.to_string(), right.to_string())),
                None => Err(unsupported(format!("merge {merge:?}"))),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let Some(Value::Array(types)) = content.metadata.get("tokenizer.ggml.token_type") else {
            return Err(unsupported("tokenizer.ggml.token_type is missing"));
        };
        if types.len() != tokens.len() {
            return Err(unsupported("as many types as tokens are needed"));
        }
        let mut special = Vec::new();
        let mut bytes = Vec::with_capacity(tokens.len());
        for (id, (&token, kind)) in tokens.iter().zip(types).enumerate() {
            let id = u32::try_from(id).map_err(unsupported)?;
            let control = match kind {
                Value::I32(kind) => i64::from(*kind) == CONTROL,
                Value::U32(kind) => i64::from(*kind) == CONTROL,
                _ => return Err(unsupported("a token's type is not an integer")),
            };
            if control {
                special.push((token.to_string(), id));
                bytes.push(Vec::new());
            } else {
                let token_bytes: Option<Vec<u8>> = token.chars().map(byte_of).collect();
                bytes.push(token_bytes.ok_or_else(|| unsupported(format!("token {token:?}")))?);
            }
        }
        let vocabulary: Vocab = tokens.iter().zip(0..).map(|(token, id)| (token.to_string(), id)).collect();
        let bpe = BPE::builder().vocab_and_merges(vocabulary, merges).build().map_err(unsupported)?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        inner.with_pre_tokenizer(Some(PreTokenizerWrapper::Sequence(Sequence::new(vec![
            Digits::new(true).into(),
            ByteLevel::new(false, true, true).into(),
        ]))));
        Ok(Self { inner, table: TokenTable::new(bytes)?, special })
    }

    /// The id of the token a file ends its texts with. Every special id in the file is looked at: one that is no token's
    /// would make nonsense of whatever uses it, now or later.
    pub fn eos(&self, content: &Content) -> Result<u32, ModelError> {
        const EOS: &str = "tokenizer.ggml.eos_token_id";
        let mut eos = Err(unsupported(format!("{EOS} is missing")));
        let keys = content.metadata.iter().filter(|(key, _)| is_special_id(key));
        for (key, value) in keys {
            let id = match value {
                Value::U8(_) | Value::U16(_) | Value::U32(_) | Value::U64(_) => value.to_u64().ok(),
                Value::I8(_) | Value::I16(_) | Value::I32(_) | Value::I64(_) => {
                    value.to_i64().ok().and_then(|id| u64::try_from(id).ok())
                }
                _ => None,
            };
            let id = id.and_then(|id| u32::try_from(id).ok()).filter(|&id| (id as usize) < self.table.len());
            let id = id
                .ok_or_else(|| unsupported(format!("{key} is {value:?}, and there are {} tokens", self.table.len())))?;
            if key == EOS {
                eos = Ok(id);
            }
        }
        eos
    }

    /// The bytes of every token.
    pub fn table(&self) -> &TokenTable {
        &self.table
    }

    /// The id of a special token.
    pub fn special(&self, name: &str) -> Option<u32> {
        self.special.iter().find(|(token, _)| token == name).map(|&(_, id)| id)
    }

    /// The tokens of a text. The vocabulary lacks a few bytes (some control characters, private planes); a text with one
    /// is refused, since the library would drop it without a word.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let encoding = self.inner.encode_fast(text, false).map_err(|error| ModelError::Inference(error.to_string()))?;
        let tokens = encoding.get_ids().to_vec();
        let mut rest = text.as_bytes();
        for &id in &tokens {
            match rest.strip_prefix(self.table.get(id)) {
                Some(after) => rest = after,
                None => break,
            }
        }
        if rest.is_empty() {
            return Ok(tokens);
        }
        let mut lost = text.len() - rest.len();
        while !text.is_char_boundary(lost) {
            lost -= 1;
        }
        let character = text[lost..].chars().next().unwrap_or_default();
        Err(ModelError::NotEncodable(character))
    }
}

/// Whether an entry of a file is the id of a special token.
fn is_special_id(key: &str) -> bool {
    key.strip_prefix("tokenizer.ggml.").is_some_and(|name| name.ends_with("_token_id"))
}

/// The byte a character of a byte-level vocabulary stands for: printable Latin-1 for itself, the others in order from
/// U+0100 on.
fn byte_of(character: char) -> Option<u8> {
    let printable = |code: u32| matches!(code, 0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff);
    let code = u32::from(character);
    if code < 0x100 {
        return if printable(code) { u8::try_from(code).ok() } else { None };
    }
    let rank = usize::try_from(code - 0x100).ok()?;
    (0..=u8::MAX).filter(|&byte| !printable(u32::from(byte))).nth(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_a_bijection() {
        let mut bytes: Vec<u8> = (0..0x200).filter_map(char::from_u32).filter_map(byte_of).collect();
        assert_eq!(bytes.len(), 256);
        bytes.sort_unstable();
        bytes.dedup();
        assert_eq!(bytes.len(), 256);
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
        assert_eq!(byte_of('é'), Some(0xe9));
        assert_eq!(byte_of(' '), None);
    }
}
