//! What made a run, beside its start and its stop: the release that sampled, the model file, and what computed with it.

use super::form::form;
use super::json::{FieldError, Object};

/// The version of this crate.
pub const CRATE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The target this crate was built for, such as `wasm32-unknown-unknown`.
pub const TARGET: &str = env!("QUILLMATE_TARGET");

/// What this crate was built with: its cargo features, then the instruction sets the compiler might use, as `+simd128`. No
/// result depends on any of it.
pub const BUILD_FEATURES: &str = env!("QUILLMATE_FEATURES");

form! {
    /// What a run's replay depends on besides its start, and what it was made in. `null` is what nobody recorded; it is never
    /// made up.
    pub struct Identity {
        /// The release of quillmate-sampler that chose the tokens.
        pub crate_version: Option<String>,
        /// The target it was built for, such as `wasm32-unknown-unknown`.
        pub target: Option<String>,
        /// The model whose logits these are.
        pub model: ModelIdentity,
        /// The constraint tokens were chosen under, by name and version; `null`: there was none.
        pub constraint: Option<String>,
        /// The circumstances, on which no replay depends.
        pub environment: Environment,
    }
}

form! {
    /// The circumstances a run was made in. None of it changes a bit, so nothing is refused for it. It is reported
    /// beside a difference, to help explain one. A run that went on in other circumstances names all of them: `4, then 2`.
    pub struct Environment {
        /// What the crate that chose the tokens was built with: cargo features, then instruction sets, each with a plus.
        pub build_features: Option<String>,
        /// The server that ran it: its version, and the cargo features it was built with.
        pub server: Option<String>,
        /// What the processor that computed the logits offers, as far as kernels could use it, such as `avx2 f16c`.
        pub cpu_features: Option<String>,
        /// Which kernels computed them, by name: `avx2`, `plain`.
        pub kernels: Option<String>,
        /// How many threads did, in decimal.
        pub threads: Option<String>,
        /// How many tokens were drafted for a pass at most, in decimal; `0`: speculation was off.
        pub drafts: Option<String>,
    }
}

form! {
    /// Which model gave the logits, and what computed them.
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
}

impl Identity {
    /// What this very build can say of itself; of the model it knows nothing.
    #[must_use]
    pub fn of_this_release() -> Self {
        let environment = Environment { build_features: Some(BUILD_FEATURES.into()), ..Environment::default() };
        Self { crate_version: Some(CRATE_VERSION.into()), target: Some(TARGET.into()), environment, ..Self::default() }
    }

    /// The identity of a record of form 2, which said nothing of the environment.
    pub(super) fn from_form_2(object: Object) -> Result<Self, FieldError> {
        object.read(|it| {
            Ok(Self {
                crate_version: it.string_or_null("crate_version"),
                target: it.string_or_null("target"),
                model: it.form("model", ModelIdentity::from_object),
                constraint: it.string_or_null("constraint"),
                environment: Environment::default(),
            })
        })
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
}

impl ModelIdentity {
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
