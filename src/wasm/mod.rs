//! The JavaScript package: thin classes over [`contract`](crate::contract) and [`core`](crate::core). No arithmetic
//! and no defaults of its own beyond those the types declare.
//!
//! Arguments arrive as `JsValue` and are checked in [`read`]: what wasm-bindgen would convert by itself it wraps or
//! rounds in silence (2n ** 64n becomes 0, a plain array becomes f32).

mod error;
mod frame;
mod generator;
mod read;
mod verify;

use js_sys::BigInt;
use wasm_bindgen::prelude::*;

use crate::contract::state::STATE_SCHEMA;
use crate::core::{sample, splitmix};
use error::{refuse, sampler_error};
use read::Row;

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &'static str = include_str!("api.d.ts");

/// `sampleToken(logits, settings, u)`.
#[wasm_bindgen(js_name = sampleToken, skip_typescript)]
pub fn sample_token(logits: &JsValue, settings: &JsValue, u: &JsValue) -> Result<u32, JsValue> {
    let settings = read::settings(settings)?;
    let u = read::uniform(u)?;
    match read::logits(logits)? {
        Row::F32(row) => sample::sample(&row, &settings, u),
        Row::F64(row) => sample::sample(&row, &settings, u),
    }
    .map_err(refuse)
}

/// `uniform(seed, step, stream = 0)`.
#[wasm_bindgen(skip_typescript)]
pub fn uniform(seed: &JsValue, step: &JsValue, stream: &JsValue) -> Result<f64, JsValue> {
    Ok(splitmix::uniform(read::seed(seed)?, read::counter("step", step)?, read::stream(stream)?))
}

/// `draw(seed, step, stream = 0)`.
#[wasm_bindgen(skip_typescript)]
pub fn draw(seed: &JsValue, step: &JsValue, stream: &JsValue) -> Result<BigInt, JsValue> {
    Ok(BigInt::from(splitmix::draw(read::seed(seed)?, read::counter("step", step)?, read::stream(stream)?)))
}

/// `exp(x)`.
#[wasm_bindgen(skip_typescript)]
pub fn exp(x: &JsValue) -> Result<f64, JsValue> {
    let number = x.as_f64().ok_or_else(|| read::wrong("number_type", "x", "a number", x))?;
    Ok(crate::core::exp::exp(number))
}

/// `randomSeed()`.
#[wasm_bindgen(js_name = randomSeed, skip_typescript)]
pub fn random_seed() -> Result<String, JsValue> {
    getrandom::u64()
        .map(|seed| seed.to_string())
        .map_err(|error| sampler_error("random_unavailable", &format!("no secure random source: {error}")))
}

/// `stateSchema()`.
#[wasm_bindgen(js_name = stateSchema, skip_typescript)]
pub fn state_schema() -> String {
    STATE_SCHEMA.to_owned()
}
