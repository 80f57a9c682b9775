//! The sampler's native tests, in one binary, because each binary is compiled and linked again for every processor.
#![cfg(not(target_arch = "wasm32"))]

#[path = "../shared/oracle.rs"]
mod oracle;
#[path = "../shared/differential.rs"]
mod rows;
#[path = "../shared/share.rs"]
mod share;
#[path = "../shared/mod.rs"]
mod shared;

mod batch;
mod constraint;
mod contract_vectors;
mod differential;
mod divergence;
mod errors;
mod exp_oracle;
mod fast;
mod first_divergence;
mod frames;
mod generator;
mod ln_oracle;
mod mosaic;
mod processors;
mod reference;
mod refusals;
mod seeds;
mod sparse;
mod speculative;
mod trace;
mod verify;
