//! What is stored and exchanged: runs, their state, logits on the wire, and the check of a claim.

pub mod again;
pub mod any_state;
pub mod batch;
pub mod divergence;
pub mod frame;
pub mod generator;
pub mod identity;
pub mod json;
pub mod mosaic;
pub mod processors;
pub mod record;
pub mod record_divergence;
pub mod record_file;
pub(crate) mod sets;
pub mod speculation;
pub mod state;
pub mod trace;
pub mod trace_divergence;
pub mod verify;
pub mod version;
pub(crate) mod written;
