//! Numbers and strings in messages. (The standard library's ways of writing them are 10 kB of a gzipped wasm.)

use std::fmt::{self, Write as _};

/// A number as the shortest decimal that reads back as that very number: `0.1`, `1.0`, `1e300`, `NaN`, `-inf`.
#[derive(Clone, Copy)]
pub struct Number(pub f64);

impl fmt::Display for Number {
    #[cfg(not(target_arch = "wasm32"))]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(ryu::Buffer::new().format(self.0))
    }

    /// JavaScript finds the digits by itself; ryu is 2 kB of a gzipped wasm.
    #[cfg(target_arch = "wasm32")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use wasm_bindgen::prelude::*;

        #[wasm_bindgen]
        extern "C" {
            type Number;
            #[wasm_bindgen(method, catch, js_name = toExponential)]
            fn to_exponential(this: &Number) -> Result<String, JsValue>;
        }
        if self.0.is_nan() {
            return f.write_str("NaN");
        }
        if self.0.is_sign_negative() {
            f.write_str("-")?;
        }
        if self.0.is_infinite() {
            return f.write_str("inf");
        }
        let digits = JsValue::from(self.0.abs()).unchecked_into::<Number>().to_exponential();
        f.write_str(&pointed(&digits.unwrap_or_default()))
    }
}

/// `1.25e-7` or `1.25e+7` as ryu writes it.
#[cfg(any(target_arch = "wasm32", test))]
fn pointed(scientific: &str) -> String {
    let end = scientific.bytes().position(|byte| byte == b'e').unwrap_or(scientific.len());
    let (mut below_1, mut exponent) = (false, 0);
    for byte in scientific.bytes().skip(end) {
        below_1 |= byte == b'-';
        if byte.is_ascii_digit() {
            exponent = 10 * exponent + usize::from(byte - b'0');
        }
    }
    if exponent > if below_1 { 5 } else { 15 } {
        return scientific.chars().filter(|character| *character != '+').collect();
    }
    let (zeros, point) = if below_1 { (exponent, 1) } else { (0, exponent + 1) };
    let mut text: String = std::iter::repeat_n('0', zeros).collect();
    text.extend(scientific.chars().take(end).filter(|character| *character != '.'));
    while text.len() <= point {
        text.push('0');
    }
    text.insert(point, '.');
    text
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

/// The first characters of a text, so many at most.
#[must_use]
pub fn beginning(text: &str, characters: usize) -> String {
    text.chars().take(characters).collect()
}

#[cfg(test)]
mod tests {
    use super::{Number, Quoted, beginning, pointed};
    use crate::core::splitmix::draw;

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
    fn numbers_are_written_alike_everywhere() {
        let digits = |text: &str| text.replace(['.', '-', '+'], "").trim_matches('0').to_owned();
        let mut compared = 0;
        for step in 0..200_000 {
            // Half of them with as many digits as fit before and after the point.
            let bits = draw(1, step, 0);
            let power: f64 = format!("1e{}", step % 25).parse().unwrap();
            let number = if step % 2 == 0 { f64::from_bits(bits >> 1) } else { (bits >> 11) as f64 / power };
            let text = Number(number).to_string();
            let scientific =
                format!("{number:e}").replace("e", if step % 3 == 0 { "e+" } else { "e" }).replace("+-", "-");
            let mantissa = |text: &str| digits(text.split('e').next().unwrap());
            // Of two shortest decimals that are equally near the standard library takes the higher one, others the even one.
            if number.is_finite() && mantissa(&scientific) == mantissa(&text) {
                assert_eq!(pointed(&scientific), text);
                compared += 1;
            }
        }
        assert!(compared > 199_000, "{compared}");
    }

    #[test]
    fn strings_show_what_cannot_be_seen() {
        assert_eq!(Quoted("a \"b\"\\\n\u{0}\u{85}é…").to_string(), "\"a \\\"b\\\"\\\\\\n\\u{0}\\u{85}é…\"");
        assert_eq!(beginning("éàü", 2), "éà");
    }
}
