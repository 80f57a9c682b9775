//! Processors as JSON: `{"name": "min_p", "version": 1, "p": 0.05}`.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::json::Object;
use super::state::StateError;
use crate::core::processors::{Dry, Filter, Penalty, Processor, Processors, Window, Xtc};

/// Reads a list of processors.
///
/// # Errors
/// `processor_unknown`, `processor_version_unknown`, a missing, unknown or mistyped field, and every refusal of
/// [`Processors::new`].
pub fn read_processors(list: Vec<Object>) -> Result<Processors, StateError> {
    let list = list.into_iter().map(read).collect::<Result<_, _>>()?;
    Processors::new(list).map_err(StateError::Processor)
}

fn read(mut object: Object) -> Result<Processor, StateError> {
    // The name first: of an unknown processor the fields say nothing.
    let name = object.string("name")?;
    let it = &mut object;
    let processor = match name.as_str() {
        "repetition_penalty" => versioned(it, |it| Ok(Processor::RepetitionPenalty(penalty(it)?))),
        "frequency_penalty" => versioned(it, |it| Ok(Processor::FrequencyPenalty(penalty(it)?))),
        "presence_penalty" => versioned(it, |it| Ok(Processor::PresencePenalty(penalty(it)?))),
        "dry" => versioned(it, |it| {
            Ok(Processor::Dry(Dry {
                multiplier: it.number("multiplier")?,
                base: it.number("base")?,
                allowed_length: count(it, "allowed_length")?,
                window: window(it)?,
                breakers: if it.has("breakers") { it.token_lists("breakers")? } else { Vec::new() },
            }))
        }),
        "no_repeat_ngram" => {
            versioned(it, |it| Ok(Processor::NoRepeatNgram { size: count(it, "size")?, window: window(it)? }))
        }
        "bad_words" => versioned(it, |it| Ok(Processor::BadWords(it.token_lists("words")?))),
        "logit_bias" => versioned(it, |it| Ok(Processor::LogitBias(it.token_numbers("biases")?))),
        "allow" => versioned(it, |it| Ok(Processor::Allow(it.tokens("tokens")?))),
        "deny" => versioned(it, |it| Ok(Processor::Deny(it.tokens("tokens")?))),
        "forced_prefix" => versioned(it, |it| Ok(Processor::ForcedPrefix(it.tokens("tokens")?))),
        "min_length" => versioned(it, |it| {
            Ok(Processor::MinLength { length: count(it, "length")?, end_tokens: it.tokens("end_tokens")? })
        }),
        "temperature" => versioned(it, |it| Ok(Processor::Temperature(it.number("temperature")?))),
        "top_k" => versioned(it, |it| Ok(Processor::TopK(count(it, "k")?))),
        "top_p" => versioned(it, |it| Ok(Processor::TopP(filter(it, "p")?))),
        "min_p" => versioned(it, |it| Ok(Processor::MinP(filter(it, "p")?))),
        "typical" => versioned(it, |it| Ok(Processor::Typical(filter(it, "p")?))),
        "epsilon" => versioned(it, |it| Ok(Processor::Epsilon(filter(it, "cutoff")?))),
        "eta" => versioned(it, |it| Ok(Processor::Eta(filter(it, "cutoff")?))),
        "top_n_sigma" => versioned(it, |it| Ok(Processor::TopNSigma(filter(it, "n")?))),
        "xtc" => versioned(it, |it| {
            Ok(Processor::Xtc(Xtc {
                probability: it.number("probability")?,
                threshold: it.number("threshold")?,
                exempt: exempt(it)?,
            }))
        }),
        _ => return Err(StateError::ProcessorUnknown(name)),
    }?;
    object.finish()?;
    Ok(processor)
}

/// Takes the version, which must be 1 for every rule there is, and then the parameters.
fn versioned(
    object: &mut Object,
    parameters: impl FnOnce(&mut Object) -> Result<Processor, StateError>,
) -> Result<Processor, StateError> {
    match object.integer("version")? {
        1 => parameters(object),
        version => Err(StateError::ProcessorVersion(version)),
    }
}

fn penalty(object: &mut Object) -> Result<Penalty, StateError> {
    Ok(Penalty { penalty: object.number("penalty")?, window: window(object)?, exempt: exempt(object)? })
}

fn exempt(object: &mut Object) -> Result<Vec<u32>, StateError> {
    Ok(if object.has("exempt") { object.tokens("exempt")? } else { Vec::new() })
}

fn window(object: &mut Object) -> Result<Window, StateError> {
    Ok(Window {
        last: if object.has("window") { Some(count(object, "window")?) } else { None },
        prompt: if object.has("prompt") { object.flag("prompt")? } else { true },
    })
}

fn filter(object: &mut Object, value: &str) -> Result<Filter, StateError> {
    Ok(Filter {
        value: object.number(value)?,
        min_keep: if object.has("min_keep") { count(object, "min_keep")? } else { 1 },
    })
}

/// An integer that fits in 32 bits.
fn count(object: &mut Object, name: &str) -> Result<u32, StateError> {
    Ok(object.count(name)?)
}

impl Serialize for Processors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Serialize for Processor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", self.name())?;
        map.serialize_entry("version", &self.version())?;
        match self {
            Self::RepetitionPenalty(it) | Self::FrequencyPenalty(it) | Self::PresencePenalty(it) => {
                map.serialize_entry("penalty", &it.penalty)?;
                write_window::<S>(&mut map, it.window)?;
                write_list::<S>(&mut map, "exempt", &it.exempt)?;
            }
            Self::Dry(it) => {
                map.serialize_entry("multiplier", &it.multiplier)?;
                map.serialize_entry("base", &it.base)?;
                map.serialize_entry("allowed_length", &it.allowed_length)?;
                write_window::<S>(&mut map, it.window)?;
                if !it.breakers.is_empty() {
                    map.serialize_entry("breakers", &it.breakers)?;
                }
            }
            Self::NoRepeatNgram { size, window } => {
                map.serialize_entry("size", size)?;
                write_window::<S>(&mut map, *window)?;
            }
            Self::BadWords(words) => map.serialize_entry("words", words)?,
            Self::LogitBias(biases) => map.serialize_entry("biases", biases)?,
            Self::Allow(tokens) | Self::Deny(tokens) | Self::ForcedPrefix(tokens) => {
                map.serialize_entry("tokens", tokens)?;
            }
            Self::MinLength { length, end_tokens } => {
                map.serialize_entry("length", length)?;
                map.serialize_entry("end_tokens", end_tokens)?;
            }
            Self::Temperature(temperature) => map.serialize_entry("temperature", temperature)?,
            Self::TopK(k) => map.serialize_entry("k", k)?,
            Self::TopP(it) | Self::MinP(it) | Self::Typical(it) => write_filter::<S>(&mut map, "p", *it)?,
            Self::Epsilon(it) | Self::Eta(it) => write_filter::<S>(&mut map, "cutoff", *it)?,
            Self::TopNSigma(it) => write_filter::<S>(&mut map, "n", *it)?,
            Self::Xtc(it) => {
                map.serialize_entry("probability", &it.probability)?;
                map.serialize_entry("threshold", &it.threshold)?;
                write_list::<S>(&mut map, "exempt", &it.exempt)?;
            }
        }
        map.end()
    }
}

// What is as if it were not given is not written.

fn write_window<S: Serializer>(map: &mut S::SerializeMap, window: Window) -> Result<(), S::Error> {
    if let Some(last) = window.last {
        map.serialize_entry("window", &last)?;
    }
    if !window.prompt {
        map.serialize_entry("prompt", &false)?;
    }
    Ok(())
}

fn write_list<S: Serializer>(map: &mut S::SerializeMap, name: &str, list: &[u32]) -> Result<(), S::Error> {
    if list.is_empty() { Ok(()) } else { map.serialize_entry(name, list) }
}

fn write_filter<S: Serializer>(map: &mut S::SerializeMap, name: &str, filter: Filter) -> Result<(), S::Error> {
    map.serialize_entry(name, &filter.value)?;
    if filter.min_keep > 1 { map.serialize_entry("min_keep", &filter.min_keep) } else { Ok(()) }
}
