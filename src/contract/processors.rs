//! Processors as JSON: `{"name": "min_p", "version": 1, "p": 0.05}`.

use super::json::{Fields, Object};
use super::state::StateError;
use super::written::{Entries, Value, serialize_written};
use crate::core::processors::{Dry, Filter, Penalty, Processor, Processors, Window, Xtc};

/// Reads a list of processors.
///
/// # Errors
/// `processor_unknown`, `processor_version_unknown`, a missing, unknown or mistyped field, and every refusal of
/// [`Processors::new`].
pub fn read_processors(list: Vec<Object>) -> Result<Processors, StateError> {
    let mut processors = Vec::with_capacity(list.len());
    for object in list {
        processors.push(read(object)?);
    }
    Processors::new(processors).map_err(StateError::Processor)
}

fn read(object: Object) -> Result<Processor, StateError> {
    object.read(|it| {
        // The name first: of an unknown processor the fields say nothing. Then the version, which says what they mean.
        let name = it.string("name");
        let versions: &[fn(&mut Fields) -> Processor] = match name.as_str() {
            "repetition_penalty" => &[|it| Processor::RepetitionPenalty(penalty(it))],
            "frequency_penalty" => &[|it| Processor::FrequencyPenalty(penalty(it))],
            "presence_penalty" => &[|it| Processor::PresencePenalty(penalty(it))],
            "dry" => &[|it| Processor::Dry(dry(it)), |it| Processor::DryV2(dry(it))],
            "no_repeat_ngram" => &[|it| Processor::NoRepeatNgram { size: it.count("size"), window: window(it) }],
            "bad_words" => &[|it| Processor::BadWords(it.token_lists("words"))],
            "logit_bias" => &[|it| Processor::LogitBias(it.token_numbers("biases"))],
            "allow" => &[|it| Processor::Allow(it.tokens("tokens"))],
            "deny" => &[|it| Processor::Deny(it.tokens("tokens"))],
            "forced_prefix" => &[|it| Processor::ForcedPrefix(it.tokens("tokens"))],
            "min_length" => &[|it| {
                let (length, end_tokens) = end(it);
                Processor::MinLength { length, end_tokens }
            }],
            "forced_end" => &[|it| {
                let (length, end_tokens) = end(it);
                Processor::ForcedEnd { length, end_tokens }
            }],
            "temperature" => &[|it| Processor::Temperature(it.number("temperature"))],
            "top_k" => &[|it| Processor::TopK(it.count("k"))],
            "top_p" => &[|it| Processor::TopP(filter(it, "p")), |it| Processor::TopPV2(filter(it, "p"))],
            "min_p" => &[|it| Processor::MinP(filter(it, "p"))],
            "typical" => &[|it| Processor::Typical(filter(it, "p")), |it| Processor::TypicalV2(filter(it, "p"))],
            "epsilon" => &[|it| Processor::Epsilon(filter(it, "cutoff"))],
            "eta" => &[|it| Processor::Eta(filter(it, "cutoff"))],
            "top_n_sigma" => &[|it| Processor::TopNSigma(filter(it, "n"))],
            "xtc" => &[|it| {
                Processor::Xtc(Xtc {
                    probability: it.number("probability"),
                    threshold: it.number("threshold"),
                    exempt: exempt(it),
                })
            }],
            _ => return Err(StateError::ProcessorUnknown(name)),
        };
        let version = it.integer("version");
        let read = version.checked_sub(1).and_then(|at| versions.get(usize::try_from(at).ok()?));
        read.map(|read| read(it)).ok_or(StateError::ProcessorVersion(version))
    })
}

fn end(it: &mut Fields) -> (u32, Vec<u32>) {
    (it.count("length"), it.tokens("end_tokens"))
}

fn dry(it: &mut Fields) -> Dry {
    Dry {
        multiplier: it.number("multiplier"),
        base: it.number("base"),
        allowed_length: it.count("allowed_length"),
        window: window(it),
        breakers: if it.has("breakers") { it.token_lists("breakers") } else { Vec::new() },
    }
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

impl Processors {
    pub(crate) fn written(&self) -> Value<'_> {
        Value::list(self.iter(), Processor::written)
    }
}

impl Processor {
    pub(crate) fn written(&self) -> Value<'_> {
        let mut it = Entries::default();
        it.text("name", self.name());
        it.integer("version", self.version().into());
        match self {
            Self::RepetitionPenalty(penalty) | Self::FrequencyPenalty(penalty) | Self::PresencePenalty(penalty) => {
                it.number("penalty", penalty.penalty);
                write_window(&mut it, penalty.window);
                write_exempt(&mut it, &penalty.exempt);
            }
            Self::Dry(dry) | Self::DryV2(dry) => {
                it.number("multiplier", dry.multiplier);
                it.number("base", dry.base);
                it.integer("allowed_length", dry.allowed_length.into());
                write_window(&mut it, dry.window);
                if !dry.breakers.is_empty() {
                    it.set("breakers", lists(&dry.breakers));
                }
            }
            Self::NoRepeatNgram { size, window } => {
                it.integer("size", (*size).into());
                write_window(&mut it, *window);
            }
            Self::BadWords(words) => it.set("words", lists(words)),
            Self::LogitBias(biases) => {
                let pair = |&(id, bias): &(u32, f64)| Value::List(vec![Value::Integer(id.into()), Value::Number(bias)]);
                it.set("biases", Value::list(biases, pair));
            }
            Self::Allow(tokens) | Self::Deny(tokens) | Self::ForcedPrefix(tokens) => it.tokens("tokens", tokens),
            Self::MinLength { length, end_tokens } | Self::ForcedEnd { length, end_tokens } => {
                it.integer("length", (*length).into());
                it.tokens("end_tokens", end_tokens);
            }
            Self::Temperature(temperature) => it.number("temperature", *temperature),
            Self::TopK(k) => it.integer("k", (*k).into()),
            Self::TopP(filter)
            | Self::TopPV2(filter)
            | Self::MinP(filter)
            | Self::Typical(filter)
            | Self::TypicalV2(filter) => write_filter(&mut it, "p", *filter),
            Self::Epsilon(filter) | Self::Eta(filter) => write_filter(&mut it, "cutoff", *filter),
            Self::TopNSigma(filter) => write_filter(&mut it, "n", *filter),
            Self::Xtc(xtc) => {
                it.number("probability", xtc.probability);
                it.number("threshold", xtc.threshold);
                write_exempt(&mut it, &xtc.exempt);
            }
        }
        Value::Object(it)
    }
}

serialize_written!(Processors, Processor);

fn lists(lists: &[Vec<u32>]) -> Value<'_> {
    Value::list(lists, |list| Value::Tokens(list))
}

// What is as if it were not given is not written.

fn write_window(it: &mut Entries, window: Window) {
    if let Some(last) = window.last {
        it.integer("window", last.into());
    }
    if !window.prompt {
        it.set("prompt", Value::Flag(false));
    }
}

fn write_exempt<'a>(it: &mut Entries<'a>, exempt: &'a [u32]) {
    if !exempt.is_empty() {
        it.tokens("exempt", exempt);
    }
}

fn write_filter(it: &mut Entries, name: &'static str, filter: Filter) {
    it.number(name, filter.value);
    if filter.min_keep > 1 {
        it.integer("min_keep", filter.min_keep.into());
    }
}
