//! A constraint as it is stored with its run.

use std::sync::Arc;

use quillmate_sampler::json::Fields;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::grammar;
use super::reader::{Compiled, ENGINE, Unusable};
use super::source::{Source, TakeError};
use crate::hex::hex;
use crate::model::LanguageModel;

/// A constraint as it is stored with its run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoredConstraint {
    /// What reads it.
    engine: String,
    /// What was asked for.
    #[serde(flatten)]
    source: Source,
}

/// The constraint of a run, as a client sees it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "RunConstraint")]
pub struct Shown<'a> {
    /// What reads it, by name and version.
    engine: &'a str,
    #[serde(flatten)]
    source: &'a Source,
    /// SHA-256, in hex, of the constraint's compact JSON: `engine` first and without this.
    sha256: String,
}

impl StoredConstraint {
    /// Takes the field `constraint` of a request, if it is there.
    pub fn take(body: &mut Fields) -> Result<Option<Self>, TakeError> {
        Ok(Source::take(body)?.map(|source| Self { engine: ENGINE.into(), source }))
    }

    /// As it is stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        json!(self).to_string()
    }

    /// Reads what was stored.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// As a client sees it.
    #[must_use]
    pub fn show(&self) -> Shown<'_> {
        Shown { engine: &self.engine, source: &self.source, sha256: self.sha256() }
    }

    /// Which it is, in a word: what reads it and its digest. Two that differ in anything have different names.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} {}", self.engine, self.sha256())
    }

    fn sha256(&self) -> String {
        hex(&Sha256::digest(self.to_json()))
    }

    /// Compiles the constraint for a model's tokens. It takes time and stack ([`STACK`](super::STACK));
    /// [`Constraints`](super::Constraints) does it once.
    pub fn compile(&self, model: &dyn LanguageModel) -> Result<Arc<dyn Compiled>, Unusable> {
        if self.engine != ENGINE {
            return Err(Unusable::Mismatch { kept: self.engine.clone() });
        }
        grammar::compile(&self.source, model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constraint_is_kept_with_its_reader_and_known_by_both() {
        let schema = json!({"z": {"enum": [-5, 7, u64::MAX, 0.1, null, true, "aé\n", [{"b": 1, "a": 2}]]}, "a": {"minimum": -0.5}});
        let expected = format!("{{\"engine\":\"{ENGINE}\",\"json_schema\":{schema}}}");
        let kept = StoredConstraint { engine: ENGINE.into(), source: Source::JsonSchema(schema) };
        assert_eq!(kept.to_json(), expected);
        assert_eq!(StoredConstraint::from_json(&kept.to_json()).unwrap(), kept);
        assert_eq!(kept.show().sha256, hex(&Sha256::digest(expected)));
        assert_eq!(kept.name(), format!("{ENGINE} {}", kept.show().sha256));
        let of_another_source = StoredConstraint { engine: ENGINE.into(), source: Source::JsonSchema(json!({})) };
        assert_ne!(kept.name(), of_another_source.name());
        let of_another_reader = StoredConstraint { engine: "another".into(), source: kept.source.clone() };
        assert_ne!(kept.name(), of_another_reader.name());
    }

    #[test]
    fn all_kinds_come_back_from_the_store() {
        for source in [Source::Lark("start: \"a\"".into()), Source::Regex("a+".into()), Source::JsonSchema(json!({}))] {
            let kept = StoredConstraint { engine: "another".into(), source };
            assert_eq!(StoredConstraint::from_json(&kept.to_json()).unwrap(), kept);
        }
        assert!(StoredConstraint::from_json("{\"engine\":\"a\"}").is_err());
    }
}
