//! What a processor is: a rule, and the parameters it acts by.

use super::breakers::Breakers;
use super::error::Problem;
use super::parameters::Visitor;

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

/// One version of a processor. Everything else about it follows from these: its form in JSON, the checks of its parameters,
/// the schema and the types of JavaScript.
pub(super) trait Rule {
    /// Its parameters. The default stands for those that are not given.
    type Parameters: Default;

    /// The name in a list of settings.
    const NAME: &'static str;

    /// The version of the rule. A changed rule is a new version.
    const VERSION: u32;

    /// Shows the parameters, each with its name and its bounds, in the order in which they are read, checked and written.
    fn parameters(it: &mut Self::Parameters, visitor: &mut dyn Visitor);

    /// What [`apply`](Self::apply) looks up at every token, made once.
    fn lookup(_: &Self::Parameters) -> Lookup {
        Lookup::default()
    }

    /// Whether the rule can tell where the prompt ends: whether the same ids before a step give another row where another part of
    /// them is prompt.
    fn tells_prompt_from_tokens(_: &Self::Parameters) -> bool {
        false
    }

    /// Changes a row in which every logit is finite or −∞, and which has a logit for every token the parameters name.
    ///
    /// # Errors
    /// [`Problem::Overflow`]. That a token is left is checked after every processor.
    fn apply(it: &Self::Parameters, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem>;
}

/// Parameters in a form that is quick to search; empty where a processor has no such thing.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Token ids, ascending.
    pub exempt: Vec<u32>,
    /// Sequences of tokens.
    pub breakers: Breakers,
}
