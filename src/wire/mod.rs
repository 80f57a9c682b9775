//! How is it stored and sent? Each form once: states, processors, frames, records, claims, identities, and the JSON they are
//! read from and written to.

pub mod claim;
mod decision;
mod form;
pub mod frame;
pub mod identity;
pub mod json;
pub mod processors;
pub mod record;
pub mod state;
pub mod trace;
pub mod version;
pub(crate) mod written;
