//! Processors: what changes a row of logits before the contract's step 1, in the order of a list.
//!
//! Each rule is an equation in CONTRACT.md, section "Processors". A processor is a function of the row, the run's tokens
//! and, for XTC, one uniform number of a stream of its own, so a run that carries its list replays.

mod error;
mod filters;
mod fixed;
mod history;

pub use error::{Problem, ProcessorError};

use super::error::Offender;
use super::rank::ordered;
use super::settings::Temperature;

/// Which tokens of a run count as its history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many of the last tokens, at least 1; `None` is all.
    pub last: Option<u32>,
    /// Whether the prompt is part of the history, before the emitted tokens.
    pub prompt: bool,
}

impl Default for Window {
    /// The whole history, prompt included.
    fn default() -> Self {
        Self { last: None, prompt: true }
    }
}

/// How much a token that stands in the history is held back.
#[derive(Clone, Debug, PartialEq)]
pub struct Penalty {
    /// A divisor > 0 for the repetition penalty, else a finite number of logits.
    pub penalty: f64,
    /// The history that counts.
    pub window: Window,
    /// Token ids that are left alone.
    pub exempt: Vec<u32>,
}

/// Keeps the likely tokens by a threshold or a mass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Filter {
    /// The threshold or the mass; its range depends on the filter.
    pub value: f64,
    /// How many tokens stay at least, from 1.
    pub min_keep: u32,
}

/// DRY ("don't repeat yourself"): the longer the repetition a token would go on with, the more it is held back.
#[derive(Clone, Debug, PartialEq)]
pub struct Dry {
    /// Logits at the allowed length, ≥ 0.
    pub multiplier: f64,
    /// Growth for each token beyond it, ≥ 1.
    pub base: f64,
    /// Shorter repetitions cost nothing; ≥ 1.
    pub allowed_length: u32,
    /// The history that counts.
    pub window: Window,
    /// Token sequences no repetition reaches across.
    pub breakers: Vec<Vec<u32>>,
}

/// XTC ("exclude top choices"): now and then the likeliest tokens are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Xtc {
    /// How often, 0 to 1.
    pub probability: f64,
    /// What counts as a top choice, 0 to 1.
    pub threshold: f64,
    /// Token ids that are never left out.
    pub exempt: Vec<u32>,
}

/// One processor with its parameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Processor {
    /// `repetition_penalty`
    RepetitionPenalty(Penalty),
    /// `frequency_penalty`
    FrequencyPenalty(Penalty),
    /// `presence_penalty`
    PresencePenalty(Penalty),
    /// `dry`
    Dry(Dry),
    /// `no_repeat_ngram`
    NoRepeatNgram {
        /// Tokens of an n-gram, ≥ 1.
        size: u32,
        /// The history that counts.
        window: Window,
    },
    /// `bad_words`: sequences of tokens, each at least one long.
    BadWords(Vec<Vec<u32>>),
    /// `logit_bias`: what is added to a token's logit.
    LogitBias(Vec<(u32, f64)>),
    /// `allow`: the only tokens that stay.
    Allow(Vec<u32>),
    /// `deny`: tokens that do not stay.
    Deny(Vec<u32>),
    /// `forced_prefix`: the run's first tokens.
    ForcedPrefix(Vec<u32>),
    /// `min_length`
    MinLength {
        /// Tokens a run emits before it may end.
        length: u32,
        /// The tokens that end it.
        end_tokens: Vec<u32>,
    },
    /// `temperature`, > 0.
    Temperature(f64),
    /// `top_k`, ≥ 1.
    TopK(u32),
    /// `top_p`, 0 to 1.
    TopP(Filter),
    /// `min_p`, 0 to 1.
    MinP(Filter),
    /// `typical`, 0 to 1.
    Typical(Filter),
    /// `epsilon`, between 0 and 1.
    Epsilon(Filter),
    /// `eta`, between 0 and 1.
    Eta(Filter),
    /// `top_n_sigma`, > 0.
    TopNSigma(Filter),
    /// `xtc`
    Xtc(Xtc),
}

/// Where a run stands: all that a processor may look at besides the row.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    /// The token ids the run started from.
    pub prompt: &'a [u32],
    /// The tokens emitted so far; their number is the step.
    pub tokens: &'a [u32],
    /// The run's seed.
    pub seed: u64,
}

impl Processor {
    /// The name in a list of settings.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::RepetitionPenalty(_) => "repetition_penalty",
            Self::FrequencyPenalty(_) => "frequency_penalty",
            Self::PresencePenalty(_) => "presence_penalty",
            Self::Dry(_) => "dry",
            Self::NoRepeatNgram { .. } => "no_repeat_ngram",
            Self::BadWords(_) => "bad_words",
            Self::LogitBias(_) => "logit_bias",
            Self::Allow(_) => "allow",
            Self::Deny(_) => "deny",
            Self::ForcedPrefix(_) => "forced_prefix",
            Self::MinLength { .. } => "min_length",
            Self::Temperature(_) => "temperature",
            Self::TopK(_) => "top_k",
            Self::TopP(_) => "top_p",
            Self::MinP(_) => "min_p",
            Self::Typical(_) => "typical",
            Self::Epsilon(_) => "epsilon",
            Self::Eta(_) => "eta",
            Self::TopNSigma(_) => "top_n_sigma",
            Self::Xtc(_) => "xtc",
        }
    }

    /// The version of the rule. A changed rule gets another.
    #[must_use]
    pub fn version(&self) -> u32 {
        1
    }

    /// Checks the parameters.
    fn check(&self) -> Result<(), Problem> {
        let within = |parameter, value: f64, inside: bool| {
            let value = Offender::from(value);
            if value.get().is_finite() && inside { Ok(()) } else { Err(Problem::Parameter { parameter, value }) }
        };
        let at_least_1 = |parameter, number: u32| within(parameter, number.into(), number >= 1);
        let window = |window: &Window| window.last.map_or(Ok(()), |last| at_least_1("window", last));
        let filled = |parameter, empty: bool| if empty { Err(Problem::Empty { parameter }) } else { Ok(()) };
        let share = |parameter, value: f64| within(parameter, value, (0.0..=1.0).contains(&value));
        let filter = |filter: &Filter| at_least_1("min_keep", filter.min_keep);
        match self {
            Self::RepetitionPenalty(it) => {
                within("penalty", it.penalty, it.penalty > 0.0)?;
                window(&it.window)
            }
            Self::FrequencyPenalty(it) | Self::PresencePenalty(it) => {
                within("penalty", it.penalty, true)?;
                window(&it.window)
            }
            Self::Dry(it) => {
                within("multiplier", it.multiplier, it.multiplier >= 0.0)?;
                within("base", it.base, it.base >= 1.0)?;
                at_least_1("allowed_length", it.allowed_length)?;
                window(&it.window)?;
                filled("breakers", it.breakers.iter().any(Vec::is_empty))
            }
            Self::NoRepeatNgram { size, window: it } => {
                at_least_1("size", *size)?;
                window(it)
            }
            Self::BadWords(words) => filled("words", words.is_empty() || words.iter().any(Vec::is_empty)),
            Self::LogitBias(biases) => {
                filled("biases", biases.is_empty())?;
                for (_, bias) in biases {
                    within("biases", *bias, true)?;
                }
                let ids = ordered(biases.iter().map(|&(id, _)| (id.into(), id)).collect());
                match ids.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => Err(Problem::TokenRepeated(pair[0].1)),
                    None => Ok(()),
                }
            }
            Self::Allow(tokens) | Self::Deny(tokens) | Self::ForcedPrefix(tokens) => {
                filled("tokens", tokens.is_empty())
            }
            Self::MinLength { end_tokens, .. } => filled("end_tokens", end_tokens.is_empty()),
            Self::Temperature(value) => {
                let above_0 = Temperature::new(*value).is_ok_and(|value| value.get() > 0.0);
                within("temperature", *value, above_0)
            }
            Self::TopK(k) => at_least_1("k", *k),
            Self::TopP(it) | Self::MinP(it) | Self::Typical(it) => {
                share("p", it.value)?;
                filter(it)
            }
            Self::Epsilon(it) | Self::Eta(it) => {
                within("cutoff", it.value, it.value > 0.0 && it.value < 1.0)?;
                filter(it)
            }
            Self::TopNSigma(it) => {
                within("n", it.value, it.value > 0.0)?;
                filter(it)
            }
            Self::Xtc(it) => {
                share("probability", it.probability)?;
                share("threshold", it.threshold)
            }
        }
    }

    /// The tokens whose logits the parameters name.
    fn named_tokens(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Self::BadWords(words) => Box::new(words.iter().filter_map(|word| word.last().copied())),
            Self::LogitBias(biases) => Box::new(biases.iter().map(|(id, _)| *id)),
            Self::Allow(tokens) | Self::Deny(tokens) | Self::ForcedPrefix(tokens) => Box::new(tokens.iter().copied()),
            Self::MinLength { end_tokens, .. } => Box::new(end_tokens.iter().copied()),
            _ => Box::new([].into_iter()),
        }
    }

    /// Changes a row in which every logit is finite or −∞.
    fn apply(&self, row: &mut [f64], position: &Position) -> Result<(), Problem> {
        match self {
            Self::RepetitionPenalty(it) => history::repetition(row, position, it),
            Self::FrequencyPenalty(it) => history::frequency(row, position, it),
            Self::PresencePenalty(it) => history::presence(row, position, it),
            Self::Dry(it) => history::dry(row, position, it),
            Self::NoRepeatNgram { size, window } => {
                history::no_repeat_ngram(row, position, *size, *window);
                Ok(())
            }
            Self::BadWords(words) => history::bad_words(row, position, words),
            Self::LogitBias(biases) => fixed::bias(row, biases),
            Self::Allow(tokens) => fixed::allow(row, tokens),
            Self::Deny(tokens) => fixed::deny(row, tokens),
            Self::ForcedPrefix(tokens) => match tokens.get(position.tokens.len()) {
                Some(token) => fixed::allow(row, &[*token]),
                None => Ok(()),
            },
            Self::MinLength { length, end_tokens } => {
                if (position.tokens.len() as u64) < u64::from(*length) {
                    fixed::deny(row, end_tokens)
                } else {
                    Ok(())
                }
            }
            Self::Temperature(temperature) => fixed::change(row, |_, logit| logit / temperature),
            Self::TopK(k) => {
                filters::top_k(row, *k);
                Ok(())
            }
            Self::TopP(it) => {
                filters::top_p(row, it);
                Ok(())
            }
            Self::MinP(it) => {
                filters::min_p(row, it);
                Ok(())
            }
            Self::Typical(it) => {
                filters::typical(row, it);
                Ok(())
            }
            Self::Epsilon(it) => {
                filters::epsilon(row, it);
                Ok(())
            }
            Self::Eta(it) => {
                filters::eta(row, it);
                Ok(())
            }
            Self::TopNSigma(it) => filters::top_n_sigma(row, it),
            Self::Xtc(it) => {
                if it.probability > filters::xtc_uniform(position) {
                    filters::xtc(row, it);
                }
                Ok(())
            }
        }
    }
}

/// A checked list of processors, in the order they act.
///
/// ```
/// use quillmate_sampler::{Penalty, Processor, Processors, Window};
/// let penalty = Penalty { penalty: 1.1, window: Window { last: Some(64), prompt: true }, exempt: vec![] };
/// let processors = Processors::new(vec![Processor::RepetitionPenalty(penalty)])?;
/// assert_eq!(processors.iter().next().map(Processor::name), Some("repetition_penalty"));
/// # Ok::<(), quillmate_sampler::ProcessorError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Processors(Vec<Processor>);

impl Processors {
    /// Checks a list.
    ///
    /// # Errors
    /// `processor_parameter`, `processor_empty`, `processor_token_repeated` and `processor_repeated`, each with the
    /// place in the list.
    pub fn new(list: Vec<Processor>) -> Result<Self, ProcessorError> {
        for (at, processor) in (0..).zip(&list) {
            let repeated = list[..at as usize].iter().any(|before| before.name() == processor.name());
            let checked = if repeated { Err(Problem::Repeated) } else { processor.check() };
            checked.map_err(|problem| ProcessorError { at, name: processor.name(), problem })?;
        }
        Ok(Self(list))
    }

    /// Whether the row stays as the model gave it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The processors in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Processor> {
        self.0.iter()
    }

    /// Checks that every token a parameter names is in a vocabulary of this size, before there is a row.
    ///
    /// # Errors
    /// `processor_token`.
    pub fn check_vocabulary(&self, vocabulary: u32) -> Result<(), ProcessorError> {
        for (at, processor) in (0..).zip(&self.0) {
            if let Some(id) = processor.named_tokens().find(|id| *id >= vocabulary) {
                let problem = Problem::Token { id, vocabulary: vocabulary.into() };
                return Err(ProcessorError { at, name: processor.name(), problem });
            }
        }
        Ok(())
    }

    /// Takes a row, in which every logit is finite or −∞ and one at least is finite, through all processors. After each,
    /// `seen` gets it and the row.
    ///
    /// # Errors
    /// `processor_token`, `processor_overflow`, `processor_all_banned`. The row is then of no use.
    pub fn apply(
        &self,
        row: &mut [f64],
        position: &Position,
        mut seen: impl FnMut(&Processor, &[f64]),
    ) -> Result<(), ProcessorError> {
        for (at, processor) in (0..).zip(&self.0) {
            let applied = processor.apply(row, position);
            let any = row.iter().any(|&logit| logit != f64::NEG_INFINITY);
            applied.and(if any { Ok(()) } else { Err(Problem::AllBanned) }).map_err(|problem| ProcessorError {
                at,
                name: processor.name(),
                problem,
            })?;
            seen(processor, row);
        }
        Ok(())
    }
}
