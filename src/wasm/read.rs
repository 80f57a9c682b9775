//! Reading and checking JavaScript values. A value of the wrong type is refused with an error that describes it.

use js_sys::{BigInt, JsString, Reflect};
use wasm_bindgen::{JsCast, JsValue};

use super::error::{refuse, sampler_error, with_index, with_row, with_value};
use super::input::{each, f16s, f32s, f64s, is_array, is_plain, kind, length, outside, u8s, u32s};
use super::logits_buffer::{view_length, with_logits_buffer};
use crate::core::processors::Processors;
use crate::core::settings::{Settings, Temperature, TopK, TopP};
use crate::core::sparse::SparseRow;
use crate::core::text::{Number, Quoted, beginning};
use crate::wire::json::{self, FieldError, Scalar};
use crate::wire::processors::read_processors;
use crate::wire::state::RunSettings;
use crate::wire::state::parse_seed;

/// The largest integer a JavaScript number holds with all its neighbours: 2^53 − 1.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Logits in the type they came in.
pub enum InputRow {
    F32(Vec<f32>),
    F64(Vec<f64>),
    /// The number of logits in the logits buffer.
    Buffer(usize),
}

/// A whole row or a sparse one.
pub enum Given {
    /// Every logit.
    Whole(InputRow),
    /// The best, in f64, to which f32 widens exactly.
    Sparse(SparseRow<f64>),
}

/// Runs `$body` with `$row` the numbers of a [`InputRow`] as a slice, of either type. It must not run JavaScript.
macro_rules! of_either_type {
    ($row:ident => $body:expr) => {
        match $row {
            $crate::wasm::read::InputRow::F32(row) => {
                let $row = &row[..];
                $body
            }
            $crate::wasm::read::InputRow::F64(row) => {
                let $row = &row[..];
                $body
            }
            $crate::wasm::read::InputRow::Buffer(length) => {
                $crate::wasm::logits_buffer::with_logits_buffer(length, |$row| $body)
            }
        }
    };
}
pub(super) use of_either_type;

impl InputRow {
    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(row) => row.len(),
            Self::F64(row) => row.len(),
            Self::Buffer(length) => *length,
        }
    }

    /// As f64, to which f32 widens exactly. For rare calls, so that they are not compiled for both types.
    pub fn wide(self) -> Vec<f64> {
        match self {
            Self::F32(row) => row.into_iter().map(f64::from).collect(),
            Self::F64(row) => row,
            Self::Buffer(length) => with_logits_buffer(length, |row| row.iter().copied().map(f64::from).collect()),
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
        return class(value).map_or_else(|| "an object".to_owned(), |name| format!("an instance of {name}"));
    }
    match value.as_bool() {
        Some(flag) => flag.to_string(),
        None if value.is_null() => "null".to_owned(),
        None if value.is_undefined() => "undefined".to_owned(),
        None => "a symbol".to_owned(),
    }
}

/// The class name of an object, if it has one.
fn class(value: &JsValue) -> Option<String> {
    if is_plain(value).ok()? {
        return None;
    }
    let constructor = Reflect::get(value, &"constructor".into()).ok()?;
    let name = Reflect::get(&constructor, &"name".into()).ok()?.as_string()?;
    (!name.is_empty()).then(|| beginning(&name, 40))
}

fn is_promise(value: &JsValue) -> bool {
    value.is_object() && Reflect::get(value, &"then".into()).is_ok_and(|then| then.is_function())
}

/// A refusal that names the expected and the actual value.
pub fn wrong(code: &str, name: &str, expected: &str, value: &JsValue) -> JsValue {
    let error = sampler_error(code, &format!("{name} must be {expected}, but is {}", shown(value)));
    with_value(error, value)
}

/// Refuses what is not a plain object. `code`, `name` and `expected` as for [`wrong`].
pub fn plain(code: &str, name: &str, expected: &str, value: &JsValue) -> Result<(), JsValue> {
    if is_plain(value)? {
        return Ok(());
    }
    let hint = if is_promise(value) { " (await it first)" } else { "" };
    Err(wrong(code, name, &format!("{expected}{hint}"), value))
}

/// A whole row of logits.
pub fn logits(value: &JsValue) -> Result<InputRow, JsValue> {
    whole(value)?.ok_or_else(|| no_logits(value))
}

/// A row of logits, or `{ids, logits, vocab}` where only the best are known.
pub fn given(value: &JsValue) -> Result<Given, JsValue> {
    if let Some(row) = whole(value)? {
        return Ok(Given::Whole(row));
    }
    if !is_plain(value)? || !has_any(value, &["ids", "logits", "vocab"])? {
        return Err(no_logits(value));
    }
    let (ids, logits, vocabulary) = sparse_fields(value)?;
    let row = self::logits(&logits)?.wide();
    SparseRow::new(&ids, &row, vocabulary).map(Given::Sparse).map_err(refuse)
}

/// A row that is a typed array.
fn whole(value: &JsValue) -> Result<Option<InputRow>, JsValue> {
    // Checked first: this is a comparison, while reading the type copies a string.
    if let Some(length) = view_length(value) {
        return Ok(Some(InputRow::Buffer(length)));
    }
    Ok(Some(match kind(value).as_deref() {
        Some("Float32Array") => InputRow::F32(f32s(value)?),
        Some("Float64Array") => InputRow::F64(f64s(value)?),
        Some("Float16Array") => InputRow::F32(f16s(value)?),
        _ => return Ok(None),
    }))
}

fn no_logits(value: &JsValue) -> JsValue {
    let hint = if is_promise(value) { " (await them first, then use stepWith)" } else { "" };
    wrong("logits_type", "logits", &format!("a Float32Array, Float64Array or Float16Array{hint}"), value)
}

/// Like [`logits`], for a frame, which holds f32.
pub fn sparse_f32(value: &JsValue) -> Result<SparseRow<f32>, JsValue> {
    plain("sparse_type", "row", "an object {ids, logits, vocab}", value)?;
    let (ids, logits, vocabulary) = sparse_fields(value)?;
    SparseRow::new(&ids, &f32_logits(&logits)?, vocabulary).map_err(refuse)
}

/// Whether an object has one of these fields.
fn has_any(value: &JsValue, names: &[&str]) -> Result<bool, JsValue> {
    for name in names {
        if !Reflect::get(value, &(*name).into())?.is_undefined() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The three fields of a sparse row; there are no others.
fn sparse_fields(value: &JsValue) -> Result<(Vec<u32>, JsValue, u32), JsValue> {
    let mut fields = [JsValue::UNDEFINED, JsValue::UNDEFINED, JsValue::UNDEFINED];
    for key in Reflect::own_keys(value)?.iter() {
        let name = key.as_string();
        let field = Reflect::get(value, &key)?;
        let Some(at) = ["ids", "logits", "vocab"].iter().position(|known| name.as_deref() == Some(known)) else {
            if field.is_undefined() {
                continue;
            }
            let name = name.as_deref().unwrap_or("a symbol");
            let message = format!("a sparse row has no {}; it has ids, logits and vocab", Quoted(&beginning(name, 40)));
            return Err(with_value(sampler_error("field_unknown", &message), &key));
        };
        fields[at] = outside(&field)?;
    }
    let [ids, logits, vocabulary] = fields;
    for (name, field) in [("ids", &ids), ("logits", &logits), ("vocab", &vocabulary)] {
        if field.is_undefined() {
            return Err(sampler_error("field_missing", &format!("field {name} is missing from the sparse row")));
        }
    }
    Ok((tokens("ids", &ids)?, logits, vocab(&vocabulary)?))
}

/// A list of rows.
pub fn rows(value: &JsValue) -> Result<Vec<Vec<f64>>, JsValue> {
    if !is_array(value) {
        let hint = if is_promise(value) { " (await it first)" } else { "" };
        let expected = format!("an array of Float32Array, Float64Array or Float16Array{hint}");
        return Err(wrong("rows_type", "rows", &expected, value));
    }
    let rows = each(value, |at, row| match kind(&row) {
        Some(_) => outside(&row),
        None => Err(with_row(no_logits(&row), u64::from(at))),
    })?;
    let wide = |(at, row): (u64, &JsValue)| Ok(logits(row).map_err(|error| with_row(error, at))?.wide());
    (0..).zip(&rows).map(wide).collect()
}

/// Probabilities by token id.
pub fn probabilities(name: &str, value: &JsValue) -> Result<Vec<f64>, JsValue> {
    match kind(value).as_deref() {
        Some("Float64Array") => f64s(value),
        _ => Err(wrong("probabilities_type", name, "a Float64Array", value)),
    }
}

/// A token id: a number, or a bigint, as 64-bit tensors give it.
pub fn token(name: &str, value: &JsValue) -> Result<u32, JsValue> {
    let expected = "a token id, an integer from 0 to 4294967295";
    let id = integer(value).and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| wrong("token_out_of_range", name, expected, value))
}

/// How many logits a row has.
pub fn vocab(value: &JsValue) -> Result<u32, JsValue> {
    let expected = "the number of logits in a row, an integer from 0 to 4294967295";
    let length = value.as_f64().filter(|_| !value.is_bigint()).and_then(|_| integer(value));
    length
        .and_then(|length| u32::try_from(length).ok())
        .ok_or_else(|| wrong("token_out_of_range", "vocab", expected, value))
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
        Some("Float16Array") => f16s(value),
        _ => Err(wrong("logits_type", "logits of a frame", "a Float32Array or Float16Array", value)),
    }
}

pub fn bytes(name: &str, value: &JsValue) -> Result<Vec<u8>, JsValue> {
    match kind(value).as_deref() {
        Some("Uint8Array") => u8s(value),
        _ => Err(wrong("bytes_type", name, "a Uint8Array", value)),
    }
}

/// The uniform number of a token under these settings; greedy settings ignore it.
pub fn uniform_for(settings: &Settings, value: &JsValue) -> Result<f64, JsValue> {
    if settings.is_greedy() { Ok(0.0) } else { uniform("u", value) }
}

pub fn uniform(name: &str, value: &JsValue) -> Result<f64, JsValue> {
    let u = value.as_f64().filter(|u| (0.0..1.0).contains(u));
    u.ok_or_else(|| wrong("uniform_out_of_range", name, "a number at least 0 and below 1", value))
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

/// A label: a well-formed string, since a lone surrogate would become the same text as another label's.
pub fn label(value: &JsValue) -> Result<String, JsValue> {
    let whole = value.dyn_ref::<JsString>().filter(|text| text.is_valid_utf16()).and_then(|_| value.as_string());
    whole.ok_or_else(|| wrong("label_type", "label", "a string without lone surrogates", value))
}

/// A step, a stream or an attempt.
pub fn counter(name: &str, value: &JsValue) -> Result<u64, JsValue> {
    counter_as(&format!("{name}_out_of_range"), name, value)
}

/// Like [`counter`], with a code that is not derived from the name.
pub fn counter_as(code: &str, name: &str, value: &JsValue) -> Result<u64, JsValue> {
    let expected = "a safe non-negative integer or a bigint below 2^64";
    integer(value).ok_or_else(|| wrong(code, name, expected, value))
}

/// A stream, 0 where none is given.
pub fn stream(value: &JsValue) -> Result<u64, JsValue> {
    if value.is_undefined() { Ok(0) } else { counter("stream", value) }
}

/// The step of a frame, which must be a safe integer in JavaScript.
pub fn frame_step(value: &JsValue) -> Result<u64, JsValue> {
    let step = counter("step", value)?;
    if step as f64 > MAX_SAFE {
        return Err(wrong("step_out_of_range", "step", "an integer from 0 to 2^53 - 1", value));
    }
    Ok(step)
}

/// Whether a typed array may hold token ids, as those of tokenizers and tensors do.
fn is_of_ids(kind: Option<&str>) -> bool {
    matches!(kind, Some("Uint32Array" | "Int32Array" | "BigInt64Array" | "BigUint64Array"))
}

pub fn tokens(name: &str, value: &JsValue) -> Result<Vec<u32>, JsValue> {
    let kind = kind(value);
    if kind.as_deref() == Some("Uint32Array") {
        return u32s(value);
    }
    if !is_of_ids(kind.as_deref()) && !is_array(value) {
        let expected = "an array of token ids, or a Uint32Array, Int32Array, BigInt64Array or BigUint64Array of them";
        return Err(wrong("tokens_type", name, expected, value));
    }
    each(value, |at, id| token(&format!("{name}[{at}]"), &id).map_err(|error| with_index(error, u64::from(at))))
}

/// `{temperature = 1, topK = 0, topP = 1}`, with the aliases `top_k` and `top_p`. Any other key is refused, so that a misspelt
/// one does not silently leave the default. At temperature 0 the other two are ignored, because these settings are not stored.
pub fn settings(value: &JsValue) -> Result<Settings, JsValue> {
    settings_with(value, None)
}

/// The settings of a run, with `processors` as in a state. They are stored, so they are checked at any temperature.
pub fn run_settings(value: &JsValue) -> Result<RunSettings, JsValue> {
    let mut processors = Processors::default();
    let settings = settings_with(value, Some(&mut processors))?;
    Ok(RunSettings { settings, processors })
}

fn settings_with(value: &JsValue, processors: Option<&mut Processors>) -> Result<Settings, JsValue> {
    if value.is_undefined() {
        return Ok(Settings::default());
    }
    plain("settings_type", "settings", "an object {temperature, topK, topP}", value)?;
    let parts = parts("an object of settings", processors.is_some(), value)?;
    let default = Settings::default();
    let temperature = match parts.temperature()? {
        Some(part) => part.check("temperature_out_of_range", "finite and at least 0", Temperature::new),
        None => Temperature::new(default.temperature()).map_err(refuse),
    }?;
    if processors.is_none() && temperature.get() == 0.0 {
        return Ok(Settings::greedy());
    }
    let top_k = match parts.top_k()? {
        Some(part) => part.check("top_k_out_of_range", "an integer from 0 to 4294967295", TopK::from_f64)?,
        None => TopK::new(default.top_k()),
    };
    let top_p = match parts.top_p()? {
        Some(part) => part.check("top_p_out_of_range", "a number from 0 to 1", TopP::new),
        None => TopP::new(default.top_p()).map_err(refuse),
    }?;
    if let Some(processors) = processors
        && let Some(list) = parts.one_of(&["processors"])?
    {
        *processors = read_processors(objects("processors", &list.value)?).map_err(refuse)?;
    }
    Ok(Settings::from_parts(temperature, top_k, top_p))
}

/// A setting under the name it was given.
pub struct Part {
    name: &'static str,
    value: JsValue,
}

impl Part {
    /// The result of `make` for the number. A value that is not a number or that `make` refuses gives this code.
    pub fn check<T, E>(
        &self,
        code: &str,
        expected: &str,
        make: impl FnOnce(f64) -> Result<T, E>,
    ) -> Result<T, JsValue> {
        let made = self.value.as_f64().and_then(|number| make(number).ok());
        made.ok_or_else(|| wrong(code, self.name, expected, &self.value))
    }
}

/// A plain object of settings whose names are all known. Its values are read on demand.
pub struct Parts<'a> {
    of: &'a str,
    value: &'a JsValue,
    keys: Vec<String>,
}

/// Checks the names: temperature, top-k and top-p, and processors if they are allowed.
pub fn parts<'a>(of: &'a str, processors: bool, value: &'a JsValue) -> Result<Parts<'a>, JsValue> {
    let mut keys = Vec::new();
    for key in Reflect::own_keys(value)?.iter() {
        let name = key.as_string().unwrap_or_else(|| "a symbol".to_owned());
        match name.as_str() {
            "temperature" | "topK" | "top_k" | "topP" | "top_p" => {}
            "processors" if processors => {}
            // `undefined` counts as missing, as in all objects.
            _ if Reflect::get(value, &key)?.is_undefined() => {}
            _ => {
                let known =
                    if processors { "temperature, topK, topP and processors" } else { "temperature, topK and topP" };
                let message = format!("{of} has no {}, only {known}", Quoted(&beginning(&name, 40)));
                return Err(with_value(sampler_error("field_unknown", &message), &key));
            }
        }
        keys.push(name);
    }
    Ok(Parts { of, value, keys })
}

impl Parts<'_> {
    pub fn temperature(&self) -> Result<Option<Part>, JsValue> {
        self.one_of(&["temperature"])
    }

    /// `topK` or `top_k`.
    pub fn top_k(&self) -> Result<Option<Part>, JsValue> {
        self.one_of(&["topK", "top_k"])
    }

    /// `topP` or `top_p`.
    pub fn top_p(&self) -> Result<Option<Part>, JsValue> {
        self.one_of(&["topP", "top_p"])
    }

    /// The value under one of these names. Giving both is refused.
    fn one_of(&self, names: &[&'static str]) -> Result<Option<Part>, JsValue> {
        let mut found: Option<Part> = None;
        for &name in names.iter().filter(|name| self.keys.iter().any(|key| key == *name)) {
            let value = Reflect::get(self.value, &name.into())?;
            if value.is_undefined() {
                continue;
            }
            if let Some(before) = found {
                let message = format!("{} has both {} and {name}; give one of them", self.of, before.name);
                return Err(with_value(sampler_error("field_repeated", &message), &name.into()));
            }
            found = Some(Part { name, value });
        }
        Ok(found)
    }
}

/// The only flag of an options object; false if it or the object is missing.
pub fn flag(of: &str, name: &str, options: &JsValue) -> Result<bool, JsValue> {
    if options.is_undefined() {
        return Ok(false);
    }
    let flag = object(of, options)?.read(|it| Ok::<_, FieldError>(it.has(name) && it.flag(name)));
    flag.map_err(refuse)
}

/// The greatest nesting depth of an input: a claim, its state, the state's settings, their processors, one of them, its
/// lists, and lists in these.
const DEPTH: u32 = 7;

/// A plain object, for the strict readers of [`json`]: its own properties, which are numbers, strings, flags, null,
/// typed arrays of token ids, and lists and plain objects of the same kind. In a list an integer may be a bigint, as token
/// ids are in 64-bit tensors. `undefined` counts as missing.
pub fn object(name: &str, value: &JsValue) -> Result<json::Object, JsValue> {
    plain("field_type", name, "an object", value)?;
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
    let kind = kind(value);
    if kind.as_deref() == Some("Uint32Array") {
        let ids = u32s(value)?.into_iter().map(|id| json::Field::Scalar(Scalar::Integer(id.into())));
        return Ok(json::Field::List(ids.collect()));
    }
    if depth == 0 {
        return Err(wrong("field_type", path, "nothing inside so many others", value));
    }
    if is_of_ids(kind.as_deref()) || is_array(value) {
        let item = |at: u32, item: JsValue| match integer(&item).filter(|_| item.is_bigint()) {
            Some(id) => Ok(json::Field::Scalar(Scalar::Integer(id))),
            None => field(&format!("{path}[{at}]"), &item, depth - 1),
        };
        return each(value, item).map(json::Field::List);
    }
    plain("field_type", path, "what JSON can hold", value)?;
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
