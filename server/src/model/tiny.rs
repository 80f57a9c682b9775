//! A model of a few hundred tokens, for tests and for trying the page without a download.
//!
//! It makes trouble on purpose: its logits are coarse, so rows are full of ties; its vocabulary cuts characters in half;
//! and every token of the context, in its place, changes the whole row: a server that feeds it anything but the run's own
//! tokens, or leaves a rejected draft in, gives other tokens and is found out.

use sha2::{Digest, Sha256};

use super::error::ModelError;
use super::language_model::{Identity, LanguageModel, Session};
use super::token_table::TokenTable;
use crate::hex::hex;

/// The token that ends a text; it has no bytes.
const END: u32 = 0;
/// Tokens 1 to 256 are the bytes; these follow.
const PIECES: [&[u8]; 28] = [
    b" the",
    b" and",
    b" a",
    b" sea",
    b" of",
    b" to",
    b" was",
    b" light",
    b" in",
    b" she",
    b" he",
    b" it",
    b"ing",
    b"ed",
    b"er",
    b" harbour",
    b" lamp",
    b". ",
    b", ",
    b" over",
    b" under",
    b" again",
    // Half of é, alone and in a word; both parts of €; all but the last byte of a bird; an é that is whole.
    b"\xc3",
    b" caf\xc3",
    b"\xe2\x82",
    b"\xac",
    b"\xf0\x9f\x90",
    "\u{e9}".as_bytes(),
];
const CONTEXT: usize = 4096;

/// The model. All of it is in its arithmetic.
pub struct Tiny {
    identity: Identity,
    table: TokenTable,
}

impl Tiny {
    /// Makes the model.
    pub fn new() -> Result<Self, ModelError> {
        let bytes: Vec<[u8; 1]> = (0..=u8::MAX).map(|byte| [byte]).collect();
        let tokens = [&b""[..]].into_iter().chain(bytes.iter().map(|byte| &byte[..])).chain(PIECES);
        let table = TokenTable::new(tokens)?;
        let identity = Identity {
            name: "tiny".into(),
            // There is no file, so the digest is that of its name and version: change the arithmetic, change this.
            sha256: hex(&Sha256::digest(b"quillmate tiny model 2")),
            arithmetic: "tiny-2".into(),
            tokenizer_sha256: table.sha256(),
            vocab: table.len() as u32,
        };
        Ok(Self { identity, table })
    }
}

impl LanguageModel for Tiny {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn context(&self) -> usize {
        CONTEXT
    }

    fn end_tokens(&self) -> &[u32] {
        &[END]
    }

    fn tokens(&self) -> &TokenTable {
        &self.table
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        let mut rest = text.as_bytes();
        let mut tokens = Vec::new();
        while let Some(&byte) = rest.first() {
            let longest = (257..self.identity.vocab)
                .filter(|&id| rest.starts_with(self.table.get(id)))
                .max_by_key(|&id| self.table.get(id).len());
            let id = longest.unwrap_or(1 + u32::from(byte));
            rest = &rest[self.table.get(id).len()..];
            tokens.push(id);
        }
        Ok(tokens)
    }

    fn open(&self) -> Box<dyn Session> {
        Box::new(Context { table: self.table.clone(), states: Vec::new() })
    }
}

#[derive(Clone)]
struct Context {
    table: TokenTable,
    /// After each token: what the row is made from, and the token.
    states: Vec<(u64, u32)>,
}

/// The finalizer of SplitMix64: every bit of the state reaches every logit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Context {
    /// Adds a token and gives the row after it.
    fn add(&mut self, token: u32) -> Vec<f32> {
        let before = self.states.last().map_or(0, |&(state, _)| state);
        let state = mix(mix(before).wrapping_add(u64::from(token) + 1));
        self.states.push((state, token));
        let open = self.table.get(token);
        (0..self.table.len() as u32)
            .map(|id| {
                // Quarters from -1 to 1: nine values for 285 tokens.
                let noise = (mix(state ^ mix(u64::from(id))) % 9) as f32 * 0.25 - 1.0;
                noise + liking(id, self.table.get(id), open)
            })
            .collect()
    }
}

/// How much a token is liked after bytes that end in `before`: letters and words rather than noise, and usually the
/// second half of a character after its first.
fn liking(id: u32, token: &[u8], before: &[u8]) -> f32 {
    let begun = matches!(before, b"\xc3" | b" caf\xc3" | b"\xe2\x82" | b"\xf0\x9f\x90");
    match token {
        _ if id == END => -1.5,
        [0xa0..=0xbf] if begun => 6.0,
        [0xc3] | [0xe2, 0x82] | [0xf0, 0x9f, 0x90] => 0.5,
        [b'a'..=b'z'] => 1.5,
        [b' ' | b'.' | b','] => 1.0,
        [_] => -5.0,
        _ => 2.5,
    }
}

impl Session for Context {
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.extend(tokens)?.pop().ok_or_else(|| ModelError::Inference("no tokens".into()))
    }

    fn extend(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, ModelError> {
        Ok(tokens.iter().map(|&token| self.add(token)).collect())
    }

    fn truncate(&mut self, len: usize) {
        self.states.truncate(len);
    }

    fn fork(&self) -> Box<dyn Session> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_rows_depend_on_its_tokens_and_on_nothing_else() {
        let model = Tiny::new().unwrap();
        let tokens: Vec<u32> = (0..60).map(|at| 1 + mix(at) as u32 % 284).collect();
        let rows = model.open().extend(&tokens).unwrap();
        for seed in 0..20 {
            let mut session = model.open();
            let mut at = 0;
            while at < tokens.len() {
                let end = (at + 1 + mix(seed << 32 | at as u64) as usize % 9).min(tokens.len());
                // A draft that is taken back, and another context that goes elsewhere.
                session.extend(&[7, 8, 9]).unwrap();
                session.truncate(at);
                session.fork().feed(3).unwrap();
                assert_eq!(session.extend(&tokens[at..end]).unwrap(), rows[at..end]);
                at = end;
            }
            assert_eq!(session.prefill(&tokens[..30]).unwrap(), rows[29]);
            assert_eq!(session.feed(tokens[30]).unwrap(), rows[30]);
        }
        assert_ne!(model.open().extend(&[5, 6, 7]).unwrap()[2], model.open().extend(&[6, 5, 7]).unwrap()[2]);
    }

    #[test]
    fn its_rows_are_full_of_ties() {
        let row = Tiny::new().unwrap().open().prefill(&[80]).unwrap();
        let best = row.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a });
        assert!(row.iter().filter(|&&logit| logit == best).count() > 1);
    }

    #[test]
    fn tokens_of_a_text_are_its_bytes() {
        let model = Tiny::new().unwrap();
        let text = "The café over the sea: 12 € – 🐦!";
        let tokens = model.encode(text).unwrap();
        let bytes: Vec<u8> = tokens.iter().flat_map(|&id| model.tokens().get(id).to_vec()).collect();
        assert_eq!(bytes, text.as_bytes());
        assert!(tokens.len() < text.len());
    }
}
