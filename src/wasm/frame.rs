//! The class `Frame`.

use std::rc::Rc;

use js_sys::Float32Array;
use wasm_bindgen::convert::TryFromJsValue;
use wasm_bindgen::prelude::*;

use super::error::{refuse, sampler_error};
use super::handle::second_handle;
use super::read;
use crate::core::settings::TopK;
use crate::wire::frame::{self, Dtype, Layout};
use crate::wire::state::RunSettings;

/// The encoded logits of one step.
#[wasm_bindgen(skip_typescript)]
pub struct Frame(Rc<frame::Frame>);

impl Frame {
    fn of(frame: frame::Frame) -> Self {
        Self(Rc::new(frame))
    }

    /// The frame behind the class.
    pub(super) fn inner(&self) -> &frame::Frame {
        &self.0
    }

    /// A second handle on the frame of a JavaScript value.
    pub(super) fn behind(value: &JsValue) -> Result<Self, JsValue> {
        let handle = second_handle(value)?.and_then(|handle| Self::try_from_js_value(handle).ok());
        handle.ok_or_else(|| read::wrong("frame_type", "frame", "a Frame (Frame.decode reads bytes)", value))
    }
}

#[wasm_bindgen]
impl Frame {
    /// `new Frame()`.
    #[wasm_bindgen(constructor, skip_typescript)]
    pub fn new() -> Result<Frame, JsValue> {
        let message = "a Frame is made by Frame.forSettings, dense, sparse, fromSparse or decode, not by new";
        Err(sampler_error("frame_constructor", message))
    }

    /// Another handle on the same frame, for `stepWithFrame`. Not part of the interface.
    #[wasm_bindgen(js_name = _share, skip_typescript)]
    pub fn share(&self) -> Frame {
        Self(Rc::clone(&self.0))
    }

    /// `Frame.fromSparse(step, row)`.
    #[wasm_bindgen(js_name = fromSparse, skip_typescript)]
    pub fn from_sparse(step: &JsValue, row: &JsValue) -> Result<Frame, JsValue> {
        let (step, row) = (read::frame_step(step)?, read::sparse_f32(row)?);
        frame::Frame::from_sparse(step, &row).map(Self::of).map_err(refuse)
    }

    /// `toJSON()`: the bytes in base64, as in a record file.
    #[wasm_bindgen(js_name = toJSON, skip_typescript)]
    pub fn to_json(&self) -> String {
        self.0.to_base64()
    }

    /// `Frame.forSettings(step, logits, settings)`.
    #[wasm_bindgen(js_name = forSettings, skip_typescript)]
    pub fn for_settings(step: &JsValue, logits: &JsValue, settings: &JsValue) -> Result<Frame, JsValue> {
        let (step, RunSettings { settings, processors }) = (read::frame_step(step)?, read::run_settings(settings)?);
        let logits = read::f32_logits(logits)?;
        frame::Frame::for_run(step, &logits, &settings, &processors).map(Self::of).map_err(refuse)
    }

    /// `Frame.dense(step, logits)`.
    #[wasm_bindgen(skip_typescript)]
    pub fn dense(step: &JsValue, logits: &JsValue) -> Result<Frame, JsValue> {
        frame::Frame::dense(read::frame_step(step)?, &read::f32_logits(logits)?).map(Self::of).map_err(refuse)
    }

    /// `Frame.sparse(step, logits, k)`.
    #[wasm_bindgen(skip_typescript)]
    pub fn sparse(step: &JsValue, logits: &JsValue, k: &JsValue) -> Result<Frame, JsValue> {
        let step = read::frame_step(step)?;
        let number = k.as_f64().and_then(|number| TopK::from_f64(number).ok()).filter(|k| k.get() > 0);
        let expected = "an integer from 1 to 4294967295";
        let k_best = number.ok_or_else(|| read::wrong("top_k_out_of_range", "k", expected, k))?.get();
        frame::Frame::sparse(step, &read::f32_logits(logits)?, k_best).map(Self::of).map_err(refuse)
    }

    /// `Frame.decode(bytes)`.
    #[wasm_bindgen(skip_typescript)]
    pub fn decode(bytes: &JsValue) -> Result<Frame, JsValue> {
        let frame = frame::Frame::decode(&read::bytes("bytes", bytes)?).map_err(refuse)?;
        read::frame_step(&frame.step().into())?;
        Ok(Self::of(frame))
    }

    /// `encode()`.
    #[wasm_bindgen(skip_typescript)]
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    /// `step`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn step(&self) -> f64 {
        self.0.step() as f64
    }

    /// `vocab`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn vocab(&self) -> u32 {
        self.0.vocabulary()
    }

    /// `layout`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn layout(&self) -> String {
        match self.0.layout() {
            Layout::Dense => "dense",
            Layout::Sparse => "sparse",
        }
        .to_owned()
    }

    /// `dtype`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn dtype(&self) -> String {
        match self.0.dtype() {
            Dtype::F32 => "f32",
            Dtype::Bf16 => "bf16",
            Dtype::F16 => "f16",
        }
        .to_owned()
    }

    /// `maxTopK`.
    #[wasm_bindgen(getter, js_name = maxTopK, skip_typescript)]
    pub fn max_top_k(&self) -> JsValue {
        self.0.max_top_k().map_or(JsValue::NULL, JsValue::from)
    }

    /// `checksum`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn checksum(&self) -> String {
        format!("{:08x}", self.0.checksum())
    }

    /// `sufficesFor(settings)`.
    #[wasm_bindgen(js_name = sufficesFor, skip_typescript)]
    pub fn suffices_for(&self, settings: &JsValue) -> Result<bool, JsValue> {
        let RunSettings { settings, processors } = read::run_settings(settings)?;
        Ok(self.0.suffices_for_run(&settings, &processors))
    }

    /// `logits(settings)`.
    #[wasm_bindgen(skip_typescript)]
    pub fn logits(&self, settings: &JsValue) -> Result<Float32Array, JsValue> {
        let RunSettings { settings, processors } = read::run_settings(settings)?;
        self.0.logits_for_run(&settings, &processors).map(|row| Float32Array::from(&*row)).map_err(refuse)
    }
}
