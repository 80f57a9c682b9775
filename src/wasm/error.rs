//! Refusals as JavaScript `Error` objects.

use js_sys::{Array, Error, Function, Reflect};
use wasm_bindgen::prelude::*;

use crate::core::refusal::Refusal;

#[wasm_bindgen]
extern "C" {
    /// The class in src/wasm/glue.js, which is part of the npm package. A build without it (`wasm-pack test`, or the wasm of
    /// another crate) uses plain errors with the same name and fields.
    #[wasm_bindgen(thread_local_v2, js_name = SamplerError)]
    static CLASS: Option<Function>;
}

/// An `Error` named `SamplerError`, with a stable `code`.
pub fn sampler_error(code: &str, message: &str) -> JsValue {
    let arguments = Array::of2(&code.into(), &message.into());
    let of_class = CLASS.with(|class| Reflect::construct(class.as_ref()?, &arguments).ok());
    of_class.unwrap_or_else(|| {
        let error = Error::new(message);
        error.set_name("SamplerError");
        set(&error, "code", &code.into());
        error.into()
    })
}

/// Whether an error is a refusal, and not one thrown by a getter or a trap.
pub fn is_ours(error: &JsValue) -> bool {
    let name = error.dyn_ref::<Error>().and_then(|error| Reflect::get(error, &"name".into()).ok());
    name.is_some_and(|name| name == "SamplerError")
}

/// The same with the offending value.
pub fn with_value(error: JsValue, value: &JsValue) -> JsValue {
    set(&error, "value", value);
    error
}

/// The same with the offending index.
pub fn with_index(error: JsValue, index: u64) -> JsValue {
    set(&error, "index", &(index as f64).into());
    error
}

/// The same with the row of a batch.
pub fn with_row(error: JsValue, row: u64) -> JsValue {
    set(&error, "row", &(row as f64).into());
    error
}

/// The same with what caused it.
pub fn with_cause(error: JsValue, cause: &JsValue) -> JsValue {
    set(&error, "cause", cause);
    error
}

/// A refusal of the crate as an `Error`.
pub fn refuse(refusal: impl Refusal) -> JsValue {
    let mut error = sampler_error(refusal.code(), &refusal.to_string());
    if let Some(index) = refusal.index() {
        error = with_index(error, index);
    }
    if let Some(value) = refusal.value() {
        error = with_value(error, &value.into());
    }
    error
}

fn set(error: &JsValue, name: &str, value: &JsValue) {
    // Setting a property on a new, extensible object cannot fail.
    let _ = Reflect::set(error, &name.into(), value);
}
