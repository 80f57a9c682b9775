//! A language model as the server sees it: who it is, what its tokens are, and **logits that depend on the tokens alone**.
//!
//! What a [`Session`] says after a context is a function of the context's token ids, bit for bit: fed one by one, in one
//! pass or in pieces, with rejected drafts in between or without, whatever other sessions do. So neither a restart nor
//! speculation can change a text.

mod error;
pub mod kernels;
mod language_model;
pub mod llama;
pub mod smollm2;
pub mod tiny;
mod token_table;
mod tokenizer;

use std::path::Path;
use std::sync::Arc;

use smollm2::{Progress, SmolLm2};
use tiny::Tiny;

pub use error::ModelError;
pub use language_model::{Identity, LanguageModel, Session};
pub use token_table::TokenTable;

/// Loads a model: `tiny`, or a GGUF file that must have this SHA-256.
pub fn load(path: &Path, sha256: &str, progress: &Progress) -> Result<Arc<dyn LanguageModel>, ModelError> {
    if path.as_os_str() == "tiny" {
        return Ok(Arc::new(Tiny::new()?));
    }
    Ok(Arc::new(SmolLm2::load(path, sha256, progress)?))
}

/// Sees to it that models compute with so many threads: as many as cores, at most 8, if none is said. It changes how long
/// a step takes and not a bit of it.
pub fn use_threads(threads: Option<u16>) -> Result<(), rayon::ThreadPoolBuildError> {
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(8));
    let threads = threads.map_or_else(cores, usize::from);
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|at| format!("model {at}")).build_global()
}
