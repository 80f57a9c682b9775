//! Handles of JavaScript on what lies in the wasm.

use js_sys::{Function, Reflect};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The function of src/wasm/glue.js. A build without it (`wasm-pack test`) asks the object's own method.
    #[wasm_bindgen(thread_local_v2, js_name = secondHandle)]
    static SECOND_HANDLE: Option<Function>;
}

/// Another handle on what an object of a class here holds, if it is one. Converting the object itself would take that from
/// its owner.
pub(super) fn second_handle(object: &JsValue) -> Result<Option<JsValue>, JsValue> {
    if let Some(handle) = SECOND_HANDLE.with(|function| Some(function.as_ref()?.call1(&JsValue::UNDEFINED, object))) {
        return handle.map(Some);
    }
    let share = Reflect::get(object, &"_share".into()).ok().and_then(|share| share.dyn_into::<Function>().ok());
    share.map(|share| share.call0(object)).transpose()
}
