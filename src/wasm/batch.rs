//! `sampleBatch` and `stepBatch`: many rows in one call of the wasm.

use std::convert::Infallible;

use js_sys::{Array, Function};
use wasm_bindgen::convert::TryFromJsValue;
use wasm_bindgen::prelude::*;

use super::error::{refuse, sampler_error, with_index, with_row};
use super::generator::Generator;
use super::handle::second_handle;
use super::input::{each, is_array, length, outside};
use super::read::{self, of_either_type};
use crate::core::sample::{self, BatchError};
use crate::core::settings::Settings;
use crate::run::batch::step_batch as step_runs;
use crate::run::run::Run;

/// `sampleBatch(logits, vocab, settings, u)`.
#[wasm_bindgen(js_name = sampleBatch, skip_typescript)]
pub fn sample_batch(logits: &JsValue, vocab: &JsValue, settings: &JsValue, u: &JsValue) -> Result<Array, JsValue> {
    let u = &outside(u)?;
    let row = read::logits(logits)?;
    let vocabulary = read::vocab(vocab)? as usize;
    let count = read::uniforms_length(u)?;
    if (count as usize).checked_mul(vocabulary) != Some(row.len()) {
        let [rows, vocabulary] = [u64::from(count), vocabulary as u64];
        let logits = row.len() as u64;
        return Err(refuse(BatchError::Logits { rows, vocabulary, logits }));
    }
    // The settings and the uniform number of each row are read separately, so that a bad one affects only its row.
    let settings: Vec<Result<Settings, JsValue>> = if is_array(settings) {
        let given = length(settings)?;
        if given != count {
            return Err(refuse(BatchError::Settings { rows: u64::from(count), settings: u64::from(given) }));
        }
        each(settings, |_, settings| Ok(read::settings(&settings)))?
    } else {
        // Read for each row, because an error names its row and cannot be shared.
        (0..count).map(|_| read::settings(settings)).collect()
    };
    let uniforms = each(u, |_, u| Ok(u))?;
    let inputs = settings.into_iter().zip(uniforms).map(|(settings, u)| {
        let settings = settings?;
        Ok((settings, read::uniform_for(&settings, &u)?))
    });
    let inputs: Vec<Result<(Settings, f64), JsValue>> = inputs.collect();
    // A row refused here is replaced by valid inputs; its result is not used.
    let valid =
        |input: &Result<(Settings, f64), JsValue>| input.as_ref().copied().unwrap_or((Settings::default(), 0.0));
    let (settings, uniforms): (Vec<_>, Vec<_>) = inputs.iter().map(valid).unzip();
    let batch = of_either_type!(row => sample::sample_batch(row, vocabulary, &settings, &uniforms)).map_err(refuse)?;
    let answers = batch.into_iter().zip(inputs).enumerate();
    Ok(answers.map(|(at, (answer, input))| place(input.and(answer.map_err(refuse)), at)).collect())
}

/// A token, or an error that names its row.
fn place(answer: Result<u32, JsValue>, row: usize) -> JsValue {
    answer.map_or_else(|error| with_row(error, row as u64), JsValue::from)
}

/// `stepBatch(generators, model)`; without a model each generator calls its own.
#[wasm_bindgen(js_name = stepBatch, skip_typescript)]
pub fn step_batch(generators: &JsValue, model: &JsValue) -> Result<Array, JsValue> {
    if !is_array(generators) {
        return Err(read::wrong("generators_type", "generators", "an array of Generator", generators));
    }
    let asked = model.dyn_ref::<Function>();
    if asked.is_none() && !model.is_undefined() {
        return Err(read::wrong("model_type", "model", "a function from contexts to rows of logits", model));
    }
    let generators = each(generators, |at, item| shared(&item, at))?;
    if let Some(at) = (0..generators.len()).find(|&at| generators[..at].iter().any(|other| other.is(&generators[at]))) {
        let message = format!("generators[{at}] is in the batch twice");
        return Err(with_index(sampler_error("generator_repeated", &message), at as u64));
    }
    if generators.is_empty() {
        return Ok(Array::new());
    }
    let Some(model) = asked else { return Ok(step_each(&generators)) };
    let rows = ask(&generators, model)?;

    let mut runs = generators.iter().map(|generator| generator.run()).collect::<Result<Vec<_>, _>>()?;
    let mut batch: Vec<&mut Run> = runs.iter_mut().map(|run| &mut **run).collect();
    let tokens = step_runs(&mut batch, |_| Ok::<_, Infallible>(rows));
    let tokens = tokens.map_err(refuse)?.into_iter().enumerate();
    Ok(tokens.map(|(at, token)| place(token.map_err(refuse), at)).collect())
}

/// Calls every generator's own model, then advances those whose model has answered. During a call no generator of the batch
/// can be stepped.
fn step_each(generators: &[Generator]) -> Array {
    let contexts: Vec<_> = generators.iter().map(Generator::context).collect();
    let waiting: Vec<_> = generators.iter().map(Generator::wait_for_model).collect();
    let rows: Vec<_> = (generators.iter().zip(&contexts).zip(&waiting))
        .map(|((generator, context), waiting)| match waiting {
            Ok(_) => generator.ask(context),
            Err(busy) => Err(busy.clone()),
        })
        .collect();
    drop(waiting);
    let answers = generators.iter().zip(rows).enumerate();
    answers.map(|(at, (generator, row))| place(row.and_then(|row| generator.emit(row)), at)).collect()
}

/// A second handle on a generator of the list.
fn shared(item: &JsValue, at: u32) -> Result<Generator, JsValue> {
    let handle = second_handle(item).map_err(|error| with_index(error, u64::from(at)))?;
    handle.and_then(|handle| Generator::try_from_js_value(handle).ok()).ok_or_else(|| {
        let error = read::wrong("generators_type", &format!("generators[{at}]"), "a Generator", item);
        with_index(error, u64::from(at))
    })
}

/// Calls the model for a row for each generator. During the call no generator of the batch can be stepped.
fn ask(generators: &[Generator], model: &Function) -> Result<Vec<Vec<f64>>, JsValue> {
    let contexts: Array = generators.iter().map(Generator::context).collect();
    let mut waiting = Vec::new();
    for (at, generator) in generators.iter().enumerate() {
        waiting.push(generator.wait_for_model().map_err(|error| with_index(error, at as u64))?);
    }
    // The result is read while they are marked, as in `Generator::step`.
    let rows = model.call1(&JsValue::UNDEFINED, &contexts).and_then(|rows| read::rows(&rows));
    drop(waiting);
    rows
}
