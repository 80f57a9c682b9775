//! Further handles on objects in the wasm.

use js_sys::{Function, Reflect};
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// The function in src/wasm/glue.js. A build without it (`wasm-pack test`) calls the object's own method.
    #[wasm_bindgen(thread_local_v2, js_name = secondHandle)]
    static SECOND_HANDLE: Option<Function>;
}

/// Another handle on the content of an object, if it is of one of these classes. Converting the object itself would take the
/// content from its owner.
pub(super) fn second_handle(object: &JsValue) -> Result<Option<JsValue>, JsValue> {
    if let Some(handle) = SECOND_HANDLE.with(|function| Some(function.as_ref()?.call1(&JsValue::UNDEFINED, object))) {
        return handle.map(Some);
    }
    let share = Reflect::get(object, &"_share".into()).ok().and_then(|share| share.dyn_into::<Function>().ok());
    share.map(|share| share.call0(object)).transpose()
}
