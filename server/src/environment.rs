//! The environment this server computes in, for the records of its runs. No bit of a run depends on it.

use quillmate_sampler::{BUILD_FEATURES, Environment};

use crate::model::LanguageModel;

/// What this process computes with, now that its model is loaded; `drafts` are the most it drafts for a pass.
pub fn environment(model: &dyn LanguageModel, drafts: usize) -> Environment {
    Environment {
        build_features: Some(BUILD_FEATURES.to_owned()),
        // Constraints are always built in. The word stays, so that records of before and after compare as equal here.
        server: Some(concat!(env!("CARGO_PKG_VERSION"), " grammar").to_owned()),
        cpu_features: Some(cpu_features()),
        kernels: Some(model.kernels().to_owned()),
        threads: Some(rayon::current_num_threads().to_string()),
        drafts: Some(drafts.to_string()),
    }
}

/// Instruction sets this processor has, of those that programs of this kind choose their code by.
fn cpu_features() -> String {
    macro_rules! found {
        ($detected:ident: $($name:tt)*) => {
            [$(($name, std::arch::$detected!($name))),*]
        };
    }
    #[cfg(target_arch = "x86_64")]
    let all = found!(is_x86_feature_detected: "sse4.2" "avx" "avx2" "f16c" "fma" "avx512f" "avx512bw" "avx512vl" "avx512vnni" "avxvnni");
    #[cfg(target_arch = "aarch64")]
    let all = found!(is_aarch64_feature_detected: "neon" "fp16" "dotprod" "i8mm" "sve" "sve2");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let all: [(&str, bool); 0] = [];
    let there: Vec<&str> = all.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    there.join(" ")
}
