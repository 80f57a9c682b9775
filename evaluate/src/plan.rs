//! What is compared on what: two settings, prompts, seeds, and a model. The [`Header`] of an evaluation says all of it.

use std::path::Path;

use quillmate_sampler::json::{FieldError, Object};
use quillmate_sampler::wire::state::{parse_seed, settings};
use quillmate_sampler::wire::version::CONTRACT;
use quillmate_sampler::{GeneratorState, Run, RunSettings, StateError};
use quillmate_server::hex::hex;
use quillmate_server::model::{Identity, LanguageModel};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::EvaluateError;

/// Version of the results file and of what its numbers mean. Form 1, whose texts say neither how soon their first token came
/// nor what they cost, is gone on with.
pub const FORMAT: u64 = 2;
/// Fewer prompts than this are too few to say much, which the report then does.
pub const ENOUGH_PROMPTS: usize = 50;
/// The frozen prompts.
pub const PROMPTS: &str = include_str!("../prompts.json");

/// One of the two that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arm {
    /// The first.
    A,
    /// The second.
    B,
}

/// How texts are generated.
#[derive(Debug, Clone)]
pub struct Setting {
    settings: RunSettings,
    /// Tokens after which a text is over at the latest.
    pub max_tokens: u32,
}

impl Setting {
    /// Reads `{"temperature", "top_k", "top_p", "max_tokens"}`, with `"processors"` where there are some: but for
    /// `max_tokens` the settings of a state, read by the reader of states.
    ///
    /// # Errors
    /// What the reader of states refuses, and a `max_tokens` that is not from 1 to 4096.
    pub fn read(text: &str) -> Result<Self, StateError> {
        Object::parse(text)?.named("settings").read(|it| {
            let max_tokens = u32::try_from(it.integer("max_tokens")).ok().filter(|most| (1..=4096).contains(most));
            let max_tokens = max_tokens.ok_or(FieldError::Type {
                path: "settings.max_tokens".into(),
                expected: "an integer from 1 to 4096",
                found: "another number".into(),
            })?;
            Ok(Self { settings: settings(it)?, max_tokens })
        })
    }

    /// The settings as the state writes them, and `max_tokens`.
    pub fn to_json(&self) -> Value {
        let mut settings = serde_json::json!(self.settings);
        settings["max_tokens"] = self.max_tokens.into();
        settings
    }

    /// A run at step 0.
    pub fn run(&self, prompt: &[u32], seed: u64) -> Run {
        let RunSettings { settings, processors } = self.settings.clone();
        let state = GeneratorState { seed, prompt: prompt.to_vec(), tokens: Vec::new(), settings, processors };
        Run::from_state(state)
    }
}

/// A prompt of the file.
#[derive(Debug, Clone, Deserialize)]
pub struct Prompt {
    /// Its name, unique in the file.
    pub id: String,
    /// Where it comes from.
    pub book: String,
    /// The text that is continued.
    pub text: String,
}

#[derive(Deserialize)]
struct PromptFile {
    prompts: Vec<Prompt>,
}

/// Prompts, and the digest of the file they came from.
#[derive(Debug, Clone)]
pub struct Prompts {
    /// In the order of the file.
    pub list: Vec<Prompt>,
    sha256: String,
}

impl Prompts {
    /// Reads a file of prompts.
    ///
    /// # Errors
    /// What is not such a file, is empty, or names a prompt twice.
    pub fn read(text: &str) -> Result<Self, EvaluateError> {
        let file: PromptFile = serde_json::from_str(text).map_err(|error| EvaluateError::Prompts(error.to_string()))?;
        if file.prompts.is_empty() {
            return Err(EvaluateError::Prompts("there are none".into()));
        }
        for (at, prompt) in file.prompts.iter().enumerate() {
            if file.prompts[..at].iter().any(|before| before.id == prompt.id) {
                return Err(EvaluateError::Prompts(format!("{:?} is there twice", prompt.id)));
            }
        }
        Ok(Self { list: file.prompts, sha256: hex(&Sha256::digest(text)) })
    }
}

/// Reads seeds in decimal.
///
/// # Errors
/// What is no seed, and a seed that is there twice.
pub fn read_seeds(texts: &[String]) -> Result<Vec<u64>, EvaluateError> {
    let mut seeds = Vec::new();
    for text in texts {
        let seed = parse_seed(text)?;
        if seeds.contains(&seed) {
            return Err(EvaluateError::SeedTwice(seed));
        }
        seeds.push(seed);
    }
    Ok(seeds)
}

/// Reads settings from a file, or from the argument itself where that is a JSON object.
///
/// # Errors
/// A file that cannot be read, and what [`Setting::read`] refuses.
pub fn setting_of(argument: &str, side: Arm) -> Result<Setting, EvaluateError> {
    let text = if argument.trim_start().starts_with('{') { argument.to_owned() } else { read(Path::new(argument))? };
    Setting::read(&text).map_err(|error| EvaluateError::Setting(side, error))
}

/// A file's text.
///
/// # Errors
/// A file that cannot be read.
pub fn read(path: &Path) -> Result<String, EvaluateError> {
    std::fs::read_to_string(path).map_err(|error| EvaluateError::File(path.to_owned(), error))
}

/// All that a result depends on: the first line of the results file. Two evaluations with equal headers give equal texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u64,
    /// The sampler's contract.
    pub contract: String,
    /// The model file's name, digest and arithmetic.
    pub model: Value,
    /// SHA-256 of the file of prompts.
    pub prompts_sha256: String,
    /// How many there are.
    pub prompts: usize,
    /// The seeds of each prompt, in decimal.
    pub seeds: Vec<String>,
    /// The first settings.
    pub a: Value,
    /// The second settings.
    pub b: Value,
}

impl Header {
    fn new(model: &Identity, prompts: &Prompts, seeds: &[u64], a: &Setting, b: &Setting) -> Self {
        Self {
            format: FORMAT,
            contract: CONTRACT.into(),
            model: serde_json::json!(model),
            prompts_sha256: prompts.sha256.clone(),
            prompts: prompts.list.len(),
            seeds: seeds.iter().map(u64::to_string).collect(),
            a: a.to_json(),
            b: b.to_json(),
        }
    }

    /// Whether results with another header are results of this evaluation.
    pub fn goes_on(&self, other: &Self) -> bool {
        (1..=FORMAT).contains(&other.format) && *self == Self { format: self.format, ..other.clone() }
    }

    /// What differs from another header: a line for each.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let (here, there) = (serde_json::json!(self), serde_json::json!(other));
        let mut lines = Vec::new();
        for (name, value) in here.as_object().into_iter().flatten() {
            if there[name] != *value {
                lines.push(format!("{name} is {value} here and {} there", there[name]));
            }
        }
        lines
    }
}

/// One text to be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The prompt's place.
    pub prompt: usize,
    /// The seed.
    pub seed: u64,
    /// With which settings.
    pub side: Arm,
}

/// An evaluation to be made.
pub struct Plan {
    /// What it depends on.
    pub header: Header,
    /// The prompts.
    pub prompts: Vec<Prompt>,
    /// Their tokens.
    pub tokens: Vec<Vec<u32>>,
    a: Setting,
    b: Setting,
    /// Every text, in the order they are made.
    pub tasks: Vec<Task>,
}

impl Plan {
    /// Plans an evaluation.
    ///
    /// # Errors
    /// A prompt the model has no tokens for, or whose text would not fit the model's context.
    pub fn new(
        model: &dyn LanguageModel,
        prompts: Prompts,
        seeds: &[u64],
        a: Setting,
        b: Setting,
    ) -> Result<Self, EvaluateError> {
        let header = Header::new(model.identity(), &prompts, seeds, &a, &b);
        let mut tokens = Vec::new();
        let mut tasks = Vec::new();
        for (at, prompt) in prompts.list.iter().enumerate() {
            let ids = model
                .encode(&prompt.text)
                .map_err(|error| EvaluateError::Prompt(prompt.id.clone(), error.to_string()))?;
            let longest = a.max_tokens.max(b.max_tokens) as usize;
            if ids.is_empty() || ids.len() + longest > model.context() {
                let why = format!("{} tokens and {longest} more, of a context of {}", ids.len(), model.context());
                return Err(EvaluateError::Prompt(prompt.id.clone(), why));
            }
            tokens.push(ids);
            for (nth, &seed) in seeds.iter().enumerate() {
                // Which comes first alternates, so that a machine that slows down slows both.
                let sides = if (at + nth) % 2 == 0 { [Arm::A, Arm::B] } else { [Arm::B, Arm::A] };
                tasks.extend(sides.map(|side| Task { prompt: at, seed, side }));
            }
        }
        Ok(Self { header, prompts: prompts.list, tokens, a, b, tasks })
    }

    /// The settings of a side.
    pub fn setting(&self, side: Arm) -> &Setting {
        match side {
            Arm::A => &self.a,
            Arm::B => &self.b,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quillmate_sampler::Refusal;

    #[test]
    fn settings_are_read_by_the_reader_of_states() {
        let whole = r#"{"max_tokens": 48, "temperature": 0.8, "top_k": 50, "top_p": 0.95}"#;
        let expected = serde_json::json!({"temperature": 0.8, "top_k": 50, "top_p": 0.95, "max_tokens": 48});
        assert_eq!(Setting::read(whole).unwrap().to_json(), expected);
        let penalty = serde_json::json!({"name": "repetition_penalty", "version": 1, "penalty": 1.2});
        let mut with_penalty = expected.clone();
        with_penalty["processors"] = serde_json::json!([penalty]);
        let read = Setting::read(&with_penalty.to_string()).unwrap();
        assert_eq!(read.to_json()["processors"][0]["penalty"], 1.2);
        let state = serde_json::json!(read.run(&[1, 2], 7).state());
        assert_eq!((&state["seed"], &state["prompt"]), (&"7".into(), &serde_json::json!([1, 2])));
        assert_eq!(state["settings"]["processors"][0]["name"], "repetition_penalty");
        with_penalty["processors"][0]["penalty"] = 0.into();
        assert!(Setting::read(&with_penalty.to_string()).is_err());
        for (text, code, named) in [
            (r#"{"temperature":0.8,"top_k":50,"top_p":0.95}"#, "field_missing", "settings.max_tokens"),
            (r#"{"temperature":0.8,"top_k":50,"max_tokens":9}"#, "field_missing", "settings.top_p"),
            (r#"{"temperature":0.8,"top_k":50,"top_p":1,"topP":1,"max_tokens":9}"#, "field_unknown", "settings.topP"),
            (
                r#"{"temperature":0.8,"top_k":50,"top_p":1,"top_p":1,"max_tokens":9}"#,
                "field_repeated",
                "settings.top_p",
            ),
            (r#"{"temperature":0.8,"top_k":50,"top_p":1,"max_tokens":0}"#, "field_type", "settings.max_tokens"),
            (r#"{"temperature":-1,"top_k":50,"top_p":1,"max_tokens":9}"#, "temperature_out_of_range", "-1"),
            ("[]", "json_syntax", ""),
        ] {
            let error = Setting::read(text).unwrap_err();
            assert_eq!(error.code(), code, "{text}");
            assert!(error.to_string().contains(named), "{error}");
        }
    }

    #[test]
    fn the_frozen_prompts_are_sixty_from_six_novels() {
        let prompts = Prompts::read(PROMPTS).unwrap();
        assert_eq!(prompts.list.len(), 60);
        let mut books: Vec<&str> = prompts.list.iter().map(|prompt| prompt.book.as_str()).collect();
        books.dedup();
        assert_eq!(books.len(), 6);
        for prompt in &prompts.list {
            assert!((200..=420).contains(&prompt.text.len()), "{}", prompt.id);
        }
        // Changed prompts are another evaluation: nobody's stored results go on with them.
        assert_eq!(prompts.sha256, "5b165e1224e23b2c6c9c1cff85aaa4e86dbcb8e85e6038301e914519293a855e");
    }

    #[test]
    fn every_text_is_planned_once_and_either_side_comes_first_as_often() {
        let setting = || Setting::read(r#"{"temperature":1,"top_k":0,"top_p":1,"max_tokens":4}"#).unwrap();
        let model = quillmate_server::model::tiny::Tiny::new().unwrap();
        let plan = Plan::new(&model, Prompts::read(PROMPTS).unwrap(), &[1, 2, 3, 4, 5], setting(), setting()).unwrap();
        assert_eq!(plan.tasks.len(), 60 * 5 * 2);
        let mut first = 0;
        for (at, pair) in plan.tasks.as_chunks::<2>().0.iter().enumerate() {
            let [one, two] = pair;
            assert_eq!((one.prompt, one.seed, one.prompt, one.seed), (two.prompt, two.seed, at / 5, at as u64 % 5 + 1));
            assert_ne!(one.side, two.side);
            first += usize::from(one.side == Arm::A);
        }
        assert_eq!(first, 150);
    }

    #[test]
    fn prompts_and_seeds_that_are_there_twice_are_refused() {
        let twice = r#"{"prompts":[{"id":"a","book":"","text":"x"},{"id":"a","book":"","text":"y"}]}"#;
        assert!(Prompts::read(twice).is_err());
        assert!(Prompts::read(r#"{"prompts":[]}"#).is_err());
        let seeds = |texts: &[&str]| read_seeds(&texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
        assert_eq!(seeds(&["18446744073709551615", "0"]).unwrap(), [u64::MAX, 0]);
        for wrong in [&["1", "1"][..], &["-1"], &["01"], &["18446744073709551616"], &[""]] {
            assert!(seeds(wrong).is_err(), "{wrong:?}");
        }
    }
}
