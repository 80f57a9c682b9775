//! Quillmate's server: a language model whose runs come back bit for bit.
//!
//! A request starts a run, and every step of it (logits and token) is on disk before a client sees it.
//! The tokens are chosen by [`quillmate_sampler`], the same code that runs in the page; see `API.md` for the calls.

pub mod app;
pub mod constraint;
pub mod engine;
pub mod environment;
pub mod error;
pub mod hex;
pub mod hub;
pub mod limits;
pub mod lookup;
pub mod messages;
pub mod model;
pub mod openapi;
pub mod routes;
pub mod serve;
pub mod site;
pub mod store;
pub mod stream;
pub mod text;
pub mod token;
