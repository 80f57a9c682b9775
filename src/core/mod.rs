//! Pure arithmetic, without serialization, clocks, files or hash maps.

pub mod candidates;
pub mod decision;
pub mod derive;
pub mod distribution;
pub mod error;
pub mod exp;
#[doc(hidden)]
pub mod fast;
pub mod ln;
pub mod logits;
pub mod processors;
pub(crate) mod rank;
pub mod refusal;
pub mod sample;
pub mod settings;
pub mod sparse;
pub mod speculative;
pub mod splitmix;
pub mod text;
