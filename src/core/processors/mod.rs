//! Processors change a row of logits before the contract's step 1, in the order of a list.
//!
//! Each rule is an equation in CONTRACT.md, section "Processors". A processor is a function of the row, the run's tokens
//! and, for XTC, one uniform number of a stream of its own, so a run that carries its list replays.
//!
//! A processor is a file here and a line in the list below.

mod allow;
mod bad_words;
mod breakers;
mod deny;
mod dry;
mod epsilon;
pub mod error;
mod eta;
mod filter;
mod forced_end;
mod forced_prefix;
mod frequency_penalty;
mod history;
mod length;
mod logit_bias;
mod min_length;
mod min_p;
mod no_repeat_ngram;
pub mod parameters;
mod presence_penalty;
mod repetition_penalty;
mod row;
mod rule;
mod softmax;
mod temperature;
mod top_k;
mod top_n_sigma;
mod top_p;
mod typical;
mod xtc;

pub use dry::Dry;
pub use error::{Problem, ProcessorError};
pub use filter::Filter;
pub use history::{Penalty, Window};
pub use length::Length;
pub use no_repeat_ngram::Ngram;
pub use rule::Position;
pub use xtc::Xtc;

use std::sync::Arc;

use self::parameters::{Check, NamedTokens, Visitor};
use self::rule::{Lookup, Rule};

macro_rules! processors {
    ($($(#[$doc:meta])* $name:ident($parameters:ty) by $rule:ty,)+) => {
        /// One processor with its parameters.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum Processor {
            $($(#[$doc])* $name($parameters),)+
        }

        impl Processor {
            /// Every version of every processor, with its default parameters, which may be out of bounds.
            pub fn every() -> impl Iterator<Item = Self> {
                [$(Self::$name(Default::default())),+].into_iter()
            }

            /// The name in a list of settings.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => <$rule>::NAME,)+
                }
            }

            /// The version of the rule. A changed rule gets another.
            #[must_use]
            pub fn version(&self) -> u32 {
                match self {
                    $(Self::$name(_) => <$rule>::VERSION,)+
                }
            }

            /// Visits every parameter in the order in which they are read, checked and written.
            pub fn visit(&mut self, visitor: &mut dyn Visitor) {
                match self {
                    $(Self::$name(it) => <$rule>::parameters(it, visitor),)+
                }
            }

            /// Whether the result depends on where the prompt ends among the ids before a step. (XTC's draws do for every run; they
            /// are not counted here.)
            pub(crate) fn tells_prompt_from_tokens(&self) -> bool {
                match self {
                    $(Self::$name(it) => <$rule>::tells_prompt_from_tokens(it),)+
                }
            }

            fn lookup(&self) -> Lookup {
                match self {
                    $(Self::$name(it) => <$rule>::lookup(it),)+
                }
            }

            fn apply(&self, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem> {
                match self {
                    $(Self::$name(it) => <$rule>::apply(it, row, position, lookup),)+
                }
            }
        }
    };
}

processors! {
    /// `repetition_penalty`
    RepetitionPenalty(Penalty) by repetition_penalty::RepetitionPenalty,
    /// `frequency_penalty`
    FrequencyPenalty(Penalty) by frequency_penalty::FrequencyPenalty,
    /// `presence_penalty`
    PresencePenalty(Penalty) by presence_penalty::PresencePenalty,
    /// `dry`, version 1: penalizes its breakers too. Kept so that stored runs replay.
    Dry(Dry) by dry::Version1,
    /// `dry`, version 2: does not penalize tokens that are a breaker by themselves.
    DryV2(Dry) by dry::Version2,
    /// `no_repeat_ngram`
    NoRepeatNgram(Ngram) by no_repeat_ngram::NoRepeatNgram,
    /// `bad_words`: sequences of tokens, each at least one long.
    BadWords(Vec<Vec<u32>>) by bad_words::BadWords,
    /// `logit_bias`: the number added to a token's logit.
    LogitBias(Vec<(u32, f64)>) by logit_bias::LogitBias,
    /// `allow`: the only tokens that are kept.
    Allow(Vec<u32>) by allow::Allow,
    /// `deny`: tokens that are banned.
    Deny(Vec<u32>) by deny::Deny,
    /// `forced_prefix`: the run's first tokens.
    ForcedPrefix(Vec<u32>) by forced_prefix::ForcedPrefix,
    /// `min_length`
    MinLength(Length) by min_length::MinLength,
    /// `forced_end`
    ForcedEnd(Length) by forced_end::ForcedEnd,
    /// `temperature`, > 0.
    Temperature(f64) by temperature::Temperature,
    /// `top_k`, ≥ 1.
    TopK(u32) by top_k::TopK,
    /// `top_p`, version 1, 0 to 1: `min_keep` counts by logit. Kept so that stored runs replay.
    TopP(Filter) by top_p::Version1,
    /// `top_p`, version 2: `min_keep` counts by probability, the order of the rule.
    TopPV2(Filter) by top_p::Version2,
    /// `min_p`, 0 to 1.
    MinP(Filter) by min_p::MinP,
    /// `typical`, version 1, 0 to 1: `min_keep` counts by logit, so the best logit always stays. Kept so that
    /// stored runs replay.
    Typical(Filter) by typical::Version1,
    /// `typical`, version 2: `min_keep` counts by distance from the entropy, the order of the rule; 1 keeps all.
    TypicalV2(Filter) by typical::Version2,
    /// `epsilon`, between 0 and 1.
    Epsilon(Filter) by epsilon::Epsilon,
    /// `eta`, between 0 and 1.
    Eta(Filter) by eta::Eta,
    /// `top_n_sigma`, > 0.
    TopNSigma(Filter) by top_n_sigma::TopNSigma,
    /// `xtc`
    Xtc(Xtc) by xtc::Version1,
}

impl Processor {
    /// Every token id among the parameters, also those without effect at this step.
    fn named_tokens(&mut self) -> Vec<u32> {
        let mut named = NamedTokens::default();
        self.visit(&mut named);
        named.ids
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
    pub fn new(mut list: Vec<Processor>) -> Result<Self, ProcessorError> {
        let mut largest = None;
        for at in 0..list.len() {
            let (before, rest) = list.split_at_mut(at);
            let processor = &mut rest[0];
            let mut check = Check::default();
            if before.iter().any(|before| before.name() == processor.name()) {
                check.problem = Some(Problem::Repeated);
            }
            processor.visit(&mut check);
            if let Some(problem) = check.problem {
                return Err(ProcessorError { at: at as u32, name: processor.name(), problem });
            }
            largest = largest.max(processor.named_tokens().into_iter().max());
        }
        let lookups = list.iter().map(Processor::lookup).collect();
        Ok(Self { list, lookups, largest })
    }

    /// Whether the list is empty.
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

    /// Checks that every token id in a parameter is below the size of the vocabulary. Needs no row.
    ///
    /// # Errors
    /// `processor_token`, with the first such id of the first such processor.
    pub fn check_vocabulary(&self, vocabulary: u32) -> Result<(), ProcessorError> {
        // The ids are searched only if one is wrong, so that long lists cost nothing at each token.
        if self.largest.is_none_or(|largest| largest < vocabulary) {
            return Ok(());
        }
        for (at, processor) in (0..).zip(&self.list) {
            if let Some(id) = processor.clone().named_tokens().into_iter().find(|id| *id >= vocabulary) {
                let problem = Problem::Token { id, vocabulary: vocabulary.into() };
                return Err(ProcessorError { at, name: processor.name(), problem });
            }
        }
        Ok(())
    }

    /// Applies all processors to a row in which every logit is finite or −∞ and at least one is finite. After each, calls `seen`
    /// with the processor and the row. Takes time linear in the row, the history and the parameters.
    ///
    /// # Errors
    /// `processor_token` before any processor acts, at any step; `processor_overflow`, `processor_all_banned`. The row is then
    /// in an unspecified state.
    pub fn apply(
        &self,
        row: &mut [f64],
        position: &Position,
        seen: &mut dyn FnMut(&Processor, &[f64]),
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
