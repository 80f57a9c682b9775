//! What `logitsBuffer(V)` lends: a row in wasm's own memory that JavaScript fills, so that its logits are not copied on their way in.
//!
//! The buffer is never freed and never moves: a view of it stays a view of memory that is nothing else's, whatever is asked
//! for later. A larger row gets a new buffer of at least twice the size, so what is given up is never more than what is in
//! use.

use std::cell::RefCell;

use js_sys::{Float32Array, Object, Reflect, WeakSet};
use wasm_bindgen::prelude::*;

use super::error::sampler_error;

struct Lent {
    row: &'static mut [f32],
    /// The view that was handed out last, and how many logits it shows.
    view: Option<(Float32Array, usize)>,
}

thread_local! {
    static LENT: RefCell<Lent> = const { RefCell::new(Lent { row: &mut [], view: None }) };
    /// The memories that views were lent of, as they were before and after growing.
    static MEMORIES: WeakSet = WeakSet::new();
}

/// A view of so many logits of the buffer, which grows where it is shorter.
///
/// # Errors
/// `out_of_memory`.
pub fn view(length: usize) -> Result<Float32Array, JsValue> {
    LENT.with_borrow_mut(|lent| {
        if let Some((view, shown)) = &lent.view
            && *shown == length
            && view.length() as usize == length
        {
            return Ok(view.clone());
        }
        if lent.row.len() < length {
            let room = length.max(2 * lent.row.len());
            let mut row = Vec::new();
            if row.try_reserve_exact(room).is_err() {
                return Err(sampler_error("out_of_memory", &format!("there is no memory for {room} numbers")));
            }
            row.resize(room, 0.0);
            lent.row = row.leak();
        }
        let memory = Reflect::get(&wasm_bindgen::memory(), &"buffer".into())?;
        MEMORIES.with(|memories| memories.add(memory.unchecked_ref()));
        let at = lent.row.as_ptr() as usize as u32;
        let view = Float32Array::new_with_byte_offset_and_length(&memory, at, length as u32);
        // A length of its own, which may throw, would be asked while the buffer is borrowed.
        Object::prevent_extensions(&view);
        lent.view = Some((view.clone(), length));
        Ok(view)
    })
}

/// How many logits the buffer holds, if this value is the view that was lent last and memory has not grown since. (Then
/// nobody can tell whether it was filled before, and it is refused as any array without memory is.)
pub fn lent(value: &JsValue) -> Option<usize> {
    LENT.with_borrow(|lent| {
        let (view, length) = lent.view.as_ref()?;
        (Object::is(view, value) && view.length() as usize == *length).then_some(*length)
    })
}

/// Whether a typed array shows memory that was lent.
pub fn was_lent(array: &JsValue) -> bool {
    let memory = Reflect::get(array, &"buffer".into());
    memory.is_ok_and(|memory| MEMORIES.with(|memories| memories.has(memory.unchecked_ref())))
}

/// Calls `with` with the first `length` logits of the buffer. Nothing of JavaScript may run meanwhile.
pub fn with_lent<T>(length: usize, with: impl FnOnce(&[f32]) -> T) -> T {
    LENT.with_borrow(|lent| with(&lent.row[..length]))
}
