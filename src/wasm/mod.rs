//! The JavaScript package: thin classes over the other modules, without arithmetic and without defaults beyond those that the
//! types declare.
//!
//! Arguments arrive as `JsValue` and are checked in [`read`], because wasm-bindgen's own conversions silently wrap or round
//! (2n ** 64n becomes 0, a plain array becomes f32).

mod batch;
mod divergence;
mod error;
mod frame;
mod generator;
mod handle;
mod input;
mod logits_buffer;
mod mosaic;
mod read;
mod verify;

pub use batch::{sample_batch, step_batch};
pub use divergence::{first_divergence, release};
pub use frame::Frame;
pub use generator::Generator;
pub use mosaic::{load_state, mosaic_decision, mosaic_step, mosaic_trace};
pub use verify::verify;

use js_sys::{BigInt, Float32Array, Float64Array, Object, Reflect, Uint32Array};
use wasm_bindgen::prelude::*;

use crate::core::{derive, sample, speculative, splitmix};
use crate::wire::state::STATE_SCHEMA;
use error::{refuse, sampler_error, with_value};
use input::MAX_LENGTH;
use read::{Given, of_either_type};

// Not for a wasm with threads.
#[cfg(not(target_feature = "atomics"))]
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &'static str = include_str!("api.d.ts");

/// `sampleToken(logits, settings, u)`.
#[wasm_bindgen(js_name = sampleToken, skip_typescript)]
pub fn sample_token(logits: &JsValue, settings: &JsValue, u: &JsValue) -> Result<u32, JsValue> {
    let settings = read::settings(settings)?;
    let u = read::uniform_for(&settings, u)?;
    match read::given(logits)? {
        Given::Whole(row) => of_either_type!(row => sample::sample(row, &settings, u)),
        Given::Sparse(row) => row.sample(&settings, u),
    }
    .map_err(refuse)
}

/// `logitsBuffer(vocab)`.
#[wasm_bindgen(js_name = logitsBuffer, skip_typescript)]
pub fn logits_buffer(vocab: &JsValue) -> Result<Float32Array, JsValue> {
    let length = read::vocab(vocab)?;
    if !(1..=MAX_LENGTH).contains(&length) {
        let code = if length == 0 { "logits_empty" } else { "logits_too_long" };
        let message = format!("vocab must be from 1 to {MAX_LENGTH}, but is {length}");
        return Err(with_value(sampler_error(code, &message), &length.into()));
    }
    logits_buffer::view(length as usize)
}

/// `distribution(logits, settings)`.
#[wasm_bindgen(skip_typescript)]
pub fn distribution(logits: &JsValue, settings: &JsValue) -> Result<Object, JsValue> {
    let (row, settings) = (read::given(logits)?, read::settings(settings)?);
    let kept = match row {
        Given::Whole(row) => crate::core::distribution::distribution(&row.wide(), &settings).map_err(refuse)?,
        Given::Sparse(row) => row.distribution(&settings).map_err(refuse)?,
    };
    let object = Object::new();
    Reflect::set(&object, &"ids".into(), &Uint32Array::from(kept.ids()))?;
    Reflect::set(&object, &"probabilities".into(), &Float64Array::from(kept.probabilities()))?;
    Ok(object)
}

/// `speculativeStep(p, q, draftToken, uAccept, uResample)`.
#[wasm_bindgen(js_name = speculativeStep, skip_typescript)]
pub fn speculative_step(
    p: &JsValue,
    q: &JsValue,
    draft_token: &JsValue,
    u_accept: &JsValue,
    u_resample: &JsValue,
) -> Result<Object, JsValue> {
    let (p, q) = (&input::outside(p)?, &input::outside(q)?);
    let (p, q) = (read::probabilities("p", p)?, read::probabilities("q", q)?);
    let draft_token = read::token("draftToken", draft_token)?;
    let (u_accept, u_resample) = (read::uniform("uAccept", u_accept)?, read::uniform("uResample", u_resample)?);
    let found = speculative::speculative_step(&p, &q, draft_token, u_accept, u_resample).map_err(refuse)?;
    let object = Object::new();
    Reflect::set(&object, &"token".into(), &found.token.into())?;
    Reflect::set(&object, &"accepted".into(), &found.accepted.into())?;
    Ok(object)
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

/// `deriveSeed(root, label, attempt)`.
#[wasm_bindgen(js_name = deriveSeed, skip_typescript)]
pub fn derive_seed(root: &JsValue, label: &JsValue, attempt: &JsValue) -> Result<String, JsValue> {
    let (root, text) = (read::seed(root)?, read::label(label)?);
    let attempt = read::counter("attempt", attempt)?;
    derive::derive_seed(root, &text, attempt).map(|seed| seed.to_string()).map_err(refuse)
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
        .map_err(|_| sampler_error("random_unavailable", "there is no secure random source"))
}

/// `stateSchema()`.
#[wasm_bindgen(js_name = stateSchema, skip_typescript)]
pub fn state_schema() -> String {
    STATE_SCHEMA.to_owned()
}
