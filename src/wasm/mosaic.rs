//! The older contract, for replaying its recorded runs.

use js_sys::{Object, Reflect};
use wasm_bindgen::prelude::*;

use super::error::{refuse, sampler_error, with_value};
use super::foreign::is_array;
use super::read;
use super::verify::to_plain;
use crate::contract::any_state::AnyState;
use crate::contract::mosaic::MosaicState;
use crate::core::mosaic::{SamplingConfig, SelectionStrategy, select};
use crate::core::settings::TopK;

/// `mosaicDecision(logits, strategy, seed, drawIndex)`.
#[wasm_bindgen(js_name = mosaicDecision, skip_typescript)]
pub fn mosaic_decision(
    logits: &JsValue,
    strategy: &JsValue,
    seed: &JsValue,
    draw_index: &JsValue,
) -> Result<JsValue, JsValue> {
    let (row, strategy) = (read::logits(logits)?.wide(), self::strategy(strategy)?);
    let (seed, draw_index) = (read::seed(seed)?, read::counter("draw_index", draw_index)?);
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

/// `"greedy"`, or an object with temperature, topK and topP, all three given.
fn strategy(value: &JsValue) -> Result<SelectionStrategy, JsValue> {
    if value.as_string().as_deref() == Some("greedy") {
        return Ok(SelectionStrategy::Greedy);
    }
    if !value.is_object() || is_array(value) {
        let expected = "\"greedy\" or an object {temperature, topK, topP}";
        return Err(read::wrong("strategy_type", "strategy", expected, value));
    }
    for key in Reflect::own_keys(value)?.iter() {
        let known = key.as_string().is_some_and(|name| ["temperature", "topK", "topP"].contains(&name.as_str()));
        if !known {
            return Err(with_value(
                sampler_error("field_unknown", "a strategy has temperature, topK and topP only"),
                &key,
            ));
        }
    }
    let number = |name: &str| {
        let value = Reflect::get(value, &name.into())?;
        value.as_f64().ok_or_else(|| read::wrong("field_type", name, "a number", &value))
    };
    let top_k = TopK::from_f64(number("topK")?).map_err(refuse)?;
    let config = SamplingConfig::try_new(number("temperature")?, top_k.get(), number("topP")?).map_err(refuse)?;
    Ok(SelectionStrategy::Sample(config))
}
