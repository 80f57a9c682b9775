//! What made a run, beside its start and its stop: the release that sampled, the model file, and what computed with it.

use super::json::{FieldError, Object};
use super::written::{Entries, Value, serialize_written};

/// The version of this crate.
pub const CRATE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The target this crate was built for, such as `wasm32-unknown-unknown`.
pub const TARGET: &str = env!("QUILLMATE_TARGET");

/// What a run's replay depends on besides its start. What nobody recorded is `None` (`null` in JSON), never made up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The version of the crate that chose the tokens.
    pub crate_version: Option<String>,
    /// The target it was built for.
    pub target: Option<String>,
    /// The model whose logits these are.
    pub model: ModelIdentity,
    /// The constraint tokens were chosen under, by name and version; `None`: there was none.
    pub constraint: Option<String>,
}

/// Which model gave the logits, and what computed them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelIdentity {
    /// A name for people; no comparison looks at it.
    pub name: Option<String>,
    /// SHA-256 of the model file, in hex.
    pub sha256: Option<String>,
    /// What computed with it, by name and version.
    pub arithmetic: Option<String>,
    /// SHA-256 of the tokenizer, in hex.
    pub tokenizer_sha256: Option<String>,
    /// How many tokens the vocabulary has.
    pub vocab: Option<u64>,
}

impl Identity {
    /// What this very build can say of itself; of the model it knows nothing.
    #[must_use]
    pub fn of_this_release() -> Self {
        Self { crate_version: Some(CRATE_VERSION.into()), target: Some(TARGET.into()), ..Self::default() }
    }

    /// Reads an identity: every field there, `null` where it is not known.
    ///
    /// # Errors
    /// A missing, unknown or mistyped field.
    pub fn from_object(object: Object) -> Result<Self, FieldError> {
        object.read(|it| {
            Ok(Self {
                crate_version: it.string_or_null("crate_version"),
                target: it.string_or_null("target"),
                model: ModelIdentity::from_object(it.object("model"))?,
                constraint: it.string_or_null("constraint"),
            })
        })
    }

    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text_or_null("crate_version", self.crate_version.as_deref());
        it.text_or_null("target", self.target.as_deref());
        it.set("model", self.model.written());
        it.text_or_null("constraint", self.constraint.as_deref());
        Value::Object(it)
    }

    /// What two releases are told apart by: its name, and what each says.
    pub(super) fn beside<'a>(&'a self, other: &'a Self) -> [(&'static str, &'a Option<String>, &'a Option<String>); 5] {
        let (mine, theirs) = (&self.model, &other.model);
        [
            ("crate version", &self.crate_version, &other.crate_version),
            ("target", &self.target, &other.target),
            ("model file", &mine.sha256, &theirs.sha256),
            ("arithmetic", &mine.arithmetic, &theirs.arithmetic),
            ("tokenizer", &mine.tokenizer_sha256, &theirs.tokenizer_sha256),
        ]
    }
}

serialize_written!(Identity, ModelIdentity);

impl ModelIdentity {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text_or_null("name", self.name.as_deref());
        it.text_or_null("sha256", self.sha256.as_deref());
        it.text_or_null("arithmetic", self.arithmetic.as_deref());
        it.text_or_null("tokenizer_sha256", self.tokenizer_sha256.as_deref());
        it.integer_or_null("vocab", self.vocab);
        Value::Object(it)
    }

    fn from_object(object: Object) -> Result<Self, FieldError> {
        object.read(|it| {
            Ok(Self {
                name: it.string_or_null("name"),
                sha256: it.string_or_null("sha256"),
                arithmetic: it.string_or_null("arithmetic"),
                tokenizer_sha256: it.string_or_null("tokenizer_sha256"),
                vocab: it.integer_or_null("vocab"),
            })
        })
    }

    /// The model of a record of form 1, which did not always say what computed with it.
    pub(super) fn from_form_1(object: Object) -> Result<Self, FieldError> {
        object.read(|it| {
            Ok(Self {
                name: Some(it.string("name")),
                sha256: Some(it.string("sha256")),
                arithmetic: it.has("arithmetic").then(|| it.string("arithmetic")),
                tokenizer_sha256: Some(it.string("tokenizer_sha256")),
                vocab: Some(it.integer("vocab")),
            })
        })
    }
}
