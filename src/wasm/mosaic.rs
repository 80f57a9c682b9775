//! The older contract, for replaying its recorded runs.

use std::convert::Infallible;

use js_sys::{Object, Reflect};
use wasm_bindgen::prelude::*;

use super::error::refuse;
use super::read::{self, plain};
use super::verify::to_plain;
use crate::core::settings::TopK;
use crate::legacy::any_state::AnyState;
use crate::legacy::sampler::{SamplingConfig, SelectionStrategy, select};
use crate::legacy::state::MosaicState;

/// `mosaicDecision(logits, strategy, seed, drawIndex)`.
#[wasm_bindgen(js_name = mosaicDecision, skip_typescript)]
pub fn mosaic_decision(
    logits: &JsValue,
    strategy: &JsValue,
    seed: &JsValue,
    draw_index: &JsValue,
) -> Result<JsValue, JsValue> {
    let (row, strategy) = (read::logits(logits)?.wide(), self::strategy(strategy)?);
    let (seed, draw_index) = (read::seed(seed)?, read::counter_as("draw_index_out_of_range", "drawIndex", draw_index)?);
    let decision = select(&row, &strategy, seed, draw_index).map_err(refuse)?;
    to_plain(&decision.written())
}

/// `loadState(state)`.
#[wasm_bindgen(js_name = loadState, skip_typescript)]
pub fn load_state(state: &JsValue) -> Result<JsValue, JsValue> {
    to_plain(&AnyState::from_object(read::object("state", state)?).map_err(refuse)?.written())
}

/// `mosaicStep(state, logits)`.
#[wasm_bindgen(js_name = mosaicStep, skip_typescript)]
pub fn mosaic_step(state: &JsValue, logits: &JsValue) -> Result<Object, JsValue> {
    let mut state = MosaicState::from_object(read::object("state", state)?).map_err(refuse)?;
    let decision = state.step_with(&read::logits(logits)?.wide()).map_err(refuse)?;
    let object = Object::new();
    Reflect::set(&object, &"decision".into(), &to_plain(&decision.written())?)?;
    Reflect::set(&object, &"state".into(), &to_plain(&state.written())?)?;
    Ok(object)
}

/// `mosaicTrace(state, logits, {redact})`.
#[wasm_bindgen(js_name = mosaicTrace, skip_typescript)]
pub fn mosaic_trace(state: &JsValue, logits: &JsValue, options: &JsValue) -> Result<JsValue, JsValue> {
    let state = MosaicState::from_object(read::object("state", state)?).map_err(refuse)?;
    let (row, redact) = (read::logits(logits)?.wide(), read::flag("options", "redact", options)?);
    let trace = state.trace(&row).map_err(refuse)?;
    to_plain(&if redact { trace.redacted() } else { trace }.written())
}

/// `"greedy"`, or an object with temperature, topK and topP, all three given.
fn strategy(value: &JsValue) -> Result<SelectionStrategy, JsValue> {
    if value.as_string().as_deref() == Some("greedy") {
        return Ok(SelectionStrategy::Greedy);
    }
    plain("strategy_type", "strategy", "\"greedy\" or an object {temperature, topK, topP}", value)?;
    let parts = read::parts("a strategy", false, value)?;
    let given = |name: &str, part: Option<read::Part>| {
        part.ok_or_else(|| read::wrong("field_type", name, "a number", &JsValue::UNDEFINED))
    };
    let number = |part: &read::Part| part.check("field_type", "a number", Ok::<_, Infallible>);
    let temperature = number(&given("temperature", parts.temperature()?)?)?;
    let top_k = given("topK", parts.top_k()?)?;
    number(&top_k)?;
    let top_k = top_k.check("top_k_out_of_range", "an integer from 1 to the number of logits", TopK::from_f64)?;
    let top_p = number(&given("topP", parts.top_p()?)?)?;
    let config = SamplingConfig::try_new(temperature, top_k.get(), top_p).map_err(refuse)?;
    Ok(SelectionStrategy::Sample(config))
}
