//! What did old runs mean? The older contract `mosaic-splitmix64-top-k-top-p-v1`: its sampler, its state and its traces.
//!
//! The text of that contract follows; "CONTRACT.md" in it is the [documentation of this crate](crate).
//!
#![doc = include_str!("../../docs/legacy-contract.md")]

pub mod any_state;
pub mod sampler;
pub mod state;
pub mod trace;
