//! Text out of tokens: their bytes, one after the other, shown once a character is whole.

use crate::model::TokenTable;

/// Turns tokens into text as they come. A character that is half there waits; bytes that can no longer become one show
/// as U+FFFD, as a browser's `TextDecoder` does it.
#[derive(Debug, Default, Clone)]
pub struct Detokenizer {
    waiting: Vec<u8>,
}

impl Detokenizer {
    /// Takes the next token's bytes and gives the text that is whole now.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.waiting.extend_from_slice(bytes);
        let mut text = String::new();
        let mut done = 0;
        loop {
            match std::str::from_utf8(&self.waiting[done..]) {
                Ok(whole) => {
                    text.push_str(whole);
                    self.waiting.clear();
                    return text;
                }
                Err(error) => {
                    let end = done + error.valid_up_to();
                    text.push_str(&String::from_utf8_lossy(&self.waiting[done..end]));
                    let Some(wrong) = error.error_len() else {
                        self.waiting.drain(..end);
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    done = end + wrong;
                }
            }
        }
    }

    /// What still waits, now that nothing more comes.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.waiting).into_owned()
    }
}

/// The text of tokens. A last character that is only half there is left out while more may come.
pub fn text(table: &TokenTable, tokens: &[u32]) -> String {
    let mut detokenizer = Detokenizer::default();
    tokens.iter().map(|&id| detokenizer.push(table.get(id))).collect()
}

/// The text of tokens after which nothing comes. A last character that is only half there shows as U+FFFD.
pub fn whole_text(table: &TokenTable, tokens: &[u32]) -> String {
    let mut detokenizer = Detokenizer::default();
    let mut text: String = tokens.iter().map(|&id| detokenizer.push(table.get(id))).collect();
    text.push_str(&detokenizer.finish());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_waits_for_the_other_half() {
        let mut detokenizer = Detokenizer::default();
        assert_eq!(detokenizer.push(b"caf\xc3"), "caf");
        assert_eq!(detokenizer.push(b""), "");
        assert_eq!(detokenizer.push(b"\xa9 \xf0\x9f"), "é ");
        assert_eq!(detokenizer.push(b"\x90"), "");
        assert_eq!(detokenizer.push(b"\xa6!"), "🐦!");
    }

    #[test]
    fn bytes_that_cannot_become_a_character_show_as_such() {
        let mut detokenizer = Detokenizer::default();
        assert_eq!(detokenizer.push(b"a\xff\xe2\x82b\xf0\x9f"), "a\u{fffd}\u{fffd}b");
        assert_eq!(detokenizer.push(b"c"), "\u{fffd}c");
    }

    #[test]
    fn any_cut_gives_the_same_text() {
        let whole = "naïve – 日本 🏳️‍🌈".as_bytes();
        let broken = [whole, b"\xf0\x9f\xc3(\xa0\xe2\x82\xac"].concat();
        let expected = String::from_utf8_lossy(&broken);
        for first in 0..broken.len() {
            for second in first..broken.len() {
                let mut detokenizer = Detokenizer::default();
                let mut text = detokenizer.push(&broken[..first]);
                text += &detokenizer.push(&broken[first..second]);
                text += &detokenizer.push(&broken[second..]);
                assert_eq!(text, expected);
                // And where nothing more comes, in the middle of a character or not.
                let mut detokenizer = Detokenizer::default();
                let mut text = detokenizer.push(&broken[..first]);
                text += &detokenizer.push(&broken[first..second]);
                text += &detokenizer.finish();
                assert_eq!(text, String::from_utf8_lossy(&broken[..second]));
            }
        }
    }
}
