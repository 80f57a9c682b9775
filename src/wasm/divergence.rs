//! `firstDivergence(first, second, options)` of records or of traces, and `release()`.

use wasm_bindgen::prelude::*;

use super::error::{refuse, sampler_error};
use super::input::is_array;
use super::read;
use super::verify::to_plain;
use crate::compare::records::first_divergence as of_records;
use crate::compare::traces::{first_divergence_of_traces, read_traces, traces_of};
use crate::wire::identity::Identity;
use crate::wire::record::RecordFile;
use crate::wire::trace::Trace;
use crate::wire::written::{Entries, Value};

/// `firstDivergence(first, second, options)`.
#[wasm_bindgen(js_name = firstDivergence, skip_typescript)]
pub fn first_divergence(first: &JsValue, second: &JsValue, options: &JsValue) -> Result<JsValue, JsValue> {
    let values = read::flag("options", "values", options)?;
    let comparison = match (evidence("first", first)?, evidence("second", second)?) {
        (Evidence::Record(first), Evidence::Record(second)) => of_records(&first, &second, values),
        (Evidence::Traces(first), Evidence::Traces(second)) => first_divergence_of_traces(&first, &second, values),
        _ => {
            let message = "one is a record, the other traces; they cannot be held against each other";
            return Err(sampler_error("record_and_traces", message));
        }
    };
    to_plain(&comparison.written())
}

enum Evidence {
    Record(Box<RecordFile>),
    Traces(Vec<Trace>),
}

/// A record, a list of traces, or the object of a file of traces.
fn evidence(name: &str, value: &JsValue) -> Result<Evidence, JsValue> {
    if is_array(value) {
        return traces_of(read::objects(name, value)?).map(Evidence::Traces).map_err(refuse);
    }
    let object = read::object(name, value)?;
    if object.has("traces") {
        return read_traces(object).map(Evidence::Traces).map_err(refuse);
    }
    RecordFile::from_object(object).map(|record| Evidence::Record(Box::new(record))).map_err(refuse)
}

/// `release()`.
#[wasm_bindgen(skip_typescript)]
pub fn release() -> Result<JsValue, JsValue> {
    let identity = Identity::of_this_release();
    let mut it = Entries::default();
    it.text_or_null("crate_version", identity.crate_version.as_deref());
    it.text_or_null("target", identity.target.as_deref());
    it.set("environment", identity.environment.written());
    to_plain(&Value::Object(it))
}
