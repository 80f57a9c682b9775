//! `firstDivergence(first, second, options)` and `release()`.

use js_sys::Reflect;
use wasm_bindgen::prelude::*;

use super::error::{refuse, sampler_error, with_value};
use super::foreign::is_array;
use super::read;
use super::verify::to_plain;
use crate::contract::divergence;
use crate::contract::identity::{CRATE_VERSION, TARGET};
use crate::contract::record_file::RecordFile;

/// `firstDivergence(first, second, options)`.
#[wasm_bindgen(js_name = firstDivergence, skip_typescript)]
pub fn first_divergence(first: &JsValue, second: &JsValue, options: &JsValue) -> Result<JsValue, JsValue> {
    let values = values(options)?;
    let (first, second) = (record("first", first)?, record("second", second)?);
    to_plain(&divergence::first_divergence(&first, &second, values))
}

/// `release()`.
#[wasm_bindgen(skip_typescript)]
pub fn release() -> Result<JsValue, JsValue> {
    let object = js_sys::Object::new();
    Reflect::set(&object, &"crate_version".into(), &CRATE_VERSION.into())?;
    Reflect::set(&object, &"target".into(), &TARGET.into())?;
    Ok(object.into())
}

fn record(name: &str, value: &JsValue) -> Result<RecordFile, JsValue> {
    RecordFile::from_object(read::object(name, value)?).map_err(refuse)
}

/// `{values = false}`.
fn values(options: &JsValue) -> Result<bool, JsValue> {
    if options.is_undefined() {
        return Ok(false);
    }
    if !options.is_object() || is_array(options) {
        return Err(read::wrong("field_type", "options", "an object {values}", options));
    }
    if let Some(key) = Reflect::own_keys(options)?.iter().find(|key| key.as_string().as_deref() != Some("values")) {
        return Err(with_value(sampler_error("field_unknown", "options have values only"), &key));
    }
    let values = Reflect::get(options, &"values".into())?;
    if values.is_undefined() {
        return Ok(false);
    }
    values.as_bool().ok_or_else(|| read::wrong("field_type", "values", "true or false", &values))
}
