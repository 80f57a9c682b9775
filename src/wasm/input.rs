//! Safe access to JavaScript values.
//!
//! A getter, a proxy or an overridden property may throw or lie. An exception must become a `Result`, because one that unwinds
//! through Rust frames drops nothing. Types and lengths are read with the built-in getters, which inspect the object itself
//! and also recognize arrays of other realms.
//!
//! An array over the wasm's own memory is detached when that memory grows, and copying an array in may grow it. Such an array
//! is first copied in JavaScript ([`outside`]).

use js_sys::{
    Array, ArrayBuffer, Float32Array, Float64Array, Function, Object, Reflect, Symbol, Uint8Array, Uint32Array,
    WebAssembly,
};
use wasm_bindgen::prelude::*;

use super::error::sampler_error;
use super::logits_buffer::was_logits_buffer;

/// The most numbers that are copied in at once, 2^26: what is computed from them must fit in 4 GiB as well.
pub const MAX_LENGTH: u32 = 1 << 26;

struct Intrinsics {
    /// `get %TypedArray%.prototype[Symbol.toStringTag]`: the kind of a real typed array, undefined for all else.
    kind: Function,
    /// `%TypedArray%.prototype.values`, which throws for an array whose buffer is detached or too short, and else does
    /// nothing.
    values: Function,
    /// `get %TypedArray%.prototype.buffer`.
    buffer: Function,
    is_array: Function,
}

thread_local! {
    static INTRINSICS: Option<Intrinsics> = intrinsics().ok();
}

fn intrinsics() -> Result<Intrinsics, JsValue> {
    let typed_array = Object::get_prototype_of(&Object::get_prototype_of(&Uint8Array::new_with_length(0)));
    let getter = |name: &JsValue| {
        let property = Reflect::get_own_property_descriptor(typed_array.unchecked_ref::<Object>(), name)?;
        Reflect::get(&property, &"get".into())?.dyn_into::<Function>()
    };
    let array = Reflect::get(&js_sys::global(), &"Array".into())?;
    Ok(Intrinsics {
        kind: getter(&Symbol::to_string_tag())?,
        buffer: getter(&"buffer".into())?,
        values: Reflect::get(&typed_array, &"values".into())?.dyn_into()?,
        is_array: Reflect::get(&array, &"isArray".into())?.dyn_into()?,
    })
}

/// `Float32Array` and so on for a real typed array of any realm.
pub fn kind(value: &JsValue) -> Option<String> {
    INTRINSICS.with(|of| of.as_ref()?.kind.call0(value).ok()?.as_string())
}

/// Refuses a detached typed array: its buffer was sent to another thread, or wasm's memory has grown.
///
/// # Errors
/// `logits_buffer_detached` for a view of `logitsBuffer`, else `array_detached`.
pub fn attached(array: &JsValue) -> Result<(), JsValue> {
    let attached = INTRINSICS.with(|of| of.as_ref().is_none_or(|of| of.values.call0(array).is_ok()));
    if attached {
        return Ok(());
    }
    if was_logits_buffer(array) {
        let message = "the buffer was lent before wasm's memory grew; ask logitsBuffer for it again, then fill it";
        return Err(sampler_error("logits_buffer_detached", message));
    }
    let kind = kind(array).unwrap_or_default();
    let message = format!("the memory of this {kind} is gone (it was transferred, or wasm's memory has grown)");
    Err(sampler_error("array_detached", &message))
}

/// A copy of a typed array over the wasm's own memory; any other value unchanged. Must be called for all values of a call
/// before the first of them is copied in, because that may grow the memory.
///
/// # Errors
/// The engine's error if it has no memory for the copy.
pub fn outside(value: &JsValue) -> Result<JsValue, JsValue> {
    if !ArrayBuffer::is_view(value) {
        return Ok(value.clone());
    }
    // (The getter throws for a DataView.)
    let buffer = INTRINSICS.with(|of| of.as_ref()?.buffer.call0(value).ok());
    let own = wasm_bindgen::memory().unchecked_into::<WebAssembly::Memory>().buffer();
    if buffer.is_none_or(|buffer| buffer != own) {
        return Ok(value.clone());
    }
    let kind = kind(value).unwrap_or_default();
    let constructor = Reflect::get(&js_sys::global(), &kind.into())?;
    Reflect::construct(constructor.unchecked_ref::<Function>(), &Array::of1(value))
}

/// Whether a value is a plain object like `{}`: not an array and not of a class. A promise, a map or a date would look like an
/// object without fields.
pub fn is_plain(value: &JsValue) -> Result<bool, JsValue> {
    if !value.is_object() || is_array(value) {
        return Ok(false);
    }
    let prototype = Reflect::get_prototype_of(value)?;
    // For any realm: the prototype of `{}` has no prototype.
    Ok(prototype.is_null() || Reflect::get_prototype_of(&prototype)?.is_null())
}

/// `Array.isArray`, but false for a revoked proxy.
pub fn is_array(value: &JsValue) -> bool {
    let answer = INTRINSICS.with(|of| of.as_ref()?.is_array.call1(&JsValue::UNDEFINED, value).ok()?.as_bool());
    answer.unwrap_or(false)
}

/// The length of an array.
pub fn length(array: &JsValue) -> Result<u32, JsValue> {
    if kind(array).is_some() {
        attached(array)?;
    }
    let length = Reflect::get(array, &"length".into())?.as_f64().unwrap_or(0.0);
    if length > f64::from(MAX_LENGTH) {
        return Err(too_long(length));
    }
    Ok(length as u32)
}

/// Reads an array element by element, up to the first that is refused.
pub fn each<T>(array: &JsValue, mut one: impl FnMut(u32, JsValue) -> Result<T, JsValue>) -> Result<Vec<T>, JsValue> {
    if kind(array).is_some() {
        attached(array)?;
    }
    let array = &outside(array)?;
    let mut list = Vec::new();
    // A refused element is reported before a length above the limit.
    let length = Reflect::get(array, &"length".into())?.as_f64().unwrap_or(0.0);
    let mut at = 0;
    while f64::from(at) < length {
        if at == MAX_LENGTH {
            return Err(too_long(length));
        }
        list.push(one(at, Reflect::get_u32(array, at)?)?);
        at += 1;
    }
    Ok(list)
}

fn too_long(length: f64) -> JsValue {
    sampler_error(
        "list_too_long",
        &format!("{} numbers are more than the {MAX_LENGTH} taken over at once", length as u64),
    )
}

/// The typed array itself, or a copy by the built-in constructor if its prototype or `length` was changed; `kin` is an array of
/// the same type.
fn plain(array: &JsValue, kin: &Object) -> Result<JsValue, JsValue> {
    if Object::get_prototype_of(kin) == Object::get_prototype_of(array)
        && Reflect::get_own_property_descriptor(array.unchecked_ref::<Object>(), &"length".into())?.is_undefined()
    {
        return Ok(array.clone());
    }
    let constructor = Reflect::get(kin, &"constructor".into())?;
    Reflect::construct(constructor.unchecked_ref::<Function>(), &Array::of1(array))
}

/// Refuses an array that does not fit in memory, because copying it would abort.
fn room(length: u32, size: usize) -> Result<(), JsValue> {
    if length > MAX_LENGTH {
        return Err(too_long(f64::from(length)));
    }
    let mut bytes: Vec<u8> = Vec::new();
    let reserved = bytes.try_reserve_exact(length as usize * size);
    // The optimizer may remove an allocation that is not used.
    std::hint::black_box(&bytes);
    reserved.map_err(|_| sampler_error("out_of_memory", &format!("there is no memory for {length} numbers")))
}

macro_rules! copies {
    ($($name:ident $array:ident $number:ty;)*) => {$(
        /// The numbers of a typed array of this type.
        pub fn $name(value: &JsValue) -> Result<Vec<$number>, JsValue> {
            // Checked first, because operations on a detached array throw other errors.
            attached(value)?;
            let array: $array = plain(&outside(value)?, &$array::new_with_length(0))?.unchecked_into();
            // This may grow the memory; the array is not a view of it.
            room(array.length(), size_of::<$number>())?;
            Ok(array.to_vec())
        }
    )*};
}

/// The numbers of a `Float16Array`, which widen exactly.
pub fn f16s(value: &JsValue) -> Result<Vec<f32>, JsValue> {
    attached(value)?;
    let constructor = Reflect::get(&Float32Array::new_with_length(0), &"constructor".into())?;
    f32s(&Reflect::construct(constructor.unchecked_ref::<Function>(), &Array::of1(value))?)
}

copies! {
    f32s Float32Array f32;
    f64s Float64Array f64;
    u32s Uint32Array u32;
    u8s Uint8Array u8;
}
