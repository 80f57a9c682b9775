//! `frequency_penalty`: subtracts the penalty once for each occurrence of the token in the history.

use super::breakers::ascending;
use super::error::Problem;
use super::history::Penalty;
use super::parameters::{Range, Visitor};
use super::rule::{Lookup, Position, Rule};

/// `frequency_penalty`.
pub(super) struct FrequencyPenalty;

impl Rule for FrequencyPenalty {
    type Parameters = Penalty;

    const NAME: &'static str = "frequency_penalty";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Penalty, visitor: &mut dyn Visitor) {
        it.parameters(Range::Finite, visitor);
    }

    fn lookup(it: &Penalty) -> Lookup {
        Lookup { exempt: ascending(it.exempt.iter().copied()), ..Lookup::default() }
    }

    fn tells_prompt_from_tokens(it: &Penalty) -> bool {
        !it.window.prompt
    }

    fn apply(it: &Penalty, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem> {
        it.apply(row, position, &lookup.exempt, |logit, count| logit - it.penalty * count)
    }
}
