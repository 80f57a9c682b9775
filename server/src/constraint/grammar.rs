//! JSON Schema, grammars and regular expressions, read by llguidance.
//!
//! A token is allowed when its bytes can go on from the bytes before, whatever tokens those came in; tokens are never
//! forced and the tokenizer is not asked, so the vocabulary's bytes are all it takes. Work is bounded by counts (symbols,
//! lexer states, items), not by clocks: what is refused here is refused everywhere.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::guidance;
use super::reader::{Compiled, Unusable};
use super::source::Source;
use crate::model::LanguageModel;
use llguidance::api::{ParserLimits, StopReason, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, InferenceCapabilities, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Logger, ParserFactory, TokenParser};
use quillmate_sampler::constraint::{Allowed, Constraint, ConstraintError};

/// The most a message says.
const MESSAGE: usize = 400;

fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 2000,
        // 20 ms at the most, by llguidance's own account.
        initial_lexer_fuel: 1_000_000,
        // 14 ms.
        step_lexer_fuel: 200_000,
        // 3 ms.
        step_max_items: 50_000,
        // One to two kilobytes each.
        max_lexer_states: 20_000,
        max_grammar_size: 100_000,
        precompute_large_lexemes: false,
        verbose_errors: false,
    }
}

/// Compiles a constraint from its source.
pub fn compile(source: &Source, model: &dyn LanguageModel) -> Result<Arc<dyn Compiled>, Unusable> {
    let grammar = match source {
        Source::JsonSchema(schema) => TopLevelGrammar::from_json_schema(guidance::with_defaults(schema)),
        Source::Lark(text) => TopLevelGrammar::from_lark(text.clone()),
        // llguidance would leave such a backslash out.
        Source::Regex(text) if text.bytes().rev().take_while(|&byte| byte == b'\\').count() % 2 == 1 => {
            return Err(Unusable::Invalid("the regular expression ends in a backslash with nothing behind it".into()));
        }
        Source::Regex(text) => TopLevelGrammar::from_regex(text),
    };
    let invalid = |error: &dyn std::fmt::Display| Unusable::Invalid(plainly(error));
    let factory = factory(model).map_err(Unusable::Invalid)?;
    let mut parser = factory
        .create_parser_from_init_ext(
            llguidance::api::GrammarInit::Serialized(grammar),
            // Says nothing and keeps nothing.
            Logger::new(0, 0),
            InferenceCapabilities::default(),
            limits(),
        )
        .map_err(|error| invalid(&error))?;
    parser.start_without_prompt();
    Ok(Arc::new(Grammar {
        parser: Mutex::new(parser),
        vocabulary: model.identity().vocab,
        ends: model.end_tokens().to_vec(),
    }))
}

/// A compiled grammar. Its parser is never asked anything: what was computed for one run must not spare another the fuel
/// it is bounded by.
struct Grammar {
    parser: Mutex<TokenParser>,
    vocabulary: u32,
    ends: Vec<u32>,
}

impl Compiled for Grammar {
    fn begin(&self) -> Box<dyn Constraint + Send> {
        let fresh = self.parser.lock().unwrap_or_else(PoisonError::into_inner).deep_clone();
        Box::new(Matcher {
            parser: fresh.deep_clone(),
            fresh,
            vocabulary: self.vocabulary,
            ends: self.ends.clone(),
            consumed: Vec::new(),
            next: None,
        })
    }
}

/// The tokens of the model that was asked for last, as llguidance wants them: with a real vocabulary they take longer to
/// make than most constraints.
static LAST: Mutex<Option<(String, Arc<ParserFactory>)>> = Mutex::new(None);

fn factory(model: &dyn LanguageModel) -> Result<Arc<ParserFactory>, String> {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let tokenizer = &model.identity().tokenizer_sha256;
    if let Some((of, factory)) = &*last
        && of == tokenizer
    {
        return Ok(Arc::clone(factory));
    }
    let factory = Arc::new(make_factory(model)?);
    *last = Some((tokenizer.clone(), Arc::clone(&factory)));
    Ok(factory)
}

fn make_factory(model: &dyn LanguageModel) -> Result<ParserFactory, String> {
    let (vocabulary, ends) = (model.identity().vocab, model.end_tokens());
    let words: Vec<Vec<u8>> = (0..vocabulary)
        .map(|id| {
            let bytes = model.tokens().get(id);
            // A leading 0xff would mark a special token; no text holds one. What ends a text is no text.
            if bytes.first() == Some(&TokTrie::SPECIAL_TOKEN_MARKER) || ends.contains(&id) {
                Vec::new()
            } else {
                bytes.to_vec()
            }
        })
        .collect();
    let Some(&end) = ends.first() else {
        return Err("the model has no token that ends a text".into());
    };
    let trie = TokTrie::from(&TokRxInfo::new(vocabulary, end), &words).with_eos_tokens(ends);
    let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    ParserFactory::new(&environment, InferenceCapabilities::default(), &[]).map_err(|error| shorten(&error))
}

/// What is wrong with a constraint. llguidance reports some of it as a panic that it caught.
fn plainly(error: &dyn std::fmt::Display) -> String {
    let text = shorten(error);
    match text.strip_prefix("panic: ") {
        Some(why) if why.contains("special token") => {
            "special tokens cannot be asked for: a constraint is about text, and they have none".into()
        }
        Some(why) => format!("it cannot be read: {why}"),
        None => text,
    }
}

fn shorten(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    // Behind these it tells its own developers how it came there.
    let text =
        ["<non-verbose/>", "<backtrace>"].iter().fold(&*text, |text, mark| text.split(mark).next().unwrap_or(text));
    let text = text.trim();
    match text.char_indices().nth(MESSAGE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A constraint under way. The parser has seen `consumed`; asked about tokens that go on from there it goes on, asked about
/// others it begins anew.
struct Matcher {
    fresh: TokenParser,
    parser: TokenParser,
    vocabulary: u32,
    ends: Vec<u32>,
    consumed: Vec<u32>,
    /// What is allowed after `consumed`, once it was asked.
    next: Option<Allowed>,
}

impl Matcher {
    /// What is allowed after `consumed`.
    fn next(&mut self) -> Result<&Allowed, ConstraintError> {
        let next = match self.next.take() {
            Some(next) => next,
            None => self.compute()?,
        };
        Ok(self.next.insert(next))
    }

    fn compute(&mut self) -> Result<Allowed, ConstraintError> {
        let mut allowed = Allowed::none(self.vocabulary);
        let over = self.consumed.last().is_some_and(|token| self.ends.contains(token));
        if over || matches!(self.parser.stop_reason(), StopReason::NoExtension | StopReason::EndOfSentence) {
            for &end in &self.ends {
                allowed.allow(end);
            }
            return Ok(allowed);
        }
        let mask = guarded(|| self.parser.compute_mask());
        match mask {
            Ok(mask) => {
                for id in mask.iter() {
                    allowed.allow(id);
                }
                Ok(allowed)
            }
            // Nothing goes on from here, and the text is not whole.
            Err(_) if self.parser.stop_reason() == StopReason::NoExtensionBias => Ok(allowed),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, error: String) -> ConstraintError {
        match self.parser.stop_reason() {
            StopReason::LexerTooComplex | StopReason::ParserTooComplex => ConstraintError::TooComplex(error),
            _ => ConstraintError::Failed(error),
        }
    }

    /// Goes on by a token that is allowed.
    fn consume(&mut self, token: u32) -> Result<(), ConstraintError> {
        if !self.ends.contains(&token) {
            let consumed = guarded(|| self.parser.consume_token(token).and_then(|_| self.parser.check_stop()));
            consumed.map_err(|error| self.failed(error))?;
        }
        self.consumed.push(token);
        self.next = None;
        Ok(())
    }
}

/// A panic in there costs a run its step, not the server its thread.
fn guarded<T, E: std::fmt::Display>(work: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(shorten(&error)),
        Err(_) => Err("it panicked".into()),
    }
}

impl Constraint for Matcher {
    fn allowed(&mut self, tokens: &[u32]) -> Result<Allowed, ConstraintError> {
        if !tokens.starts_with(&self.consumed) {
            self.parser = self.fresh.deep_clone();
            self.consumed.clear();
            self.next = None;
        }
        while let Some(&token) = tokens.get(self.consumed.len()) {
            let index = self.consumed.len() as u64;
            if !self.next()?.contains(token) {
                return Err(ConstraintError::Violated { index, token });
            }
            self.consume(token)?;
        }
        self.next().cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::constraint::STACK;
    use crate::model::tiny::Tiny;

    fn made(source: Source) -> Result<Box<dyn Constraint + Send>, Unusable> {
        Ok(compile(&source, &Tiny::new().unwrap())?.begin())
    }

    /// Every token that is allowed leads on, and no other does: what a mask says is what consuming does.
    #[test]
    fn the_allowed_tokens_are_those_whose_bytes_go_on() {
        let model = Tiny::new().unwrap();
        let texts = ["the light", "the lamp", "she was", "caf\u{e9} \u{20ac}"];
        let mut constraint = made(Source::Regex(texts.join("|"))).unwrap();
        let mut begun = vec![(Vec::new(), String::new().into_bytes())];
        let mut whole = 0;
        while let Some((tokens, text)) = begun.pop() {
            let allowed = constraint.allowed(&tokens).unwrap();
            for id in 0..model.identity().vocab {
                let bytes = model.tokens().get(id);
                let next = [&text[..], bytes].concat();
                let expected = if bytes.is_empty() {
                    texts.iter().any(|text| text.as_bytes() == next)
                } else {
                    texts.iter().any(|text| text.as_bytes().starts_with(&next))
                };
                assert_eq!(allowed.contains(id), expected, "{id} after {text:?}");
                if expected && bytes.is_empty() {
                    whole += 1;
                } else if expected && (bytes.len() > 1 || tokens.len() < 3) {
                    begun.push(([&tokens[..], &[id]].concat(), next));
                }
            }
        }
        assert!(whole > 0);
    }

    #[test]
    fn a_regex_is_a_regex_whatever_is_in_it() {
        let byte = |byte: u8| u32::from(byte) + 1;
        // What would end it in a grammar, begin a comment there, or be a rule.
        for text in ["a/b", "a\\/b", "//", "a\nstart: /x/", "a\\\\/ | /x", "#/ %json {}"] {
            let Ok(mut constraint) = made(Source::Regex(text.into())) else { continue };
            let first = constraint.allowed(&[]).unwrap();
            assert!(!first.contains(byte(b'x')), "{text:?}");
            assert!(first.contains(byte(text.as_bytes()[0])), "{text:?}");
        }
        let slash = [b'a', b'/', b'b'].map(byte);
        assert!(made(Source::Regex("a/b".into())).unwrap().allowed(&slash).unwrap().contains(0));
        for text in ["a\\", "a\\\\\\", "["] {
            assert_eq!(made(Source::Regex(text.into())).err().map(|error| error.code()), Some("constraint_invalid"));
        }
        assert!(made(Source::Regex("a\\\\".into())).unwrap().allowed(&[byte(b'a')]).unwrap().contains(byte(b'\\')));
    }

    #[test]
    fn it_goes_back_and_elsewhere_as_if_it_had_never_been_asked() {
        let asked = Source::JsonSchema(json!({"type": "array", "items": {"enum": ["a", "the", 10]}, "maxItems": 3}));
        let byte = |byte: u8| u32::from(byte) + 1;
        let paths: Vec<Vec<u32>> = ["[", "[]", "[\"a\", 10", "[10, \"the", "", "[10]", "[\"a\", \"a\", 10]"]
            .iter()
            .map(|text| text.bytes().map(byte).collect())
            .collect();
        let mut kept = made(asked.clone()).unwrap();
        for path in paths.iter().chain(paths.iter().rev()) {
            assert_eq!(kept.allowed(path), made(asked.clone()).unwrap().allowed(path), "{path:?}");
            let wrong = [&path[..], &[byte(b'?')]].concat();
            let violated = ConstraintError::Violated { index: path.len() as u64, token: byte(b'?') };
            assert_eq!(kept.allowed(&wrong), Err(violated));
        }
    }

    #[test]
    fn the_longest_chains_fit_in_a_quarter_of_the_stack() {
        let name = |at: u32, first: u8| {
            [at / 676, at / 26 % 26, at % 26].map(|digit| char::from(first + digit as u8)).iter().collect::<String>()
        };
        for first in [b'a', b'A'] {
            // Eight bytes a rule, to the limit.
            let rules: String = (0..8100).map(|at| format!("{}:{}\n", name(at, first), name(at + 1, first))).collect();
            let grammar = format!("start:{}\n{rules}{}:\"x\"\n", name(0, first), name(8100, first));
            assert!((64_000..65_536).contains(&grammar.len()));
            let work = move || match made(Source::Lark(grammar)) {
                Ok(mut constraint) => assert!(constraint.allowed(&[]).unwrap().iter().eq([u32::from(b'x') + 1])),
                Err(error) => assert_eq!(error.code(), "constraint_invalid", "{error}"),
            };
            std::thread::Builder::new().stack_size(STACK / 4).spawn(work).unwrap().join().unwrap();
        }
    }
}
