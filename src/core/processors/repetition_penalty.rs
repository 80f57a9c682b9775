//! `repetition_penalty`: for each token in the history, divides a positive logit by the penalty and multiplies any other by it.

use super::breakers::ascending;
use super::error::Problem;
use super::history::Penalty;
use super::parameters::{Range, Visitor};
use super::rule::{Lookup, Position, Rule};

/// `repetition_penalty`.
pub(super) struct RepetitionPenalty;

impl Rule for RepetitionPenalty {
    type Parameters = Penalty;

    const NAME: &'static str = "repetition_penalty";
    const VERSION: u32 = 1;

    fn parameters(it: &mut Penalty, visitor: &mut dyn Visitor) {
        it.parameters(Range::Above(0.0), visitor);
    }

    fn lookup(it: &Penalty) -> Lookup {
        Lookup { exempt: ascending(it.exempt.iter().copied()), ..Lookup::default() }
    }

    fn tells_prompt_from_tokens(it: &Penalty) -> bool {
        !it.window.prompt
    }

    fn apply(it: &Penalty, row: &mut [f64], position: &Position, lookup: &Lookup) -> Result<(), Problem> {
        it.apply(
            row,
            position,
            &lookup.exempt,
            |logit, _| if logit > 0.0 { logit / it.penalty } else { logit * it.penalty },
        )
    }
}
