//! What is measured of a text. A measure that a text cannot have (two-word repetition of one word) is `None`, never 0.

use quillmate_sampler::exp;
use serde_json::Value;

use crate::error::EvaluateError;
use crate::results::TextLine;

/// A measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Tokens before the end token, or before `max_tokens`.
    Length,
    /// Different runs of n tokens among all runs of n tokens.
    Distinct(usize),
    /// Surprise per token, in nats: the mean of −ln p under the model's own distribution at temperature 1.
    Surprise,
    /// e to the surprise per token.
    Perplexity,
    /// Whether the text is JSON that a schema allows.
    Valid,
    /// Milliseconds from the prompt to the first token.
    FirstToken,
    /// Milliseconds for each token after the first.
    PerToken,
    /// Tokens per second after the first.
    Speed,
    /// Passes through the model.
    Passes,
    /// Seconds of processor time.
    Cpu,
}

impl Metric {
    /// All of them; validity where a schema was given.
    pub fn all(schema: bool) -> Vec<Self> {
        let mut all = vec![
            Self::Length,
            Self::Distinct(1),
            Self::Distinct(2),
            Self::Distinct(3),
            Self::Perplexity,
            Self::Surprise,
            Self::FirstToken,
            Self::PerToken,
            Self::Speed,
            Self::Passes,
            Self::Cpu,
        ];
        if schema {
            all.insert(6, Self::Valid);
        }
        all
    }

    /// A stable name.
    pub fn name(self) -> String {
        match self {
            Self::Length => "length".into(),
            Self::Distinct(n) => format!("distinct_{n}"),
            Self::Surprise => "log_perplexity".into(),
            Self::Perplexity => "self_perplexity".into(),
            Self::Valid => "schema_valid".into(),
            Self::FirstToken => "milliseconds_to_first_token".into(),
            Self::PerToken => "milliseconds_per_token".into(),
            Self::Speed => "tokens_per_second".into(),
            Self::Passes => "passes".into(),
            Self::Cpu => "cpu_seconds".into(),
        }
    }

    /// A name for people.
    pub fn title(self) -> String {
        match self {
            Self::Length => "Length".into(),
            Self::Distinct(n) => format!("Distinct-{n}"),
            Self::Surprise => "Log of self-perplexity".into(),
            Self::Perplexity => "Self-perplexity".into(),
            Self::Valid => "Schema validity".into(),
            Self::FirstToken => "Time to first token".into(),
            Self::PerToken => "Time per token".into(),
            Self::Speed => "Speed".into(),
            Self::Passes => "Cost: passes".into(),
            Self::Cpu => "Cost: processor time".into(),
        }
    }

    /// What it is counted in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Length => "tokens",
            Self::Distinct(_) => "share",
            Self::Surprise => "nats per token",
            Self::Perplexity => "perplexity",
            Self::Valid => "share of texts",
            Self::FirstToken | Self::PerToken => "milliseconds",
            Self::Speed => "tokens per second",
            Self::Passes => "passes per text",
            Self::Cpu => "CPU seconds per text",
        }
    }

    /// What it is, in a sentence.
    pub fn meaning(self) -> String {
        match self {
            Self::Length => "Tokens before the end token, or the most there may be.".into(),
            Self::Distinct(1) => "Different tokens among a text's tokens; lower is more repetition.".into(),
            Self::Distinct(n) => {
                format!("Different runs of {n} tokens among all of a text's; lower is more repetition, and longer texts are lower.")
            }
            Self::Surprise => {
                "The mean surprise: −ln p of the text's tokens under the model's own distribution (temperature 1, nothing cut off).".into()
            }
            Self::Perplexity => "e to the mean surprise: how many equally likely tokens the model hesitated between; its own \
                judgement of its own text. A few odd texts can carry the mean."
                .into(),
            Self::Valid => "Texts that are JSON and allowed by the schema.".into(),
            Self::FirstToken => "From the prompt to the first token: the model reads the prompt (once for all texts of the \
                prompt, counted for each) and the first token is sampled."
                .into(),
            Self::PerToken => "What each token after the first took.".into(),
            Self::Passes => "Passes through the model: one for the prompt, one for each token but the last.".into(),
            Self::Cpu => "Processor time of all threads, reading the prompt included.".into(),
            Self::Speed => "Tokens after the first by the seconds they took on this machine, today.".into(),
        }
    }

    /// Whether another machine would give other numbers.
    pub fn of_the_machine(self) -> bool {
        matches!(self, Self::FirstToken | Self::PerToken | Self::Speed | Self::Cpu)
    }

    /// The measure of a text. One that was refused half way has none, but that it is not valid.
    pub fn of(self, line: &TextLine, schema: Option<&Schema>) -> Option<f64> {
        if line.refused.is_some() {
            return (self == Self::Valid && schema.is_some()).then_some(0.0);
        }
        let after_first = line.tokens.len() as f64 - 1.0;
        let whole = &line.tokens[..line.tokens.len() - usize::from(line.ended)];
        let value = match self {
            Self::Length => whole.len() as f64,
            Self::Distinct(n) => return distinct(whole, n),
            Self::Surprise => line.surprise? / line.tokens.len() as f64,
            Self::Perplexity => exp(line.surprise? / line.tokens.len() as f64),
            Self::Valid => f64::from(u8::from(schema?.allows(&line.text))),
            Self::FirstToken => line.first_token_seconds? * 1000.0,
            Self::PerToken => line.seconds * 1000.0 / after_first,
            Self::Speed => after_first / line.seconds,
            Self::Passes => line.passes? as f64,
            Self::Cpu => line.cpu_seconds?,
        };
        // No tokens after the first, or a first that took no time at all.
        value.is_finite().then_some(value)
    }
}

/// Different runs of `n` tokens by all runs of `n` tokens; `None` where there is none.
fn distinct(tokens: &[u32], n: usize) -> Option<f64> {
    let mut runs: Vec<&[u32]> = tokens.windows(n).collect();
    let all = runs.len();
    runs.sort_unstable();
    runs.dedup();
    (all > 0).then(|| runs.len() as f64 / all as f64)
}

/// A JSON Schema texts are held against.
pub struct Schema(jsonschema::Validator);

impl Schema {
    /// Reads a schema.
    ///
    /// # Errors
    /// What is not JSON, or not a schema.
    pub fn read(text: &str) -> Result<Self, EvaluateError> {
        let schema: Value = serde_json::from_str(text).map_err(|error| EvaluateError::Schema(error.to_string()))?;
        jsonschema::validator_for(&schema).map(Self).map_err(|error| EvaluateError::Schema(error.to_string()))
    }

    /// Whether a text is JSON at all.
    pub fn is_json(text: &str) -> bool {
        serde_json::from_str::<Value>(text).is_ok()
    }

    /// Whether a text is JSON, nothing before or after it but space, and allowed.
    pub fn allows(&self, text: &str) -> bool {
        serde_json::from_str(text).is_ok_and(|value: Value| self.0.is_valid(&value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Arm;

    fn line(tokens: &[u32], ended: bool, text: &str) -> TextLine {
        TextLine {
            ended,
            surprise: Some(6.0),
            text: text.into(),
            seconds: 0.5,
            ..crate::results::tests::line(Arm::A, tokens)
        }
    }

    #[test]
    fn measures_worked_out_by_hand() {
        let line = line(&[7, 8, 7, 8, 7, 0], true, "");
        let of = |metric: Metric| metric.of(&line, None);
        assert_eq!(of(Metric::Length), Some(5.0));
        // 7 8 | 78 87 | 787 878, of 5, 4 and 3.
        assert_eq!(of(Metric::Distinct(1)), Some(2.0 / 5.0));
        assert_eq!(of(Metric::Distinct(2)), Some(2.0 / 4.0));
        assert_eq!(of(Metric::Distinct(3)), Some(2.0 / 3.0));
        // The end token is a token the model was asked for.
        assert_eq!(of(Metric::Surprise), Some(1.0));
        assert_eq!(of(Metric::Perplexity), Some(std::f64::consts::E));
        assert_eq!(of(Metric::Speed), Some(10.0));
        assert_eq!(of(Metric::PerToken), Some(100.0));
        assert_eq!(of(Metric::FirstToken), Some(250.0));
        assert_eq!(of(Metric::Passes), Some(6.0));
        assert_eq!(of(Metric::Cpu), Some(1.5));
        assert_eq!(of(Metric::Valid), None);
    }

    #[test]
    fn what_a_text_cannot_have_is_missing_and_not_zero() {
        let ended_at_once = line(&[0], true, "");
        assert_eq!(Metric::Length.of(&ended_at_once, None), Some(0.0));
        for n in 1..=3 {
            assert_eq!(Metric::Distinct(n).of(&ended_at_once, None), None);
        }
        assert_eq!(Metric::Distinct(3).of(&line(&[4, 5], false, ""), None), None);
        let instant = TextLine { seconds: 0.0, ..line(&[4], false, "") };
        assert_eq!(Metric::Speed.of(&instant, None), None);
        // One token has no time per token.
        assert_eq!(Metric::PerToken.of(&line(&[4], false, ""), None), None);
        // Texts of form 1 do not say what only this release measures.
        let old = TextLine { first_token_seconds: None, passes: None, cpu_seconds: None, ..line(&[4, 5], false, "") };
        for metric in [Metric::FirstToken, Metric::Passes, Metric::Cpu] {
            assert_eq!(metric.of(&old, None), None);
        }
        assert_eq!(Metric::PerToken.of(&old, None), Some(500.0));
        // A text that was refused is not measured as if it were one; valid it is not.
        let refused = TextLine { refused: Some("logits_nan".into()), ..line(&[4, 5], false, "{}") };
        let schema = Schema::read("{}").unwrap();
        for metric in Metric::all(true) {
            let expected = (metric == Metric::Valid).then_some(0.0);
            assert_eq!(metric.of(&refused, Some(&schema)), expected, "{metric:?}");
        }
        let impossible = TextLine { surprise: None, ..line(&[4], false, "") };
        assert_eq!(Metric::Perplexity.of(&impossible, None), None);
    }

    #[test]
    fn a_text_is_valid_when_it_is_json_that_the_schema_allows() {
        let schema = Schema::read(
            r#"{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false}"#,
        )
        .unwrap();
        let valid = |text: &str| Metric::Valid.of(&line(&[1], false, text), Some(&schema));
        for text in [r#"{"ok":true}"#, "\n {\"ok\" : false} \n"] {
            assert_eq!(valid(text), Some(1.0), "{text}");
        }
        for text in ["", "{", r#"{"ok":1}"#, r#"{"ok":true}."#, r#"{"ok":true,"no":1}"#, "true"] {
            assert_eq!(valid(text), Some(0.0), "{text}");
        }
        assert!(Schema::read("{").is_err());
        assert!(Schema::read(r#"{"type": "nothing"}"#).is_err());
    }
}
