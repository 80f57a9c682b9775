//! Drafts from the story itself: what followed the last few tokens the last time they stood there.
//!
//! Prompt lookup (Saxena, "Prompt lookup decoding", 2023): the longest suffix of the context, of 4 tokens at the most and
//! 2 at the least, that also stands earlier; the draft is what came after its latest earlier place. It costs a scan of
//! the context and no model. A story repeats its names and phrases, so some of it is right, and under the
//! drafter-invariant rule what is wrong costs time, never a word.

/// The longest suffix that is looked up.
const LONGEST: usize = 4;
/// The shortest: one token alone is followed by something else too often.
const SHORTEST: usize = 2;

/// Up to `most` tokens that may come next. None of `forbidden` is drafted: a text is over after an end token, so nothing
/// can be drafted behind one.
pub fn drafts(context: &[u32], most: usize, forbidden: &[u32]) -> Vec<u32> {
    for length in (SHORTEST..=LONGEST).rev() {
        let Some(start) = context.len().checked_sub(length) else { continue };
        let suffix = &context[start..];
        // Latest first; the suffix itself, with nothing after it, is left out.
        let place = (0..start).rev().find(|at| context[*at..].starts_with(suffix));
        if let Some(place) = place {
            let after = &context[place + length..];
            return after.iter().copied().take(most).take_while(|token| !forbidden.contains(token)).collect();
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_followed_the_last_time_is_drafted() {
        assert_eq!(drafts(&[1, 2, 3, 4, 9, 1, 2], 3, &[]), [3, 4, 9]);
        assert_eq!(drafts(&[1, 2, 3, 1, 2, 4, 1, 2], 1, &[]), [4], "the latest place");
        assert_eq!(drafts(&[5, 1, 2, 3, 9, 1, 2, 4, 5, 1, 2], 1, &[]), [3], "the longest suffix");
        assert_eq!(drafts(&[7, 7, 7], 4, &[]), [7], "a place may overlap the suffix");
    }

    #[test]
    fn nothing_is_drafted_where_nothing_was_seen_or_behind_an_end() {
        assert!(drafts(&[], 4, &[]).is_empty());
        assert!(drafts(&[1], 4, &[]).is_empty());
        assert!(drafts(&[1, 2, 3, 4], 4, &[]).is_empty());
        assert!(drafts(&[1, 2, 0, 1, 2], 4, &[0]).is_empty());
        assert_eq!(drafts(&[1, 2, 3, 0, 1, 2], 4, &[0]), [3]);
        assert!(drafts(&[1, 2, 3, 1, 2], 0, &[]).is_empty());
    }
}
