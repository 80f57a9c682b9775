//! Numbers and strings in messages. (The standard library's formatting would add 10 kB to the gzipped wasm.)

use std::fmt::{self, Write as _};

/// A number as the shortest decimal that reads back as that very number: `0.1`, `1.0`, `1e300`, `NaN`, `-inf`.
#[derive(Clone, Copy)]
pub struct Number(pub f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ryu::Buffer::new().format(self.0))
    }
}

/// A string in quotation marks, control characters, quotation marks and backslashes escaped.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(f, "\\{character}")?,
                '\n' => f.write_str("\\n")?,
                control if u32::from(control) < 0x20 || (0x7f..0xa0).contains(&u32::from(control)) => {
                    write!(f, "\\u{{{:x}}}", u32::from(control))?;
                }
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}

/// At most this many characters from the start of a text.
#[must_use]
pub fn beginning(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::{Number, Quoted, beginning};

    #[test]
    fn numbers_read_back() {
        let numbers =
            [0.1, 1.0, -0.0, 5e-324, f64::MAX, 1e15, 1e16, 1e-5, 0.3, 1.0 / 3.0, -7.25, 9_007_199_254_740_992.0];
        for number in numbers {
            let text = Number(number).to_string();
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits(), "{text}");
            assert!(text.len() <= 24, "{text}");
        }
        let shown = [0.1, 1.0, 1e300, 1e-7, f64::NAN, f64::NEG_INFINITY].map(|number| Number(number).to_string());
        assert_eq!(shown, ["0.1", "1.0", "1e300", "1e-7", "NaN", "-inf"]);
    }

    #[test]
    fn strings_show_what_cannot_be_seen() {
        assert_eq!(Quoted("a \"b\"\\\n\u{0}\u{85}é…").to_string(), "\"a \\\"b\\\"\\\\\\n\\u{0}\\u{85}é…\"");
        assert_eq!(beginning("éàü", 2), "éà");
    }
}
