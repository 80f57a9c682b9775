//! The loops over whole rows and frames. A package of its own, so that in the wasm they are optimized for speed and all
//! else for size.

pub mod checksum;
pub mod rows;
