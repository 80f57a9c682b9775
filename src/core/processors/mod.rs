//! Processors: what changes a row of logits before the contract's step 1, in the order of a list.
//!
//! Each rule is an equation in CONTRACT.md, section "Processors". A processor is a function of the row, the run's tokens
//! and, for XTC, one uniform number of a stream of its own, so a run that carries its list replays.

mod breakers;
mod error;
mod filters;
mod fixed;
mod history;

pub use error::{Problem, ProcessorError};

use std::sync::Arc;

use self::breakers::{Breakers, ascending};
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
    /// `dry`, version 1: penalizes its breakers too. Kept for the runs that have it.
    Dry(Dry),
    /// `dry`, version 2: leaves tokens alone that are a breaker by themselves.
    DryV2(Dry),
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
    /// `forced_end`: from the token with this number on, only tokens that end the run.
    ForcedEnd {
        /// The number, counted from 1: how long the run is with its end token.
        length: u32,
        /// The tokens that end it.
        end_tokens: Vec<u32>,
    },
    /// `temperature`, > 0.
    Temperature(f64),
    /// `top_k`, ≥ 1.
    TopK(u32),
    /// `top_p`, version 1, 0 to 1: `min_keep` counts by logit. Kept for the runs that have it.
    TopP(Filter),
    /// `top_p`, version 2: `min_keep` counts by probability, the order of the rule.
    TopPV2(Filter),
    /// `min_p`, 0 to 1.
    MinP(Filter),
    /// `typical`, version 1, 0 to 1: `min_keep` counts by logit, so the best logit always stays. Kept for the runs that have
    /// it.
    Typical(Filter),
    /// `typical`, version 2: `min_keep` counts by distance from the entropy, the order of the rule; 1 keeps all.
    TypicalV2(Filter),
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
            Self::Dry(_) | Self::DryV2(_) => "dry",
            Self::NoRepeatNgram { .. } => "no_repeat_ngram",
            Self::BadWords(_) => "bad_words",
            Self::LogitBias(_) => "logit_bias",
            Self::Allow(_) => "allow",
            Self::Deny(_) => "deny",
            Self::ForcedPrefix(_) => "forced_prefix",
            Self::MinLength { .. } => "min_length",
            Self::ForcedEnd { .. } => "forced_end",
            Self::Temperature(_) => "temperature",
            Self::TopK(_) => "top_k",
            Self::TopP(_) | Self::TopPV2(_) => "top_p",
            Self::MinP(_) => "min_p",
            Self::Typical(_) | Self::TypicalV2(_) => "typical",
            Self::Epsilon(_) => "epsilon",
            Self::Eta(_) => "eta",
            Self::TopNSigma(_) => "top_n_sigma",
            Self::Xtc(_) => "xtc",
        }
    }

    /// The version of the rule. A changed rule gets another.
    #[must_use]
    pub fn version(&self) -> u32 {
        match self {
            Self::DryV2(_) | Self::TopPV2(_) | Self::TypicalV2(_) => 2,
            _ => 1,
        }
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
            Self::Dry(it) | Self::DryV2(it) => {
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
            Self::ForcedEnd { length, end_tokens } => {
                at_least_1("length", *length)?;
                filled("end_tokens", end_tokens.is_empty())
            }
            Self::Temperature(value) => {
                let above_0 = Temperature::new(*value).is_ok_and(|value| value.get() > 0.0);
                within("temperature", *value, above_0)
            }
            Self::TopK(k) => at_least_1("k", *k),
            Self::TopP(it) | Self::TopPV2(it) | Self::MinP(it) | Self::Typical(it) | Self::TypicalV2(it) => {
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

    /// Every token id among the parameters, whether its turn has come or not.
    fn named_tokens(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Self::RepetitionPenalty(Penalty { exempt, .. })
            | Self::FrequencyPenalty(Penalty { exempt, .. })
            | Self::PresencePenalty(Penalty { exempt, .. })
            | Self::Xtc(Xtc { exempt, .. }) => Box::new(exempt.iter().copied()),
            Self::Dry(Dry { breakers: lists, .. })
            | Self::DryV2(Dry { breakers: lists, .. })
            | Self::BadWords(lists) => Box::new(lists.iter().flatten().copied()),
            Self::LogitBias(biases) => Box::new(biases.iter().map(|(id, _)| *id)),
            Self::Allow(tokens) | Self::Deny(tokens) | Self::ForcedPrefix(tokens) => Box::new(tokens.iter().copied()),
            Self::MinLength { end_tokens, .. } | Self::ForcedEnd { end_tokens, .. } => {
                Box::new(end_tokens.iter().copied())
            }
            Self::NoRepeatNgram { .. }
            | Self::Temperature(_)
            | Self::TopK(_)
            | Self::TopP(_)
            | Self::TopPV2(_)
            | Self::MinP(_)
            | Self::Typical(_)
            | Self::TypicalV2(_)
            | Self::Epsilon(_)
            | Self::Eta(_)
            | Self::TopNSigma(_) => Box::new([].into_iter()),
        }
    }

    /// What is looked up at every token, made ready once.
    fn lookup(&self) -> Lookup {
        match self {
            Self::RepetitionPenalty(Penalty { exempt, .. })
            | Self::FrequencyPenalty(Penalty { exempt, .. })
            | Self::PresencePenalty(Penalty { exempt, .. })
            | Self::Xtc(Xtc { exempt, .. }) => {
                Lookup { exempt: ascending(exempt.iter().copied()), ..Lookup::default() }
            }
            Self::Dry(it) | Self::DryV2(it) => Lookup { breakers: Breakers::new(&it.breakers), ..Lookup::default() },
            _ => Lookup::default(),
        }
    }

    /// Changes a row in which every logit is finite or −∞, and which has a logit for every token the parameters name.
    fn apply(&self, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem> {
        let Lookup { exempt, breakers } = lookup;
        let emitted = position.tokens.len();
        match self {
            Self::RepetitionPenalty(it) => return history::repetition(row, position, it, exempt),
            Self::FrequencyPenalty(it) => return history::frequency(row, position, it, exempt),
            Self::PresencePenalty(it) => return history::presence(row, position, it, exempt),
            Self::Dry(it) => return history::dry(row, position, it, breakers, false),
            Self::DryV2(it) => return history::dry(row, position, it, breakers, true),
            Self::NoRepeatNgram { size, window } => history::no_repeat_ngram(row, position, *size, *window),
            Self::BadWords(words) => history::bad_words(row, position, words),
            Self::LogitBias(biases) => return fixed::bias(row, biases),
            Self::Allow(tokens) => fixed::allow(row, tokens),
            Self::Deny(tokens) => fixed::deny(row, tokens),
            Self::ForcedPrefix(tokens) => {
                if let Some(token) = tokens.get(emitted) {
                    fixed::allow(row, &[*token]);
                }
            }
            Self::MinLength { length, end_tokens } => {
                if (emitted as u64) < u64::from(*length) {
                    fixed::deny(row, end_tokens);
                }
            }
            Self::ForcedEnd { length, end_tokens } => {
                if emitted as u64 + 1 >= u64::from(*length) {
                    fixed::allow(row, end_tokens);
                }
            }
            Self::Temperature(temperature) => return fixed::change(row, |_, logit| logit / temperature),
            Self::TopK(k) => filters::top_k(row, *k),
            Self::TopP(it) => filters::top_p(row, it),
            Self::TopPV2(it) => filters::top_p_2(row, it),
            Self::MinP(it) => filters::min_p(row, it),
            Self::Typical(it) => filters::typical(row, it),
            Self::TypicalV2(it) => filters::typical_2(row, it),
            Self::Epsilon(it) => filters::epsilon(row, it),
            Self::Eta(it) => filters::eta(row, it),
            Self::TopNSigma(it) => return filters::top_n_sigma(row, it),
            Self::Xtc(it) => {
                if it.probability > filters::xtc_uniform(position) {
                    filters::xtc(row, it, exempt);
                }
            }
        }
        Ok(())
    }
}

/// What a processor looks up at every token; empty where it has no such thing.
#[derive(Debug, Default)]
struct Lookup {
    /// Ascending.
    exempt: Vec<u32>,
    breakers: Breakers,
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
#[derive(Clone, Debug, Default)]
pub struct Processors {
    list: Vec<Processor>,
    /// One for each, made from it alone.
    lookups: Arc<[Lookup]>,
    /// The largest token id among all parameters.
    largest: Option<u32>,
}

impl PartialEq for Processors {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

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
        let lookups = list.iter().map(Processor::lookup).collect();
        let largest = list.iter().flat_map(Processor::named_tokens).max();
        Ok(Self { list, lookups, largest })
    }

    /// Whether the row stays as the model gave it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The processors in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Processor> {
        self.list.iter()
    }

    /// Checks that every token a parameter names is in a vocabulary of this size, before there is a row.
    ///
    /// # Errors
    /// `processor_token`, with the first such id of the first such processor.
    pub fn check_vocabulary(&self, vocabulary: u32) -> Result<(), ProcessorError> {
        // The ids themselves are looked at only where one is wrong, so that long lists cost nothing at each token.
        if self.largest.is_none_or(|largest| largest < vocabulary) {
            return Ok(());
        }
        for (at, processor) in (0..).zip(&self.list) {
            if let Some(id) = processor.named_tokens().find(|id| *id >= vocabulary) {
                let problem = Problem::Token { id, vocabulary: vocabulary.into() };
                return Err(ProcessorError { at, name: processor.name(), problem });
            }
        }
        Ok(())
    }

    /// Takes a row, in which every logit is finite or −∞ and one at least is finite, through all processors. After each,
    /// `seen` gets it and the row. In time linear in the row, the history and the parameters.
    ///
    /// # Errors
    /// `processor_token` before the first acts, whatever the step; `processor_overflow`, `processor_all_banned`. The row is
    /// then of no use.
    pub fn apply(
        &self,
        row: &mut [f64],
        position: &Position,
        mut seen: impl FnMut(&Processor, &[f64]),
    ) -> Result<(), ProcessorError> {
        self.check_vocabulary(u32::try_from(row.len()).unwrap_or(u32::MAX))?;
        for (at, (processor, lookup)) in (0..).zip(self.list.iter().zip(&*self.lookups)) {
            let applied = processor.apply(row, position, lookup);
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
