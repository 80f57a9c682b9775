//! The class `Generator`.
//!
//! Methods take `&self`: a `&mut self` borrowed by wasm-bindgen during a model's callback would turn a re-entrant call
//! into an error without a code. The run is changed only after the callback has returned and its logits were accepted.

use std::cell::{Cell, RefCell};

use js_sys::{Function, Object, Reflect, Uint32Array};
use wasm_bindgen::prelude::*;

use super::error::{refuse, sampler_error};
use super::frame::Frame;
use super::read::{self, Row};
use super::verify::to_plain;
use crate::contract::generator::Run;
use crate::contract::state::GeneratorState;

/// One run and, where given, the model that feeds it.
#[wasm_bindgen(skip_typescript)]
pub struct Generator {
    model: Option<Function>,
    run: RefCell<Run>,
    asking: Cell<bool>,
}

fn model(value: &JsValue) -> Result<Option<Function>, JsValue> {
    if value.is_null() || value.is_undefined() {
        return Ok(None);
    }
    match value.dyn_ref::<Function>() {
        Some(function) => Ok(Some(function.clone())),
        None => Err(read::wrong("model_type", "model", "a function from token ids to logits, or null", value)),
    }
}

impl Generator {
    fn of(model: Option<Function>, run: Run) -> Self {
        Self { model, run: RefCell::new(run), asking: Cell::new(false) }
    }

    /// A generator whose model is being asked cannot be stepped by that model.
    fn idle(&self) -> Result<(), JsValue> {
        if self.asking.get() {
            return Err(sampler_error(
                "generator_busy",
                "the generator is waiting for its model; the model cannot step it",
            ));
        }
        Ok(())
    }

    fn emit(&self, row: &Row) -> Result<u32, JsValue> {
        let mut run = self.run.borrow_mut();
        match row {
            Row::F32(row) => run.step_with(row),
            Row::F64(row) => run.step_with(row),
        }
        .map_err(refuse)
    }
}

#[wasm_bindgen]
impl Generator {
    /// `new Generator(model, prompt, seed, settings)`.
    #[wasm_bindgen(constructor, skip_typescript)]
    pub fn new(model: &JsValue, prompt: &JsValue, seed: &JsValue, settings: &JsValue) -> Result<Generator, JsValue> {
        let model = self::model(model)?;
        let run = Run::new(read::tokens("prompt", prompt)?, read::seed(seed)?, read::settings(settings)?);
        Ok(Self::of(model, run))
    }

    /// `Generator.fromState(model, state)`.
    #[wasm_bindgen(js_name = fromState, skip_typescript)]
    pub fn from_state(model: &JsValue, state: &JsValue) -> Result<Generator, JsValue> {
        let model = self::model(model)?;
        let state = GeneratorState::from_object(read::object("state", state)?).map_err(refuse)?;
        Ok(Self::of(model, Run::from_state(state)))
    }

    /// `step()`.
    #[wasm_bindgen(skip_typescript)]
    pub fn step(&self) -> Result<u32, JsValue> {
        self.idle()?;
        let Some(model) = &self.model else {
            return Err(sampler_error("model_missing", "this generator has no model; use stepWith or stepWithFrame"));
        };
        let context = Uint32Array::from(self.run.borrow().context().as_slice());
        self.asking.set(true);
        let answer = model.call1(&JsValue::UNDEFINED, &context);
        self.asking.set(false);
        self.emit(&read::logits(&answer?)?)
    }

    /// `stepWith(logits)`.
    #[wasm_bindgen(js_name = stepWith, skip_typescript)]
    pub fn step_with(&self, logits: &JsValue) -> Result<u32, JsValue> {
        self.idle()?;
        self.emit(&read::logits(logits)?)
    }

    /// `stepWithFrame(frame)`.
    #[wasm_bindgen(js_name = stepWithFrame, skip_typescript)]
    pub fn step_with_frame(&self, frame: &Frame) -> Result<u32, JsValue> {
        self.idle()?;
        self.run.borrow_mut().step_with_frame(frame.inner()).map_err(refuse)
    }

    /// `state()`.
    #[wasm_bindgen(skip_typescript)]
    pub fn state(&self) -> Result<JsValue, JsValue> {
        to_plain(self.run.borrow().state())
    }

    /// `tokens`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn tokens(&self) -> Uint32Array {
        Uint32Array::from(self.run.borrow().tokens())
    }

    /// `prompt`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn prompt(&self) -> Uint32Array {
        Uint32Array::from(self.run.borrow().prompt())
    }

    /// `position`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn position(&self) -> f64 {
        self.run.borrow().position() as f64
    }

    /// `seed`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn seed(&self) -> String {
        self.run.borrow().seed().to_string()
    }

    /// `settings`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn settings(&self) -> Result<Object, JsValue> {
        let settings = *self.run.borrow().settings();
        let object = Object::new();
        Reflect::set(&object, &"temperature".into(), &settings.temperature().into())?;
        Reflect::set(&object, &"topK".into(), &settings.top_k().into())?;
        Reflect::set(&object, &"topP".into(), &settings.top_p().into())?;
        Ok(object)
    }
}
