//! JavaScript values, checked: what is not exactly what was asked for is refused and named.

use js_sys::{Array, BigInt, Float32Array, Float64Array, Object, Reflect, Symbol, Uint8Array, Uint32Array};
use serde::Deserialize;
use wasm_bindgen::{JsCast, JsValue};

use super::error::{refuse, sampler_error, with_index, with_row, with_value};
use crate::contract::json;
use crate::contract::state::parse_seed;
use crate::core::error::SampleError;
use crate::core::settings::{Settings, Temperature, TopK, TopP};

/// The largest integer a JavaScript number holds with all its neighbours: 2^53 − 1.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Logits in the type they came in.
pub enum Row {
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// Runs `$body` with `$row` the numbers of a [`Row`], of either type.
macro_rules! of_either_type {
    ($row:ident => $body:expr) => {
        match $row {
            Row::F32($row) => $body,
            Row::F64($row) => $body,
        }
    };
}
pub(super) use of_either_type;

/// Several rows: all of them as f32, or, where one is f64, all as f64 (to which f32 widens exactly).
pub enum Rows {
    F32(Vec<Vec<f32>>),
    F64(Vec<Vec<f64>>),
}

/// A value as text, short enough for a message.
fn shown(value: &JsValue) -> String {
    if let Some(text) = value.as_string() {
        return format!("{:?}", text.chars().take(40).collect::<String>());
    }
    if value.is_bigint() {
        let text = BigInt::unchecked_from_js_ref(value).to_string(10).map(String::from).unwrap_or_default();
        return format!("{}n", text.chars().take(40).collect::<String>());
    }
    if let Some(number) = value.as_f64() {
        return format!("{number:?}");
    }
    if let Some(tag) = tag(value) {
        return format!("a {tag}");
    }
    if Array::is_array(value) {
        return "a plain array".to_owned();
    }
    if value.is_function() {
        return "a function".to_owned();
    }
    if value.is_object() {
        return "an object".to_owned();
    }
    match value.as_bool() {
        Some(flag) => flag.to_string(),
        None if value.is_null() => "null".to_owned(),
        None if value.is_undefined() => "undefined".to_owned(),
        None => "a symbol".to_owned(),
    }
}

/// `Symbol.toStringTag`: tells a typed array or a promise from another realm too, where `instanceof` does not.
fn tag(value: &JsValue) -> Option<String> {
    if !value.is_object() {
        return None;
    }
    Reflect::get(value, &Symbol::to_string_tag()).ok()?.as_string()
}

/// A refusal that names what was wanted and what came.
pub fn wrong(code: &str, name: &str, expected: &str, value: &JsValue) -> JsValue {
    let error = sampler_error(code, &format!("{name} must be {expected}, but is {}", shown(value)));
    with_value(error, value)
}

pub fn logits(value: &JsValue) -> Result<Row, JsValue> {
    match tag(value).as_deref() {
        Some("Float32Array") => Ok(Row::F32(value.unchecked_ref::<Float32Array>().to_vec())),
        Some("Float64Array") => Ok(Row::F64(value.unchecked_ref::<Float64Array>().to_vec())),
        Some("Promise") => Err(wrong(
            "logits_type",
            "logits",
            "a Float32Array or Float64Array (await them first, then use stepWith)",
            value,
        )),
        _ => Err(wrong("logits_type", "logits", "a Float32Array or Float64Array", value)),
    }
}

/// A list of rows.
pub fn rows(value: &JsValue) -> Result<Rows, JsValue> {
    if !Array::is_array(value) {
        return Err(wrong("rows_type", "rows", "an array of Float32Array or Float64Array", value));
    }
    let list = value.unchecked_ref::<Array>().iter().enumerate();
    let rows = list.map(|(at, row)| logits(&row).map_err(|error| with_row(error, at as u64)));
    let rows = rows.collect::<Result<Vec<Row>, _>>()?;
    if rows.iter().all(|row| matches!(row, Row::F32(_))) {
        return Ok(Rows::F32(rows.into_iter().map(|row| if let Row::F32(row) = row { row } else { vec![] }).collect()));
    }
    let wide = |row| match row {
        Row::F32(row) => row.into_iter().map(f64::from).collect(),
        Row::F64(row) => row,
    };
    Ok(Rows::F64(rows.into_iter().map(wide).collect()))
}

/// Probabilities by token id.
pub fn probabilities(name: &str, value: &JsValue) -> Result<Vec<f64>, JsValue> {
    match tag(value).as_deref() {
        Some("Float64Array") => Ok(value.unchecked_ref::<Float64Array>().to_vec()),
        _ => Err(wrong("probabilities_type", name, "a Float64Array", value)),
    }
}

/// A token id.
pub fn token(name: &str, value: &JsValue) -> Result<u32, JsValue> {
    let token = value.as_f64().filter(|id| (0.0..=f64::from(u32::MAX)).contains(id) && id.trunc() == *id);
    let expected = "a token id, an integer from 0 to 4294967295";
    token.map(|id| id as u32).ok_or_else(|| wrong("token_out_of_range", name, expected, value))
}

/// B uniform numbers; each is judged with its row.
pub fn uniforms(value: &JsValue) -> Result<Vec<JsValue>, JsValue> {
    if tag(value).as_deref() == Some("Float64Array") {
        return Ok(value.unchecked_ref::<Float64Array>().to_vec().into_iter().map(JsValue::from).collect());
    }
    if Array::is_array(value) {
        return Ok(value.unchecked_ref::<Array>().to_vec());
    }
    Err(wrong("uniforms_type", "u", "a Float64Array or an array of numbers", value))
}

pub fn f32_logits(value: &JsValue) -> Result<Vec<f32>, JsValue> {
    match tag(value).as_deref() {
        Some("Float32Array") => Ok(value.unchecked_ref::<Float32Array>().to_vec()),
        _ => Err(wrong("logits_type", "logits of a frame", "a Float32Array", value)),
    }
}

pub fn bytes(name: &str, value: &JsValue) -> Result<Vec<u8>, JsValue> {
    match tag(value).as_deref() {
        Some("Uint8Array") => Ok(value.unchecked_ref::<Uint8Array>().to_vec()),
        _ => Err(wrong("bytes_type", name, "a Uint8Array", value)),
    }
}

pub fn uniform(value: &JsValue) -> Result<f64, JsValue> {
    value.as_f64().ok_or_else(|| wrong("uniform_out_of_range", "u", "a number at least 0 and below 1", value)).and_then(
        |u| {
            if (0.0..1.0).contains(&u) { Ok(u) } else { Err(refuse(SampleError::Uniform(u.into()))) }
        },
    )
}

/// An unsigned 64-bit integer from a bigint or a safe integer.
fn integer(value: &JsValue) -> Option<u64> {
    if value.is_bigint() {
        return u64::try_from(value.clone()).ok();
    }
    let number = value.as_f64()?;
    // -0 is an integer and is 0.
    ((0.0..=MAX_SAFE).contains(&number) && number.trunc() == number).then_some(number as u64)
}

pub fn seed(value: &JsValue) -> Result<u64, JsValue> {
    if let Some(text) = value.as_string() {
        return parse_seed(&text).map_err(|error| with_value(refuse(error), value));
    }
    let numeric = value.is_bigint() || value.as_f64().is_some();
    let code = if numeric { "seed_out_of_range" } else { "seed_type" };
    let expected = "a bigint below 2^64, a decimal string, or a safe non-negative integer";
    integer(value).ok_or_else(|| wrong(code, "seed", expected, value))
}

/// A step or a stream.
pub fn counter(name: &str, value: &JsValue) -> Result<u64, JsValue> {
    let expected = "a safe non-negative integer or a bigint below 2^64";
    integer(value).ok_or_else(|| wrong(&format!("{name}_out_of_range"), name, expected, value))
}

/// A stream, 0 where none is given.
pub fn stream(value: &JsValue) -> Result<u64, JsValue> {
    if value.is_undefined() { Ok(0) } else { counter("stream", value) }
}

/// The step of a frame: one that JavaScript can tell back as a number.
pub fn frame_step(value: &JsValue) -> Result<u64, JsValue> {
    let step = counter("step", value)?;
    if step as f64 > MAX_SAFE {
        return Err(wrong("step_out_of_range", "step", "an integer from 0 to 2^53 - 1", value));
    }
    Ok(step)
}

pub fn tokens(name: &str, value: &JsValue) -> Result<Vec<u32>, JsValue> {
    if tag(value).as_deref() == Some("Uint32Array") {
        return Ok(value.unchecked_ref::<Uint32Array>().to_vec());
    }
    if !Array::is_array(value) {
        return Err(wrong("tokens_type", name, "a Uint32Array or an array of token ids", value));
    }
    let list = value.unchecked_ref::<Array>();
    let mut tokens = Vec::new();
    for at in 0..list.length() {
        let id = token(&format!("{name}[{at}]"), &list.get(at)).map_err(|error| with_index(error, u64::from(at)))?;
        tokens.push(id);
    }
    Ok(tokens)
}

/// `{temperature = 1, topK = 0, topP = 1}`; a key that is none of these is refused, so that a misspelt one is not
/// taken for its default.
pub fn settings(value: &JsValue) -> Result<Settings, JsValue> {
    if value.is_undefined() {
        return Ok(Settings::default());
    }
    if !value.is_object() || Array::is_array(value) {
        return Err(wrong("settings_type", "settings", "an object {temperature, topK, topP}", value));
    }
    let (mut temperature, mut top_k, mut top_p) = (1.0, 0.0, 1.0);
    for key in Object::keys(value.unchecked_ref::<Object>()) {
        let name = key.as_string().unwrap_or_default();
        let (slot, code, expected) = match name.as_str() {
            "temperature" => (&mut temperature, "temperature_out_of_range", "a finite number, at least 0"),
            "topK" => (&mut top_k, "top_k_out_of_range", "an integer from 0 to 4294967295"),
            "topP" => (&mut top_p, "top_p_out_of_range", "a number from 0 to 1"),
            _ => {
                let message = format!("settings have no {name:?}; they are temperature, topK and topP");
                return Err(with_value(sampler_error("field_unknown", &message), &key));
            }
        };
        let given = Reflect::get(value, &key)?;
        if !given.is_undefined() {
            *slot = given.as_f64().ok_or_else(|| wrong(code, &name, expected, &given))?;
        }
    }
    Ok(Settings::from_parts(
        Temperature::new(temperature).map_err(refuse)?,
        TopK::from_f64(top_k).map_err(refuse)?,
        TopP::new(top_p).map_err(refuse)?,
    ))
}

/// A plain object, for the strict readers of [`json`].
pub fn object(name: &str, value: &JsValue) -> Result<json::Object, JsValue> {
    if !value.is_object() || Array::is_array(value) {
        return Err(wrong("field_type", name, "an object", value));
    }
    let object = serde_wasm_bindgen::from_value::<ObjectSeed>(value.clone())
        .map_err(|error| sampler_error("field_type", &format!("{name} must be a plain JSON-safe object: {error}")))?;
    Ok(object.0)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct ObjectSeed(json::Object);
