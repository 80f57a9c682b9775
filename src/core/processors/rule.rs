//! The trait of a processor: a rule with its parameters.

use super::breakers::Breakers;
use super::error::Problem;
use super::parameters::Visitor;

/// The position of a run: everything a processor may use besides the row.
#[derive(Clone, Copy, Debug)]
pub struct Position<'a> {
    /// The token ids the run started from.
    pub prompt: &'a [u32],
    /// The tokens emitted so far; their number is the step.
    pub tokens: &'a [u32],
    /// The run's seed.
    pub seed: u64,
}

/// One version of a processor. Its JSON form, the checks of its parameters, the schema and the TypeScript types are derived
/// from this trait.
pub(super) trait Rule {
    /// Its parameters. `Default` gives those that are omitted.
    type Parameters: Default;

    /// The name in a list of settings.
    const NAME: &'static str;

    /// The version of the rule. A changed rule is a new version.
    const VERSION: u32;

    /// Visits the parameters, each with its name and bounds, in the order in which they are read, checked and written.
    fn parameters(it: &mut Self::Parameters, visitor: &mut dyn Visitor);

    /// Lookup data for [`apply`](Self::apply), built once.
    fn lookup(_: &Self::Parameters) -> Lookup {
        Lookup::default()
    }

    /// Whether the result depends on where the prompt ends among the ids before a step.
    fn tells_prompt_from_tokens(_: &Self::Parameters) -> bool {
        false
    }

    /// Changes a row in which every logit is finite or −∞, and which has a logit for every token the parameters name.
    ///
    /// # Errors
    /// [`Problem::Overflow`]. That a token is left is checked after every processor.
    fn apply(it: &Self::Parameters, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem>;
}

/// Parameters in a form that is fast to search; empty if a processor needs none.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Token ids, ascending.
    pub exempt: Vec<u32>,
    /// Sequences of tokens.
    pub breakers: Breakers,
}
