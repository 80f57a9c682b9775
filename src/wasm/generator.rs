//! The class `Generator`.
//!
//! Methods take `&self`: a `&mut self` borrowed by wasm-bindgen during a model's callback would turn a re-entrant call
//! into an error without a code. The run changes only after the callback has returned and its logits were accepted.
//! The run is shared, so that it is not freed during the callback: `free()` is then refused (src/wasm/glue.js), and `stepBatch`
//! holds a second handle.

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use js_sys::{Array, Function, Object, Reflect, Uint32Array};
use wasm_bindgen::prelude::*;

use super::error::{is_ours, refuse, sampler_error, with_cause, with_row};
use super::frame::Frame;
use super::input::{each, is_array, outside};
use super::read::{self, Given, InputRow, of_either_type};
use super::verify::to_plain;
use crate::core::distribution::Distribution;
use crate::run::chain::{Chain, ChainError, Draft};
use crate::run::run::Run;
use crate::wire::state::{GeneratorState, RunSettings};

/// One run and, if given, its model.
#[wasm_bindgen(skip_typescript)]
pub struct Generator(Rc<Inner>);

struct Inner {
    model: Option<Function>,
    run: RefCell<Run>,
    asking: Cell<bool>,
}

/// Marks a generator as waiting for its model until it is dropped.
pub(super) struct Waiting(Rc<Inner>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.asking.set(false);
    }
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

fn state(value: &JsValue) -> Result<GeneratorState, JsValue> {
    GeneratorState::from_object(read::object("state", value)?).map_err(refuse)
}

impl Generator {
    fn of(model: Option<Function>, run: Run) -> Self {
        Self(Rc::new(Inner { model, run: RefCell::new(run), asking: Cell::new(false) }))
    }

    /// Refuses a generator whose model is being called.
    fn idle(&self) -> Result<(), JsValue> {
        if self.0.asking.get() {
            return Err(sampler_error(
                "generator_busy",
                "the generator is waiting for its model; the model can neither step nor free it",
            ));
        }
        Ok(())
    }

    fn model(&self) -> Result<&Function, JsValue> {
        self.0
            .model
            .as_ref()
            .ok_or_else(|| sampler_error("model_missing", "this generator has no model; use stepWith or stepWithFrame"))
    }

    /// The row of its own model, for a call on several generators, which has marked it as waiting. What the model or a getter
    /// of its answer throws becomes the cause of an error, because a thrown number would look like a token.
    pub(super) fn ask(&self, context: &Uint32Array) -> Result<Given, JsValue> {
        let answer = self.model()?.call1(&JsValue::UNDEFINED, context);
        let failed = |thrown: JsValue| {
            let error = sampler_error("model_failed", "the model of this generator failed; see the cause");
            with_cause(error, &thrown)
        };
        let row = read::given(&answer.map_err(failed)?);
        // Copied out of the logits buffer, which the next model may fill.
        Ok(match row.map_err(|error| if is_ours(&error) { error } else { failed(error) })? {
            Given::Whole(row) => Given::Whole(InputRow::F64(row.wide())),
            sparse => sparse,
        })
    }

    pub(super) fn emit(&self, row: Given) -> Result<u32, JsValue> {
        let mut run = self.0.run.borrow_mut();
        match row {
            Given::Whole(row) => of_either_type!(row => run.step_with(row)),
            Given::Sparse(row) => run.step_with_sparse(&row),
        }
        .map_err(refuse)
    }

    /// The run, for a call on several generators; refused while a model is being called.
    pub(super) fn run(&self) -> Result<RefMut<'_, Run>, JsValue> {
        self.idle()?;
        Ok(self.0.run.borrow_mut())
    }

    /// Marks the generator as waiting for its model.
    pub(super) fn wait_for_model(&self) -> Result<Waiting, JsValue> {
        self.idle()?;
        self.0.asking.set(true);
        Ok(Waiting(Rc::clone(&self.0)))
    }

    /// The context for the model. Made before a generator is marked as waiting: if the engine has no memory for it, it throws
    /// without dropping the mark.
    pub(super) fn context(&self) -> Uint32Array {
        Uint32Array::from(self.0.run.borrow().context().as_slice())
    }

    /// Whether both are the same generator.
    pub(super) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }
}

fn chain(chain: Result<Chain, ChainError>) -> Result<Object, JsValue> {
    let chain = chain.map_err(|error| match error {
        ChainError::Sample { row, error } => with_row(refuse(error), row),
        ChainError::Speculative { draft, error } => with_row(refuse(error), draft),
        other => refuse(other),
    })?;
    let object = Object::new();
    let tokens = Array::from(&Uint32Array::from(chain.tokens.as_slice()));
    Reflect::set(&object, &"tokens".into(), &tokens)?;
    Reflect::set(&object, &"accepted".into(), &(chain.accepted as f64).into())?;
    Ok(object)
}

fn drafts(value: &JsValue) -> Result<Vec<Draft>, JsValue> {
    if !is_array(value) {
        return Err(read::wrong("drafts_type", "drafts", "an array of {token, ids, probabilities}", value));
    }
    let one = |at: u32, draft: JsValue| {
        let path = format!("drafts[{at}]");
        read::plain("drafts_type", &path, "an object {token, ids, probabilities}", &draft)?;
        let [token, ids, probabilities] = ["token", "ids", "probabilities"].map(|name| format!("{path}.{name}"));
        let token = read::token(&token, &Reflect::get(&draft, &"token".into())?)?;
        let given_ids = outside(&Reflect::get(&draft, &"ids".into())?)?;
        let given_probabilities = outside(&Reflect::get(&draft, &"probabilities".into())?)?;
        let ids = read::tokens(&ids, &given_ids)?;
        let probabilities = read::probabilities(&probabilities, &given_probabilities)?;
        let distribution =
            Distribution::new(ids, probabilities).map_err(|error| with_row(refuse(error), u64::from(at)))?;
        Ok(Draft { token, distribution })
    };
    each(value, one)
}

#[wasm_bindgen]
impl Generator {
    /// `new Generator(model, prompt, seed, settings)`.
    #[wasm_bindgen(constructor, skip_typescript)]
    pub fn new(model: &JsValue, prompt: &JsValue, seed: &JsValue, settings: &JsValue) -> Result<Generator, JsValue> {
        let model = self::model(model)?;
        let (prompt, seed) = (read::tokens("prompt", prompt)?, read::seed(seed)?);
        let RunSettings { settings, processors } = read::run_settings(settings)?;
        let run = Run::with_processors(prompt, seed, settings, processors);
        Ok(Self::of(model, run))
    }

    /// `Generator.fromState(model, state)`.
    #[wasm_bindgen(js_name = fromState, skip_typescript)]
    pub fn from_state(model: &JsValue, state: &JsValue) -> Result<Generator, JsValue> {
        let (model, state) = (self::model(model)?, self::state(state)?);
        Ok(Self::of(model, Run::from_state(state)))
    }

    /// `Generator.replay(model, state)`.
    #[wasm_bindgen(skip_typescript)]
    pub fn replay(model: &JsValue, state: &JsValue) -> Result<Generator, JsValue> {
        let (model, state) = (self::model(model)?, self::state(state)?);
        Ok(Self::of(model, Run::replay(&state)))
    }

    /// `Generator.newCandidate(model, state, attempt)`.
    #[wasm_bindgen(js_name = newCandidate, skip_typescript)]
    pub fn new_candidate(model: &JsValue, state: &JsValue, attempt: &JsValue) -> Result<Generator, JsValue> {
        let (model, state) = (self::model(model)?, self::state(state)?);
        Ok(Self::of(model, Run::new_candidate(&state, read::counter("attempt", attempt)?)))
    }

    /// `Generator.resume(model, state)`.
    #[wasm_bindgen(skip_typescript)]
    pub fn resume(model: &JsValue, state: &JsValue) -> Result<Generator, JsValue> {
        Self::from_state(model, state)
    }

    /// `step()`.
    #[wasm_bindgen(skip_typescript)]
    pub fn step(&self) -> Result<u32, JsValue> {
        self.idle()?;
        let model = self.model()?;
        let context = self.context();
        let waiting = self.wait_for_model()?;
        // Read while it is marked: a getter or a trap of the answer is part of the model too.
        let row = model.call1(&JsValue::UNDEFINED, &context).and_then(|answer| read::given(&answer));
        drop(waiting);
        self.emit(row?)
    }

    /// `stepWith(logits)`.
    #[wasm_bindgen(js_name = stepWith, skip_typescript)]
    pub fn step_with(&self, logits: &JsValue) -> Result<u32, JsValue> {
        self.idle()?;
        self.emit(read::given(logits)?)
    }

    /// `stepWithFrame(frame)`.
    #[wasm_bindgen(js_name = stepWithFrame, skip_typescript)]
    pub fn step_with_frame(&self, frame: &JsValue) -> Result<u32, JsValue> {
        self.idle()?;
        let frame = Frame::behind(frame)?;
        self.0.run.borrow_mut().step_with_frame(frame.inner()).map_err(refuse)
    }

    /// `stepWithDrafts(rows, drafts)`.
    #[wasm_bindgen(js_name = stepWithDrafts, skip_typescript)]
    pub fn step_with_drafts(&self, rows: &JsValue, drafts: &JsValue) -> Result<Object, JsValue> {
        let (rows, drafts) = (read::rows(rows)?, read::tokens("drafts", drafts)?);
        let mut run = self.run()?;
        chain(run.step_with_drafts(&rows, &drafts))
    }

    /// `stepSpeculative(rows, drafts)`.
    #[wasm_bindgen(js_name = stepSpeculative, skip_typescript)]
    pub fn step_speculative(&self, rows: &JsValue, drafts: &JsValue) -> Result<Object, JsValue> {
        let (rows, drafts) = (read::rows(rows)?, self::drafts(drafts)?);
        let mut run = self.run()?;
        chain(run.step_speculative(&rows, &drafts))
    }

    /// `decision(logits)`.
    #[wasm_bindgen(skip_typescript)]
    pub fn decision(&self, logits: &JsValue) -> Result<JsValue, JsValue> {
        let row = read::given(logits)?;
        let run = self.0.run.borrow();
        let decision = match row {
            Given::Whole(row) => run.decision(&row.wide()),
            Given::Sparse(row) => run.decision_sparse(&row),
        };
        to_plain(&decision.map_err(refuse)?.written())
    }

    /// `trace(logits, {redact})`.
    #[wasm_bindgen(skip_typescript)]
    pub fn trace(&self, logits: &JsValue, options: &JsValue) -> Result<JsValue, JsValue> {
        let (row, redact) = (read::given(logits)?, read::flag("options", "redact", options)?);
        let run = self.0.run.borrow();
        let trace = match row {
            Given::Whole(row) => run.trace(&row.wide()),
            Given::Sparse(row) => run.trace_sparse(&row),
        };
        let trace = trace.map_err(refuse)?;
        to_plain(&if redact { trace.redacted() } else { trace }.written())
    }

    /// Another handle on the same run, for `stepBatch`. Not part of the interface.
    #[wasm_bindgen(js_name = _share, skip_typescript)]
    pub fn share(&self) -> Generator {
        Self(Rc::clone(&self.0))
    }

    /// Called by `free()` first: refuses while the generator waits for its model. Not part of the interface.
    #[wasm_bindgen(js_name = _idle, skip_typescript)]
    pub fn may_be_freed(&self) -> Result<(), JsValue> {
        self.idle()
    }

    /// `toJSON()`.
    #[wasm_bindgen(js_name = toJSON, skip_typescript)]
    pub fn to_json(&self) -> Result<JsValue, JsValue> {
        self.state()
    }

    /// `state()`.
    #[wasm_bindgen(skip_typescript)]
    pub fn state(&self) -> Result<JsValue, JsValue> {
        to_plain(&self.0.run.borrow().state().written())
    }

    /// `tokens`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn tokens(&self) -> Uint32Array {
        Uint32Array::from(self.0.run.borrow().tokens())
    }

    /// `prompt`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn prompt(&self) -> Uint32Array {
        Uint32Array::from(self.0.run.borrow().prompt())
    }

    /// `position`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn position(&self) -> f64 {
        self.0.run.borrow().position() as f64
    }

    /// `seed`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn seed(&self) -> String {
        self.0.run.borrow().seed().to_string()
    }

    /// `settings`.
    #[wasm_bindgen(getter, skip_typescript)]
    pub fn settings(&self) -> Result<Object, JsValue> {
        let run = self.0.run.borrow();
        let (settings, object) = (run.settings(), Object::new());
        Reflect::set(&object, &"temperature".into(), &settings.temperature().into())?;
        Reflect::set(&object, &"topK".into(), &settings.top_k().into())?;
        Reflect::set(&object, &"topP".into(), &settings.top_p().into())?;
        if !run.processors().is_empty() {
            Reflect::set(&object, &"processors".into(), &to_plain(&run.processors().written())?)?;
        }
        Ok(object)
    }
}
