//! What made a run, beside its start and its stop: the release that sampled, the model file, and what computed with it.

use super::json::{FieldError, Object};
use super::written::{Entries, Value, serialize_written};

/// The version of this crate.
pub const CRATE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The target this crate was built for, such as `wasm32-unknown-unknown`.
pub const TARGET: &str = env!("QUILLMATE_TARGET");

/// What this crate was built with: its cargo features, then the instruction sets the compiler might use, as `+simd128`. No
/// result depends on any of it.
pub const BUILD_FEATURES: &str = env!("QUILLMATE_FEATURES");

/// What a run's replay depends on besides its start, and what it was made in. What nobody recorded is `None` (`null` in
/// JSON), never made up.
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
    /// The circumstances, on which no replay depends.
    pub environment: Environment,
}

/// The circumstances a run was made in. By the contract and by the server's arithmetic none of it changes a bit, so nothing
/// is refused for it; it is said beside a difference, for whoever has to explain one. A run that went on in other
/// circumstances names all of them, `4, then 2`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// What the crate that chose the tokens was built with, as [`BUILD_FEATURES`].
    pub build_features: Option<String>,
    /// The server that ran it: its version, and what it was built with, as `0.1.0 grammar`.
    pub server: Option<String>,
    /// What the processor that computed the logits offers, as far as kernels could use it, as `avx2 f16c`.
    pub cpu_features: Option<String>,
    /// Which of its kernels computed them, by name: `avx2`, `plain`.
    pub kernels: Option<String>,
    /// How many threads did, in decimal.
    pub threads: Option<String>,
    /// How many tokens were drafted for a pass at the most, in decimal; `0`: none, speculation was off.
    pub drafts: Option<String>,
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
        let environment = Environment { build_features: Some(BUILD_FEATURES.into()), ..Environment::default() };
        Self { crate_version: Some(CRATE_VERSION.into()), target: Some(TARGET.into()), environment, ..Self::default() }
    }

    /// Reads an identity: every field there, `null` where it is not known.
    ///
    /// # Errors
    /// A missing, unknown or mistyped field.
    pub fn from_object(object: Object) -> Result<Self, FieldError> {
        Self::read(object, true)
    }

    /// The identity of a record of form 2, which said nothing of the environment.
    pub(super) fn from_form_2(object: Object) -> Result<Self, FieldError> {
        Self::read(object, false)
    }

    fn read(object: Object, environment: bool) -> Result<Self, FieldError> {
        object.read(|it| {
            Ok(Self {
                crate_version: it.string_or_null("crate_version"),
                target: it.string_or_null("target"),
                model: ModelIdentity::from_object(it.object("model"))?,
                constraint: it.string_or_null("constraint"),
                environment: if environment {
                    Environment::from_object(it.object("environment"))?
                } else {
                    Environment::default()
                },
            })
        })
    }

    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text_or_null("crate_version", self.crate_version.as_deref());
        it.text_or_null("target", self.target.as_deref());
        it.set("model", self.model.written());
        it.text_or_null("constraint", self.constraint.as_deref());
        it.set("environment", self.environment.written());
        Value::Object(it)
    }

    /// What a replay depends on besides the start, each by its name. (The constraint is part of the run.)
    pub(crate) fn parts(&self) -> Vec<(&'static str, Option<String>)> {
        let Self { crate_version, target, model, constraint: _, environment: _ } = self;
        vec![
            ("crate version", crate_version.clone()),
            ("target", target.clone()),
            ("model file", model.sha256.clone()),
            ("arithmetic", model.arithmetic.clone()),
            ("tokenizer", model.tokenizer_sha256.clone()),
            ("vocabulary", model.vocab.map(|vocab| vocab.to_string())),
        ]
    }
}

impl Environment {
    /// Each circumstance by its name.
    pub(crate) fn parts(&self) -> Vec<(&'static str, Option<String>)> {
        let Self { build_features, server, cpu_features, kernels, threads, drafts } = self;
        vec![
            ("build features", build_features.clone()),
            ("server", server.clone()),
            ("processor features", cpu_features.clone()),
            ("kernels", kernels.clone()),
            ("threads", threads.clone()),
            ("drafts", drafts.clone()),
        ]
    }

    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text_or_null("build_features", self.build_features.as_deref());
        it.text_or_null("server", self.server.as_deref());
        it.text_or_null("cpu_features", self.cpu_features.as_deref());
        it.text_or_null("kernels", self.kernels.as_deref());
        it.text_or_null("threads", self.threads.as_deref());
        it.text_or_null("drafts", self.drafts.as_deref());
        Value::Object(it)
    }

    /// Reads the circumstances: every field there, `null` where it is not known.
    ///
    /// # Errors
    /// A missing, unknown or mistyped field.
    pub fn from_object(object: Object) -> Result<Self, FieldError> {
        object.read(|it| {
            Ok(Self {
                build_features: it.string_or_null("build_features"),
                server: it.string_or_null("server"),
                cpu_features: it.string_or_null("cpu_features"),
                kernels: it.string_or_null("kernels"),
                threads: it.string_or_null("threads"),
                drafts: it.string_or_null("drafts"),
            })
        })
    }
}

serialize_written!(Identity, ModelIdentity, Environment);

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
