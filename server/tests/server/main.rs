//! The server as it is run: a child process, spoken to over HTTP, killed and started again.

mod api;
mod attacks;
mod constraint;
mod disk;
mod fairness;
mod hangup;
mod limits;
mod llama;
mod openapi;
mod privacy;
mod processors;
mod real_model;
mod request;
mod restart;
#[path = "../../../src/forms/schema_text.rs"]
mod schema_text;
mod site;
mod speculation;
mod store;
mod support;
