//! `firstDivergence(first, second, options)` and `release()`.

use js_sys::Reflect;
use wasm_bindgen::prelude::*;

use super::error::refuse;
use super::read;
use super::verify::to_plain;
use crate::contract::divergence;
use crate::contract::identity::{CRATE_VERSION, TARGET};
use crate::contract::record_file::RecordFile;

/// `firstDivergence(first, second, options)`.
#[wasm_bindgen(js_name = firstDivergence, skip_typescript)]
pub fn first_divergence(first: &JsValue, second: &JsValue, options: &JsValue) -> Result<JsValue, JsValue> {
    let values = read::flag("options", "values", options)?;
    let (first, second) = (record("first", first)?, record("second", second)?);
    to_plain(&divergence::first_divergence(&first, &second, values).written())
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
