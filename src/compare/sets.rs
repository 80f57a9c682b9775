//! What is a set, compared as one: in whatever order, and however often, its members are written.

use crate::core::processors::Processor;
use crate::core::processors::parameters::{List, Range, Visitor};
use crate::core::rank::ordered;

/// The ids of a set, each once, ascending.
pub fn ids(set: &[u32]) -> Vec<u32> {
    let mut ids: Vec<u32> =
        ordered(set.iter().map(|&id| (id.into(), id)).collect()).into_iter().map(|rank| rank.1).collect();
    ids.dedup();
    ids
}

/// Whether two processors are one rule: their lists of ids, of sequences and of biases are sets.
pub fn same_rule(one: &Processor, other: &Processor) -> bool {
    let (mut one, mut other) = (one.clone(), other.clone());
    for processor in [&mut one, &mut other] {
        processor.visit(&mut Ordered);
    }
    one == other
}

/// Puts every set among the parameters in order, each member once.
struct Ordered;

impl Visitor for Ordered {
    fn number(&mut self, _: &'static str, _: &mut f64, _: Range) {}

    fn count(&mut self, _: &'static str, _: &mut u32, _: u32, _: Option<u32>) {}

    fn limit(&mut self, _: &'static str, _: &mut Option<u32>) {}

    fn flag(&mut self, _: &'static str, _: &mut bool) {}

    fn tokens(&mut self, _: &'static str, value: &mut Vec<u32>, list: List) {
        if list != List::Sequence {
            *value = ids(value);
        }
    }

    fn sequences(&mut self, _: &'static str, value: &mut Vec<Vec<u32>>, _: bool) {
        let mut members: Vec<&[u32]> = value.iter().map(Vec::as_slice).collect();
        members.sort_unstable();
        members.dedup();
        *value = members.into_iter().map(<[u32]>::to_vec).collect();
    }

    fn biases(&mut self, _: &'static str, value: &mut Vec<(u32, f64)>) {
        // No id is there twice.
        let order = ordered((0..).zip(&*value).map(|(at, &(id, _))| (id.into(), at)).collect());
        *value = order.into_iter().map(|(_, at)| value[at as usize]).collect();
    }
}
