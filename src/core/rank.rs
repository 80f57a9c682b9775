//! Numbers with their places, in order: one algorithm for every ranking there is, in time linear in how many there are.

/// What is ranked: an integer, lowest first, and where it came from.
pub type Rank = (u64, u32);

/// An integer that falls as the number rises; of equal numbers 0 comes before −0.
#[must_use]
pub fn falling(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { bits } else { !(bits | 1 << 63) }
}

/// The number of an integer that falls.
#[must_use]
pub fn number(falling: u64) -> f64 {
    f64::from_bits(if falling >> 63 == 1 { falling } else { !falling ^ 1 << 63 })
}

/// The first of these, by their integers and then in the order given, at which `is_last` says so. Orders only as much as
/// that takes, and leaves anything behind.
pub fn first(ranked: &mut Vec<Rank>, is_last: &mut dyn FnMut(Rank) -> bool) -> Option<Rank> {
    let count = ranked.len();
    ranked.extend_from_within(..);
    let (ranked, spare) = ranked.split_at_mut(count);
    first_of(ranked, spare, is_last)
}

/// The element at index `skipped` of the sorted list; `None` if there are not so many. Leaves the list in no useful order.
pub fn after(skipped: usize, ranked: &mut Vec<Rank>) -> Option<Rank> {
    let mut skipped = skipped;
    while let Some(shift) = order_few(ranked) {
        let found = counts(ranked, shift).iter().position(|count| {
            let found = skipped < *count;
            skipped -= if found { 0 } else { *count };
            found
        })?;
        ranked.retain(|(bits, _)| digit(*bits, shift) == found);
    }
    ranked.get(skipped).copied()
}

/// All of these in their order.
#[must_use]
pub fn ordered(mut ranked: Vec<Rank>) -> Vec<Rank> {
    let mut ordered = Vec::with_capacity(ranked.len());
    first(&mut ranked, &mut |rank| {
        ordered.push(rank);
        false
    });
    ordered
}

/// A radix sort from the highest bits in which the integers differ, 8 at a time, that goes into one part after the other and
/// leaves the rest as it is. `spare` is at least as long as `ranked`.
fn first_of(ranked: &mut [Rank], spare: &mut [Rank], is_last: &mut dyn FnMut(Rank) -> bool) -> Option<Rank> {
    let Some(shift) = order_few(ranked) else {
        return ranked.iter().copied().find(|rank| is_last(*rank));
    };
    let mut ends = counts(ranked, shift);
    let mut end = 0;
    for count in &mut ends {
        (*count, end) = (end, end + *count);
    }
    // Each starts as the start of its part, and has become its end when all are in place.
    for one in &*ranked {
        let place = &mut ends[digit(one.0, shift)];
        spare[*place] = *one;
        *place += 1;
    }
    ranked.copy_from_slice(&spare[..ranked.len()]);
    let mut start = 0;
    for end in ends {
        if start < end
            && let Some(last) = first_of(&mut ranked[start..end], spare, is_last)
        {
            return Some(last);
        }
        start = end;
    }
    None
}

/// Orders these if they are few or all equal; else says where the highest 8 bits begin in which they differ.
fn order_few(ranked: &mut [Rank]) -> Option<u32> {
    const FEW: usize = 24;
    let (mut all, mut any) = (u64::MAX, 0);
    for (bits, _) in &*ranked {
        all &= bits;
        any |= bits;
    }
    if ranked.len() > FEW && all != any {
        return Some((u64::BITS - (all ^ any).leading_zeros()).saturating_sub(8));
    }
    for end in 1..ranked.len() {
        let mut at = end;
        while at > 0 && ranked[at - 1].0 > ranked[at].0 {
            ranked.swap(at - 1, at);
            at -= 1;
        }
    }
    None
}

fn digit(bits: u64, shift: u32) -> usize {
    (bits >> shift & 255) as usize
}

fn counts(ranked: &[Rank], shift: u32) -> [usize; 256] {
    let mut counts = [0; 256];
    for (bits, _) in ranked {
        counts[digit(*bits, shift)] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::{Rank, after, falling, first, number, ordered};
    use crate::core::splitmix::draw;

    #[test]
    fn integers_fall_and_come_back() {
        let numbers = [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, -0.0, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
        for pair in numbers.windows(2) {
            assert!(falling(pair[0]) > falling(pair[1]), "{pair:?}");
        }
        for one in numbers {
            assert_eq!(number(falling(one)).to_bits(), one.to_bits());
        }
    }

    #[test]
    fn as_a_sort_would_have_it() {
        for case in 0..2000 {
            let random = |at: u64| draw(case, at, 0);
            let length = random(1_000_000) % [10, 30, 300, 3000][case as usize % 4];
            // All bits, a few values, high bits alone, low bits alone, one value.
            let mask = [u64::MAX, 3 << 20 | 1, 0xff << 56, 0x1ff, 0][(case / 4) as usize % 5];
            let ranks: Vec<Rank> = (0..length).map(|at| random(at) & mask).zip(0..).collect();
            let mut sorted = ranks.clone();
            sorted.sort_unstable();
            assert_eq!(ordered(ranks.clone()), sorted);
            for skipped in [0, 1, length as usize / 2, length as usize] {
                assert_eq!(after(skipped, &mut ranks.clone()), sorted.get(skipped).copied());
                let mut seen = Vec::new();
                let last = first(&mut ranks.clone(), &mut |rank| {
                    seen.push(rank);
                    seen.len() > skipped
                });
                assert_eq!(last, sorted.get(skipped).copied());
                assert_eq!(seen, sorted[..sorted.len().min(skipped + 1)]);
            }
        }
    }
}
