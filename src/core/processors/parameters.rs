//! The parameters of processors: their types, bounds and visitors.

use super::error::Problem;
use crate::core::rank::ordered;

/// The range of a number parameter; all numbers are finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range {
    /// Any finite number.
    Finite,
    /// Greater than this.
    Above(f64),
    /// At least this.
    AtLeast(f64),
    /// From the first to the second.
    Within(f64, f64),
    /// Above the first and below the second.
    Between(f64, f64),
}

impl Range {
    fn contains(self, value: f64) -> bool {
        value.is_finite()
            && match self {
                Self::Finite => true,
                Self::Above(least) => value > least,
                Self::AtLeast(least) => value >= least,
                Self::Within(least, most) => value >= least && value <= most,
                Self::Between(low, high) => value > low && value < high,
            }
    }
}

/// The kind of a list of token ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// A set, which may be left out where it is empty.
    OptionalSet,
    /// A set of at least one.
    Set,
    /// A sequence of at least one, in this order.
    Sequence,
}

/// A visitor of the parameters of a processor, in their order. See [`Processor::visit`](super::Processor::visit).
pub trait Visitor {
    /// A number.
    fn number(&mut self, name: &'static str, value: &mut f64, range: Range);
    /// A number of tokens, at least `least`. May be omitted if there is a default.
    fn count(&mut self, name: &'static str, value: &mut u32, least: u32, default: Option<u32>);
    /// A number of tokens, 1 or more, or none.
    fn limit(&mut self, name: &'static str, value: &mut Option<u32>);
    /// A flag, true by default.
    fn flag(&mut self, name: &'static str, value: &mut bool);
    /// Token ids.
    fn tokens(&mut self, name: &'static str, value: &mut Vec<u32>, list: List);
    /// A set of sequences of token ids, each of at least one; of at least one sequence where it is `required`.
    fn sequences(&mut self, name: &'static str, value: &mut Vec<Vec<u32>>, required: bool);
    /// At least one pair of token id and number; ids are unique.
    fn biases(&mut self, name: &'static str, value: &mut Vec<(u32, f64)>);
}

/// Finds the first parameter that is out of its bounds.
#[derive(Default)]
pub(super) struct Check {
    pub problem: Option<Problem>,
}

impl Check {
    fn within(&mut self, parameter: &'static str, value: f64, range: Range) {
        if !range.contains(value) {
            self.fail(Problem::Parameter { parameter, value: value.into() });
        }
    }

    fn filled(&mut self, parameter: &'static str, empty: bool) {
        if empty {
            self.fail(Problem::Empty { parameter });
        }
    }

    fn fail(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }
}

impl Visitor for Check {
    fn number(&mut self, name: &'static str, value: &mut f64, range: Range) {
        self.within(name, *value, range);
    }

    fn count(&mut self, name: &'static str, value: &mut u32, least: u32, _: Option<u32>) {
        self.within(name, (*value).into(), Range::AtLeast(least.into()));
    }

    fn limit(&mut self, name: &'static str, value: &mut Option<u32>) {
        if let Some(limit) = value {
            self.within(name, (*limit).into(), Range::AtLeast(1.0));
        }
    }

    fn flag(&mut self, _: &'static str, _: &mut bool) {}

    fn tokens(&mut self, name: &'static str, value: &mut Vec<u32>, list: List) {
        self.filled(name, list != List::OptionalSet && value.is_empty());
    }

    fn sequences(&mut self, name: &'static str, value: &mut Vec<Vec<u32>>, required: bool) {
        self.filled(name, (required && value.is_empty()) || value.iter().any(Vec::is_empty));
    }

    fn biases(&mut self, name: &'static str, value: &mut Vec<(u32, f64)>) {
        self.filled(name, value.is_empty());
        for (_, bias) in &*value {
            self.within(name, *bias, Range::Finite);
        }
        let ids = ordered(value.iter().map(|&(id, _)| (id.into(), id)).collect());
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            self.fail(Problem::TokenRepeated(pair[0].1));
        }
    }
}

/// Collects every token id among the parameters.
#[derive(Default)]
pub(super) struct NamedTokens {
    pub ids: Vec<u32>,
}

impl Visitor for NamedTokens {
    fn number(&mut self, _: &'static str, _: &mut f64, _: Range) {}

    fn count(&mut self, _: &'static str, _: &mut u32, _: u32, _: Option<u32>) {}

    fn limit(&mut self, _: &'static str, _: &mut Option<u32>) {}

    fn flag(&mut self, _: &'static str, _: &mut bool) {}

    fn tokens(&mut self, _: &'static str, value: &mut Vec<u32>, _: List) {
        self.ids.extend(&*value);
    }

    fn sequences(&mut self, _: &'static str, value: &mut Vec<Vec<u32>>, _: bool) {
        self.ids.extend(value.iter().flatten());
    }

    fn biases(&mut self, _: &'static str, value: &mut Vec<(u32, f64)>) {
        self.ids.extend(value.iter().map(|(id, _)| *id));
    }
}
