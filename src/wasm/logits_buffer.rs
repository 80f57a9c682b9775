//! The buffer of `logitsBuffer(V)`: a row in wasm memory that JavaScript fills, so that its logits need not be copied in.
//!
//! The buffer is never freed or moved, so an old view never shows memory with another use. A larger row gets a new buffer of at
//! least twice the size, so the abandoned buffers are never larger than the current one.

use std::cell::RefCell;

use js_sys::{Float32Array, Object, Reflect, WeakSet};
use wasm_bindgen::prelude::*;

use super::error::sampler_error;

struct LogitsBuffer {
    row: &'static mut [f32],
    /// The latest view, and its length.
    view: Option<(Float32Array, usize)>,
}

thread_local! {
    static BUFFER: RefCell<LogitsBuffer> = const { RefCell::new(LogitsBuffer { row: &mut [], view: None }) };
    /// The `ArrayBuffer`s of all views; each growth of the memory makes a new one.
    static MEMORIES: WeakSet = WeakSet::new();
}

/// A view of this many logits of the buffer, which grows if needed.
///
/// # Errors
/// `out_of_memory`.
pub fn view(length: usize) -> Result<Float32Array, JsValue> {
    BUFFER.with_borrow_mut(|buffer| {
        if let Some((view, shown)) = &buffer.view
            && *shown == length
            && view.length() as usize == length
        {
            return Ok(view.clone());
        }
        if buffer.row.len() < length {
            let room = length.max(2 * buffer.row.len());
            let mut row = Vec::new();
            if row.try_reserve_exact(room).is_err() {
                return Err(sampler_error("out_of_memory", &format!("there is no memory for {room} numbers")));
            }
            row.resize(room, 0.0);
            buffer.row = row.leak();
        }
        let memory = Reflect::get(&wasm_bindgen::memory(), &"buffer".into())?;
        MEMORIES.with(|memories| memories.add(memory.unchecked_ref()));
        let at = buffer.row.as_ptr() as usize as u32;
        let view = Float32Array::new_with_byte_offset_and_length(&memory, at, length as u32);
        // An added `length` property, which may throw, would be read while the buffer is borrowed.
        Object::prevent_extensions(&view);
        buffer.view = Some((view.clone(), length));
        Ok(view)
    })
}

/// The length of the latest view, if this value is that view and memory has not grown since. (A detached view may have been
/// filled before, so it is refused like any detached array.)
pub fn view_length(value: &JsValue) -> Option<usize> {
    BUFFER.with_borrow(|buffer| {
        let (view, length) = buffer.view.as_ref()?;
        (Object::is(view, value) && view.length() as usize == *length).then_some(*length)
    })
}

/// Whether a typed array has the memory of a view of the buffer.
pub fn was_logits_buffer(array: &JsValue) -> bool {
    let memory = Reflect::get(array, &"buffer".into());
    memory.is_ok_and(|memory| MEMORIES.with(|memories| memories.has(memory.unchecked_ref())))
}

/// Calls `with` with the first `length` logits of the buffer. No JavaScript may run during the call.
pub fn with_logits_buffer<T>(length: usize, with: impl FnOnce(&[f32]) -> T) -> T {
    BUFFER.with_borrow(|buffer| with(&buffer.row[..length]))
}
