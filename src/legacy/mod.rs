//! What did old runs mean? The older contract `mosaic-splitmix64-top-k-top-p-v1`: its sampler, its state and its traces.

pub mod any_state;
pub mod sampler;
pub mod state;
pub mod trace;
