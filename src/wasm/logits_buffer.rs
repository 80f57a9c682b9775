//! What `logitsBuffer(V)` gives: a row in wasm's own memory that JavaScript fills, so that its logits are not copied on their way in.
//!
//! The buffer is never freed and never moves: a view of it stays a view of memory that is nothing else's, whatever is asked
//! for later. A larger row gets a new buffer of at least twice the size, so what is given up is never more than what is in
//! use.

use std::cell::RefCell;

use js_sys::{Float32Array, Object, Reflect, WeakSet};
use wasm_bindgen::prelude::*;

use super::error::sampler_error;

struct Buffer {
    row: &'static mut [f32],
    /// The view that was handed out last, and how many logits it shows.
    view: Option<(Float32Array, usize)>,
}

thread_local! {
    static BUFFER: RefCell<Buffer> = const { RefCell::new(Buffer { row: &mut [], view: None }) };
    /// The memories of which views were handed out, as they were before and after growing.
    static MEMORIES: WeakSet = WeakSet::new();
}

/// A view of so many logits of the buffer, which grows where it is shorter.
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
        // A length of its own, which may throw, would be asked while the buffer is borrowed.
        Object::prevent_extensions(&view);
        buffer.view = Some((view.clone(), length));
        Ok(view)
    })
}

/// How many logits the buffer holds, if this value is the view that was handed out last and memory has not grown since. (Then
/// nobody can tell whether it was filled before, and it is refused as any array without memory is.)
pub fn length_in_buffer(value: &JsValue) -> Option<usize> {
    BUFFER.with_borrow(|buffer| {
        let (view, length) = buffer.view.as_ref()?;
        (Object::is(view, value) && view.length() as usize == *length).then_some(*length)
    })
}

/// Whether a typed array shows memory of the buffer, as it is or was.
pub fn shows_buffer(array: &JsValue) -> bool {
    let memory = Reflect::get(array, &"buffer".into());
    memory.is_ok_and(|memory| MEMORIES.with(|memories| memories.has(memory.unchecked_ref())))
}

/// Calls `with` with the first `length` logits of the buffer. Nothing of JavaScript may run meanwhile.
pub fn with_buffer<T>(length: usize, with: impl FnOnce(&[f32]) -> T) -> T {
    BUFFER.with_borrow(|buffer| with(&buffer.row[..length]))
}
