//! JavaScript values, checked: what is not exactly what was asked for is refused and named.

use js_sys::{BigInt, JsString, Reflect};
use wasm_bindgen::{JsCast, JsValue};

use super::error::{refuse, sampler_error, with_index, with_row, with_value};
use super::foreign::{each, f32s, f64s, is_array, kind, length, u8s, u32s};
use super::lent::{lent, with_lent};
use crate::contract::json::{self, FieldError, Scalar};
use crate::contract::processors::read_processors;
use crate::contract::state::RunSettings;
use crate::contract::state::parse_seed;
use crate::core::error::SampleError;
use crate::core::processors::Processors;
use crate::core::settings::{Settings, Temperature, TopK, TopP};
use crate::core::text::{Number, Quoted, beginning};

/// The largest integer a JavaScript number holds with all its neighbours: 2^53 − 1.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Logits in the type they came in.
pub enum Row {
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// So many in the lent buffer.
    Lent(usize),
}

/// Runs `$body` with `$row` the numbers of a [`Row`] as a slice, of either type. It must touch nothing of JavaScript's.
macro_rules! of_either_type {
    ($row:ident => $body:expr) => {
        match $row {
            $crate::wasm::read::Row::F32(row) => {
                let $row = &row[..];
                $body
            }
            $crate::wasm::read::Row::F64(row) => {
                let $row = &row[..];
                $body
            }
            $crate::wasm::read::Row::Lent(length) => $crate::wasm::lent::with_lent(length, |$row| $body),
        }
    };
}
pub(super) use of_either_type;

impl Row {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(row) => row.len(),
            Self::F64(row) => row.len(),
            Self::Lent(length) => *length,
        }
    }

    /// As f64, to which f32 widens exactly: for what is seldom called, so that it need not be compiled for both types.
    pub fn wide(self) -> Vec<f64> {
        match self {
            Self::F32(row) => row.into_iter().map(f64::from).collect(),
            Self::F64(row) => row,
            Self::Lent(length) => with_lent(length, |row| row.iter().copied().map(f64::from).collect()),
        }
    }
}

/// A value as text, short enough for a message.
fn shown(value: &JsValue) -> String {
    if let Some(text) = value.as_string() {
        return Quoted(&beginning(&text, 40)).to_string();
    }
    if value.is_bigint() {
        let text = BigInt::unchecked_from_js_ref(value).to_string(10).map(String::from).unwrap_or_default();
        return format!("{}n", beginning(&text, 40));
    }
    if let Some(number) = value.as_f64() {
        return Number(number).to_string();
    }
    if let Some(kind) = kind(value) {
        return format!("a {kind}");
    }
    if is_promise(value) {
        return "a Promise".to_owned();
    }
    if is_array(value) {
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

fn is_promise(value: &JsValue) -> bool {
    value.is_object() && Reflect::get(value, &"then".into()).is_ok_and(|then| then.is_function())
}

/// A refusal that names what was wanted and what came.
pub fn wrong(code: &str, name: &str, expected: &str, value: &JsValue) -> JsValue {
    let error = sampler_error(code, &format!("{name} must be {expected}, but is {}", shown(value)));
    with_value(error, value)
}

pub fn logits(value: &JsValue) -> Result<Row, JsValue> {
    // Asked first: it is a comparison, and the other question copies a string.
    if let Some(length) = lent(value)? {
        return Ok(Row::Lent(length));
    }
    match kind(value).as_deref() {
        Some("Float32Array") => Ok(Row::F32(f32s(value)?)),
        Some("Float64Array") => Ok(Row::F64(f64s(value)?)),
        _ if is_promise(value) => Err(wrong(
            "logits_type",
            "logits",
            "a Float32Array or Float64Array (await them first, then use stepWith)",
            value,
        )),
        _ => Err(wrong("logits_type", "logits", "a Float32Array or Float64Array", value)),
    }
}

/// A list of rows.
pub fn rows(value: &JsValue) -> Result<Vec<Vec<f64>>, JsValue> {
    if !is_array(value) {
        return Err(wrong("rows_type", "rows", "an array of Float32Array or Float64Array", value));
    }
    each(value, |at, row| Ok(logits(&row).map_err(|error| with_row(error, u64::from(at)))?.wide()))
}

/// Probabilities by token id.
pub fn probabilities(name: &str, value: &JsValue) -> Result<Vec<f64>, JsValue> {
    match kind(value).as_deref() {
        Some("Float64Array") => f64s(value),
        _ => Err(wrong("probabilities_type", name, "a Float64Array", value)),
    }
}

/// A token id.
pub fn token(name: &str, value: &JsValue) -> Result<u32, JsValue> {
    let token = value.as_f64().filter(|id| (0.0..=f64::from(u32::MAX)).contains(id) && id.trunc() == *id);
    let expected = "a token id, an integer from 0 to 4294967295";
    token.map(|id| id as u32).ok_or_else(|| wrong("token_out_of_range", name, expected, value))
}

/// How many uniform numbers there are.
pub fn uniforms_length(value: &JsValue) -> Result<u32, JsValue> {
    if kind(value).as_deref() != Some("Float64Array") && !is_array(value) {
        return Err(wrong("uniforms_type", "u", "a Float64Array or an array of numbers", value));
    }
    length(value)
}

pub fn f32_logits(value: &JsValue) -> Result<Vec<f32>, JsValue> {
    match kind(value).as_deref() {
        Some("Float32Array") => f32s(value),
        _ => Err(wrong("logits_type", "logits of a frame", "a Float32Array", value)),
    }
}

pub fn bytes(name: &str, value: &JsValue) -> Result<Vec<u8>, JsValue> {
    match kind(value).as_deref() {
        Some("Uint8Array") => u8s(value),
        _ => Err(wrong("bytes_type", name, "a Uint8Array", value)),
    }
}

/// The uniform number of a token under these settings, which greedy ones do not look at.
pub fn uniform_for(settings: &Settings, value: &JsValue) -> Result<f64, JsValue> {
    if settings.is_greedy() { Ok(0.0) } else { uniform(value) }
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

/// A label: a string that is whole, since half a surrogate pair would become the same text as another label's.
pub fn label(value: &JsValue) -> Result<String, JsValue> {
    let whole = value.dyn_ref::<JsString>().filter(|text| text.is_valid_utf16()).and_then(|_| value.as_string());
    whole.ok_or_else(|| wrong("label_type", "label", "a string without lone surrogates", value))
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
    if kind(value).as_deref() == Some("Uint32Array") {
        return u32s(value);
    }
    if !is_array(value) {
        return Err(wrong("tokens_type", name, "a Uint32Array or an array of token ids", value));
    }
    each(value, |at, id| token(&format!("{name}[{at}]"), &id).map_err(|error| with_index(error, u64::from(at))))
}

/// `{temperature = 1, topK = 0, topP = 1}`; a key that is none of these is refused, so that a misspelt one is not
/// taken for its default. At temperature 0 the other two are not looked at: these settings are used once and stored nowhere.
pub fn settings(value: &JsValue) -> Result<Settings, JsValue> {
    settings_with(value, None)
}

/// The settings of a run, with `processors` as a state has them: stored, and so checked at any temperature.
pub fn run_settings(value: &JsValue) -> Result<RunSettings, JsValue> {
    let mut processors = Processors::default();
    let settings = settings_with(value, Some(&mut processors))?;
    Ok(RunSettings { settings, processors })
}

fn settings_with(value: &JsValue, mut processors: Option<&mut Processors>) -> Result<Settings, JsValue> {
    if value.is_undefined() {
        return Ok(Settings::default());
    }
    if !value.is_object() || is_array(value) {
        return Err(wrong("settings_type", "settings", "an object {temperature, topK, topP}", value));
    }
    let keys = Reflect::own_keys(value)?;
    for key in keys.iter() {
        let name = key.as_string().unwrap_or_else(|| "a symbol".to_owned());
        match (name.as_str(), &mut processors) {
            ("temperature" | "topK" | "topP", _) => {}
            ("processors", Some(processors)) => {
                let given = Reflect::get(value, &key)?;
                if !given.is_undefined() {
                    **processors = read_processors(objects("processors", &given)?).map_err(refuse)?;
                }
            }
            (_, processors) => {
                let known = if processors.is_some() {
                    "temperature, topK, topP and processors"
                } else {
                    "temperature, topK and topP"
                };
                let message = format!("settings have no {}; they are {known}", Quoted(&name));
                return Err(with_value(sampler_error("field_unknown", &message), &key));
            }
        }
    }
    let number = |name: &str, default: f64, code: &str, expected: &str| {
        let key = JsValue::from(name);
        let given = if keys.includes(&key, 0) { Reflect::get(value, &key)? } else { JsValue::UNDEFINED };
        if given.is_undefined() {
            return Ok(default);
        }
        given.as_f64().ok_or_else(|| wrong(code, name, expected, &given))
    };
    let temperature = number("temperature", 1.0, "temperature_out_of_range", "a finite number, at least 0")?;
    let temperature = Temperature::new(temperature).map_err(refuse)?;
    if processors.is_none() && temperature.get() == 0.0 {
        return Ok(Settings::greedy());
    }
    let top_k = number("topK", 0.0, "top_k_out_of_range", "an integer from 0 to 4294967295")?;
    let top_k = TopK::from_f64(top_k).map_err(refuse)?;
    let top_p = number("topP", 1.0, "top_p_out_of_range", "a number from 0 to 1")?;
    Ok(Settings::from_parts(temperature, top_k, TopP::new(top_p).map_err(refuse)?))
}

/// The one flag of an object of options; false where it or the object is left out.
pub fn flag(of: &str, name: &str, options: &JsValue) -> Result<bool, JsValue> {
    if options.is_undefined() {
        return Ok(false);
    }
    let flag = object(of, options)?.read(|it| Ok::<_, FieldError>(it.has(name) && it.flag(name)));
    flag.map_err(refuse)
}

/// How deep what this package reads nests: a claim, its state, the state's settings, their processors, one of them, its
/// lists, and lists in these.
const DEPTH: u32 = 7;

/// A plain object, for the strict readers of [`json`]: its own properties, which are numbers, strings, flags, null,
/// typed arrays of token ids, and lists and objects of the same kind. What is `undefined` counts as left out.
pub fn object(name: &str, value: &JsValue) -> Result<json::Object, JsValue> {
    if !value.is_object() || is_array(value) {
        return Err(wrong("field_type", name, "an object", value));
    }
    object_at(name, value, DEPTH)
}

/// A list of plain objects.
pub fn objects(name: &str, value: &JsValue) -> Result<Vec<json::Object>, JsValue> {
    if !is_array(value) {
        return Err(wrong("field_type", name, "an array of objects", value));
    }
    each(value, |at, item| {
        let path = format!("{name}[{at}]");
        Ok(object(&path, &item)?.named(&path))
    })
}

fn object_at(path: &str, value: &JsValue, depth: u32) -> Result<json::Object, JsValue> {
    let mut entries = Vec::new();
    for key in Reflect::own_keys(value)?.iter() {
        let Some(name) = key.as_string() else { continue };
        let property = Reflect::get(value, &key)?;
        if !property.is_undefined() {
            let field = field(&format!("{path}.{name}"), &property, depth - 1)?;
            entries.push((name, field));
        }
    }
    Ok(json::Object::from_entries(entries))
}

fn field(path: &str, value: &JsValue, depth: u32) -> Result<json::Field, JsValue> {
    if !value.is_object() {
        return scalar(path, value).map(json::Field::Scalar);
    }
    if kind(value).as_deref() == Some("Uint32Array") {
        let ids = u32s(value)?.into_iter().map(|id| json::Field::Scalar(Scalar::Integer(id.into())));
        return Ok(json::Field::List(ids.collect()));
    }
    if depth == 0 {
        return Err(wrong("field_type", path, "nothing inside so many others", value));
    }
    if is_array(value) {
        return each(value, |at, item| field(&format!("{path}[{at}]"), &item, depth - 1)).map(json::Field::List);
    }
    object_at(path, value, depth).map(json::Field::Object)
}

fn scalar(path: &str, value: &JsValue) -> Result<Scalar, JsValue> {
    let scalar = if let Some(text) = value.as_string() {
        Some(Scalar::Text(text))
    } else if let Some(number) = value.as_f64() {
        let integer = number.trunc() == number && (0.0..=MAX_SAFE).contains(&number);
        let finite = number.is_finite().then_some(Scalar::Number(number));
        if integer { Some(Scalar::Integer(number as u64)) } else { finite }
    } else if value.is_null() {
        Some(Scalar::Null)
    } else {
        value.as_bool().map(Scalar::Flag)
    };
    scalar.ok_or_else(|| wrong("field_type", path, "what JSON can hold", value))
}
