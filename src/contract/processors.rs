//! Processors as JSON: `{"name": "min_p", "version": 1, "p": 0.05}`.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::json::{Fields, Object};
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

fn read(object: Object) -> Result<Processor, StateError> {
    object.read(|it| {
        // The name first: of an unknown processor the fields say nothing. Then the version, 1 for every rule there is.
        let name = it.string("name");
        let parameters: fn(&mut Fields) -> Processor = match name.as_str() {
            "repetition_penalty" => |it| Processor::RepetitionPenalty(penalty(it)),
            "frequency_penalty" => |it| Processor::FrequencyPenalty(penalty(it)),
            "presence_penalty" => |it| Processor::PresencePenalty(penalty(it)),
            "dry" => |it| {
                Processor::Dry(Dry {
                    multiplier: it.number("multiplier"),
                    base: it.number("base"),
                    allowed_length: it.count("allowed_length"),
                    window: window(it),
                    breakers: if it.has("breakers") { it.token_lists("breakers") } else { Vec::new() },
                })
            },
            "no_repeat_ngram" => |it| Processor::NoRepeatNgram { size: it.count("size"), window: window(it) },
            "bad_words" => |it| Processor::BadWords(it.token_lists("words")),
            "logit_bias" => |it| Processor::LogitBias(it.token_numbers("biases")),
            "allow" => |it| Processor::Allow(it.tokens("tokens")),
            "deny" => |it| Processor::Deny(it.tokens("tokens")),
            "forced_prefix" => |it| Processor::ForcedPrefix(it.tokens("tokens")),
            "min_length" => {
                |it| Processor::MinLength { length: it.count("length"), end_tokens: it.tokens("end_tokens") }
            }
            "temperature" => |it| Processor::Temperature(it.number("temperature")),
            "top_k" => |it| Processor::TopK(it.count("k")),
            "top_p" => |it| Processor::TopP(filter(it, "p")),
            "min_p" => |it| Processor::MinP(filter(it, "p")),
            "typical" => |it| Processor::Typical(filter(it, "p")),
            "epsilon" => |it| Processor::Epsilon(filter(it, "cutoff")),
            "eta" => |it| Processor::Eta(filter(it, "cutoff")),
            "top_n_sigma" => |it| Processor::TopNSigma(filter(it, "n")),
            "xtc" => |it| {
                Processor::Xtc(Xtc {
                    probability: it.number("probability"),
                    threshold: it.number("threshold"),
                    exempt: exempt(it),
                })
            },
            _ => return Err(StateError::ProcessorUnknown(name)),
        };
        match it.integer("version") {
            1 => Ok(parameters(it)),
            version => Err(StateError::ProcessorVersion(version)),
        }
    })
}

fn penalty(it: &mut Fields) -> Penalty {
    Penalty { penalty: it.number("penalty"), window: window(it), exempt: exempt(it) }
}

fn exempt(it: &mut Fields) -> Vec<u32> {
    if it.has("exempt") { it.tokens("exempt") } else { Vec::new() }
}

fn window(it: &mut Fields) -> Window {
    Window {
        last: it.has("window").then(|| it.count("window")),
        prompt: if it.has("prompt") { it.flag("prompt") } else { true },
    }
}

fn filter(it: &mut Fields, value: &str) -> Filter {
    Filter { value: it.number(value), min_keep: if it.has("min_keep") { it.count("min_keep") } else { 1 } }
}

impl Serialize for Processors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Serialize for Processor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // How many fields there will be is for formats that are not JSON.
        let mut fields = serializer.serialize_struct("Processor", 2)?;
        fields.serialize_field("name", self.name())?;
        fields.serialize_field("version", &self.version())?;
        match self {
            Self::RepetitionPenalty(it) | Self::FrequencyPenalty(it) | Self::PresencePenalty(it) => {
                fields.serialize_field("penalty", &it.penalty)?;
                write_window::<S>(&mut fields, it.window)?;
                write_list::<S>(&mut fields, "exempt", &it.exempt)?;
            }
            Self::Dry(it) => {
                fields.serialize_field("multiplier", &it.multiplier)?;
                fields.serialize_field("base", &it.base)?;
                fields.serialize_field("allowed_length", &it.allowed_length)?;
                write_window::<S>(&mut fields, it.window)?;
                if !it.breakers.is_empty() {
                    fields.serialize_field("breakers", &it.breakers)?;
                }
            }
            Self::NoRepeatNgram { size, window } => {
                fields.serialize_field("size", size)?;
                write_window::<S>(&mut fields, *window)?;
            }
            Self::BadWords(words) => fields.serialize_field("words", words)?,
            Self::LogitBias(biases) => fields.serialize_field("biases", biases)?,
            Self::Allow(tokens) | Self::Deny(tokens) | Self::ForcedPrefix(tokens) => {
                fields.serialize_field("tokens", tokens)?;
            }
            Self::MinLength { length, end_tokens } => {
                fields.serialize_field("length", length)?;
                fields.serialize_field("end_tokens", end_tokens)?;
            }
            Self::Temperature(temperature) => fields.serialize_field("temperature", temperature)?,
            Self::TopK(k) => fields.serialize_field("k", k)?,
            Self::TopP(it) | Self::MinP(it) | Self::Typical(it) => write_filter::<S>(&mut fields, "p", *it)?,
            Self::Epsilon(it) | Self::Eta(it) => write_filter::<S>(&mut fields, "cutoff", *it)?,
            Self::TopNSigma(it) => write_filter::<S>(&mut fields, "n", *it)?,
            Self::Xtc(it) => {
                fields.serialize_field("probability", &it.probability)?;
                fields.serialize_field("threshold", &it.threshold)?;
                write_list::<S>(&mut fields, "exempt", &it.exempt)?;
            }
        }
        fields.end()
    }
}

// What is as if it were not given is not written.

fn write_window<S: Serializer>(fields: &mut S::SerializeStruct, window: Window) -> Result<(), S::Error> {
    if let Some(last) = window.last {
        fields.serialize_field("window", &last)?;
    }
    if !window.prompt {
        fields.serialize_field("prompt", &false)?;
    }
    Ok(())
}

fn write_list<S: Serializer>(
    fields: &mut S::SerializeStruct,
    name: &'static str,
    list: &[u32],
) -> Result<(), S::Error> {
    if list.is_empty() { Ok(()) } else { fields.serialize_field(name, list) }
}

fn write_filter<S: Serializer>(
    fields: &mut S::SerializeStruct,
    name: &'static str,
    filter: Filter,
) -> Result<(), S::Error> {
    fields.serialize_field(name, &filter.value)?;
    if filter.min_keep > 1 { fields.serialize_field("min_keep", &filter.min_keep) } else { Ok(()) }
}
