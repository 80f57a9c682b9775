//! The bytes of every token of a vocabulary.

use std::fmt;

use sha2::{Digest, Sha256};

use super::error::ModelError;
use crate::hex::hex;

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
