//! Ranking numbers and keeping their indices: one radix sort for every ranking of the crate, in linear time.

/// A sort key, lowest first, and the index it came from.
pub type Rank = (u64, u32);

/// The key that sorts numbers in descending order; 0 comes before −0.
#[must_use]
pub fn falling(number: f64) -> u64 {
    let bits = number.to_bits();
    if number.is_sign_negative() { bits } else { !(bits | 1 << 63) }
}

/// The inverse of [`falling`].
#[must_use]
pub fn number(falling: u64) -> f64 {
    f64::from_bits(if falling >> 63 == 1 { falling } else { !falling ^ 1 << 63 })
}

/// Visits the entries by key, equal keys in the order given, and returns the first for which `is_last` is true. Sorts only as
/// far as needed, and leaves `ranked` in an unspecified state.
pub fn first(ranked: &mut Vec<Rank>, is_last: &mut dyn FnMut(Rank) -> bool) -> Option<Rank> {
    let count = ranked.len();
    ranked.extend_from_within(..);
    let (ranked, spare) = ranked.split_at_mut(count);
    first_of(ranked, spare, is_last)
}

/// The entry at index `skipped` of the sorted order, or `None` if there are too few. Leaves `ranked` in an unspecified state.
pub fn nth(skipped: usize, ranked: &mut Vec<Rank>) -> Option<Rank> {
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

/// The entries sorted by key, stably.
#[must_use]
pub fn ordered(mut ranked: Vec<Rank>) -> Vec<Rank> {
    let mut ordered = Vec::with_capacity(ranked.len());
    first(&mut ranked, &mut |rank| {
        ordered.push(rank);
        false
    });
    ordered
}

/// A radix sort from the highest bits in which the keys differ, 8 at a time. It sorts one bucket after the other and stops at
/// the entry it looks for. `spare` is at least as long as `ranked`.
fn first_of(ranked: &mut [Rank], spare: &mut [Rank], is_last: &mut dyn FnMut(Rank) -> bool) -> Option<Rank> {
    let Some(shift) = order_few(ranked) else {
        return ranked.iter().copied().find(|rank| is_last(*rank));
    };
    let mut ends = counts(ranked, shift);
    let mut end = 0;
    for count in &mut ends {
        (*count, end) = (end, end + *count);
    }
    // Each begins as the start of its bucket and is its end when all entries are placed.
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

/// Sorts the entries if they are few or all equal; otherwise returns the shift of the highest 8 bits in which they differ.
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
    use super::{Rank, falling, first, nth, number, ordered};
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
                assert_eq!(nth(skipped, &mut ranks.clone()), sorted.get(skipped).copied());
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
