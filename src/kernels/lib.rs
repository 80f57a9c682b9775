//! The loops over whole rows and frames. They are a separate package, so that in the wasm they are optimized for speed and
//! the rest for size.

pub mod checksum;
pub mod rows;
