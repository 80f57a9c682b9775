//! `verify(record, claim)`.

use js_sys::Reflect;
use serde::Serialize;
use wasm_bindgen::prelude::*;

use super::error::{refuse, sampler_error};
use super::input::{each, is_array};
use super::read;
use crate::wire::claim::{Claim, Record};
use crate::wire::state::GeneratorState;
use crate::wire::written::Value;

/// A value as plain objects, arrays, strings and numbers, safe for `JSON.stringify`.
pub fn to_plain(value: &Value) -> Result<JsValue, JsValue> {
    value
        .serialize(&serde_wasm_bindgen::Serializer::json_compatible())
        .map_err(|error| sampler_error("not_json_safe", &error.to_string()))
}

/// `verify(record, claim)`.
#[wasm_bindgen(skip_typescript)]
pub fn verify(record: &JsValue, claim: &JsValue) -> Result<JsValue, JsValue> {
    to_plain(&crate::compare::verify::verify(&self::record(record)?, &self::claim(claim)?).written())
}

fn record(value: &JsValue) -> Result<Record, JsValue> {
    let start = read::object("start", &field(value, "record", "start")?)?.named("start");
    let start = GeneratorState::from_object(start).map_err(refuse)?;
    let list = field(value, "record", "frames")?;
    if !is_array(&list) {
        return Err(read::wrong("field_type", "frames", "an array of Uint8Array", &list));
    }
    let frames = each(&list, |at, bytes| read::bytes(&format!("frames[{at}]"), &bytes))?;
    Ok(Record { start, frames })
}

fn claim(value: &JsValue) -> Result<Claim, JsValue> {
    Claim::from_object(read::object("claim", value)?).map_err(refuse)
}

fn field(object: &JsValue, of: &str, name: &str) -> Result<JsValue, JsValue> {
    read::plain("field_type", of, "an object", object)?;
    let value = Reflect::get(object, &name.into())?;
    if value.is_undefined() {
        return Err(sampler_error("field_missing", &format!("field {name} is missing from the {of}")));
    }
    Ok(value)
}
