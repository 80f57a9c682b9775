//! Constraints: which tokens may come next, as a function of the tokens emitted so far.
//!
//! A run samples from the model's row with −∞ for each token that is not allowed ([`constrain`]). Frames hold that row, so
//! replay and verification need no constraint.

use std::fmt;

use crate::core::error::LogitsError;
use crate::core::fast::check;
use crate::core::logits::Logit;
use crate::core::refusal::Refusal;

/// A set of token ids below V, as one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    vocabulary: u32,
    words: Vec<u64>,
}

impl Allowed {
    /// The empty set for a vocabulary of V tokens.
    #[must_use]
    pub fn none(vocabulary: u32) -> Self {
        Self { vocabulary, words: vec![0; vocabulary.div_ceil(64) as usize] }
    }

    /// V, the size of the vocabulary.
    #[must_use]
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// Allows a token. Returns `false` if the id is outside the vocabulary.
    pub fn allow(&mut self, id: u32) -> bool {
        let inside = id < self.vocabulary;
        if inside {
            self.words[(id / 64) as usize] |= 1 << (id % 64);
        }
        inside
    }

    /// Whether a token is allowed.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        id < self.vocabulary && self.words[(id / 64) as usize] >> (id % 64) & 1 == 1
    }

    /// The allowed ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + use<'_> {
        (0u32..).zip(&self.words).flat_map(|(at, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(at * 64 + bit)
            })
        })
    }
}

/// Why a constraint gives no row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConstraintError {
    /// `constraint_dead_end`: the model bans every token that is allowed at this step.
    DeadEnd {
        /// How many tokens have been emitted.
        step: u64,
    },
    /// `constraint_violated`: an emitted token was not allowed at its step.
    Violated {
        /// Its index among the emitted tokens.
        index: u64,
        /// The token.
        token: u32,
    },
    /// `constraint_vocabulary`: made for a vocabulary of another size, or with an id outside it.
    Vocabulary {
        /// V, as the constraint has it.
        vocabulary: u64,
        /// The other number, or the id.
        found: u64,
    },
    /// `constraint_empty`: it allows no text at all.
    Empty,
    /// `constraint_too_complex`: computing the allowed set exceeds the limits.
    TooComplex(String),
    /// `constraint_failed`: what computes the allowed set failed.
    Failed(String),
    /// The model's row is refused, as it would be without a constraint.
    Logits(LogitsError),
}

impl From<LogitsError> for ConstraintError {
    fn from(error: LogitsError) -> Self {
        Self::Logits(error)
    }
}

impl fmt::Display for ConstraintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DeadEnd { step } => write!(f, "at step {step} the constraint and the model together allow no token"),
            Self::Violated { index, token } => write!(f, "token {token} at index {index} breaks the constraint"),
            Self::Vocabulary { vocabulary, found } => {
                write!(f, "the constraint is for a vocabulary of {vocabulary}, which {found} does not fit")
            }
            Self::Empty => write!(f, "the constraint allows no text at all"),
            Self::TooComplex(what) => write!(f, "the constraint is too complex: {what}"),
            Self::Failed(what) => write!(f, "the constraint failed: {what}"),
            Self::Logits(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConstraintError {}

impl Refusal for ConstraintError {
    fn code(&self) -> &'static str {
        match self {
            Self::DeadEnd { .. } => "constraint_dead_end",
            Self::Violated { .. } => "constraint_violated",
            Self::Vocabulary { .. } => "constraint_vocabulary",
            Self::Empty => "constraint_empty",
            Self::TooComplex(_) => "constraint_too_complex",
            Self::Failed(_) => "constraint_failed",
            Self::Logits(error) => error.code(),
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::DeadEnd { step } => Some(*step),
            Self::Violated { index, .. } => Some(*index),
            Self::Logits(error) => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Violated { token, .. } => Some(f64::from(*token)),
            Self::Vocabulary { found, .. } => Some(*found as f64),
            _ => None,
        }
    }
}

/// Decides which tokens may come next.
///
/// The result is a function of the tokens alone. An implementation may cache data between calls, but the cache must not change
/// the result, so that a run can resume from its tokens and the name of its constraint.
pub trait Constraint {
    /// The tokens allowed after those emitted so far (without the prompt); empty at a dead end. After a complete text the
    /// end tokens are allowed, and after an end token only end tokens.
    ///
    /// # Errors
    /// `constraint_violated` with the first token that was not allowed in its place, `constraint_too_complex`,
    /// `constraint_failed`.
    fn allowed(&mut self, tokens: &[u32]) -> Result<Allowed, ConstraintError>;
}

/// The row the next token is sampled from: l_i where i is allowed after these tokens, −∞ where it is not.
///
/// # Errors
/// Every refusal of the model's row, banned places included; `constraint_vocabulary` where it is not as long as the
/// constraint's vocabulary; `constraint_dead_end` where no allowed token is finite; and the constraint's own.
pub fn constrain<L: Logit>(
    logits: &[L],
    constraint: &mut (impl Constraint + ?Sized),
    tokens: &[u32],
) -> Result<Vec<L>, ConstraintError> {
    check(logits)?;
    let allowed = constraint.allowed(tokens)?;
    if allowed.vocabulary() as usize != logits.len() {
        return Err(ConstraintError::Vocabulary {
            vocabulary: allowed.vocabulary().into(),
            found: logits.len() as u64,
        });
    }
    let mut row = vec![L::BANNED; logits.len()];
    let mut possible = false;
    for id in allowed.iter() {
        let logit = logits[id as usize];
        possible |= logit.widen() != f64::NEG_INFINITY;
        row[id as usize] = logit;
    }
    if possible { Ok(row) } else { Err(ConstraintError::DeadEnd { step: tokens.len() as u64 }) }
}

/// Texts for a [`FiniteLanguage`]: a JSON object with one boolean.
pub const OK: [&[u8]; 2] = [br#"{"ok":true}"#, br#"{"ok":false}"#];

/// Allows exactly a list of texts, in any tokenization.
///
/// A state is a node of the trie of the texts' bytes, and a table says where each token leads. Tokens after which no text can be
/// completed in this vocabulary are not allowed, so the constraint itself never runs into a dead end. If the vocabulary can
/// write none of the texts, the first step is a dead end.
///
/// ```
/// use quillmate_sampler::constraint::{Constraint, FiniteLanguage, OK};
///
/// let vocabulary = [&b""[..], b"{\"ok\":", b"true", b"false", b"}", b"maybe"];
/// let mut ok = FiniteLanguage::new(&OK, &vocabulary, &[0])?;
/// assert!(ok.allowed(&[])?.iter().eq([1]));
/// assert!(ok.allowed(&[1])?.iter().eq([2, 3]));
/// assert!(ok.allowed(&[1, 3, 4])?.iter().eq([0]));
/// # Ok::<(), quillmate_sampler::constraint::ConstraintError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FiniteLanguage {
    vocabulary: u32,
    ends: Vec<u32>,
    states: Vec<State>,
}

/// A node of the trie.
#[derive(Clone, Debug, Default)]
struct State {
    /// The next bytes and where they lead: always to a later state.
    bytes: Vec<(u8, usize)>,
    /// Whether a text ends here.
    whole: bool,
    /// The tokens after which a text can be completed, ids ascending.
    tokens: Vec<(u32, usize)>,
}

impl State {
    fn after(&self, byte: u8) -> Option<usize> {
        self.bytes.iter().find(|(next, _)| *next == byte).map(|&(_, state)| state)
    }
}

impl FiniteLanguage {
    /// * `texts`: what may be written; an empty text may end at once.
    /// * `vocabulary`: the bytes of each token; one without bytes is never allowed, unless it ends a text.
    /// * `ends`: the tokens that end a text, whatever their bytes.
    ///
    /// # Errors
    /// `constraint_empty` without texts or end tokens, `constraint_vocabulary` for more tokens than there are ids and for
    /// an end token outside the vocabulary.
    pub fn new<T: AsRef<[u8]>>(
        texts: &[impl AsRef<[u8]>],
        vocabulary: &[T],
        ends: &[u32],
    ) -> Result<Self, ConstraintError> {
        let found = vocabulary.len() as u64;
        let size =
            u32::try_from(found).map_err(|_| ConstraintError::Vocabulary { vocabulary: u64::from(u32::MAX), found })?;
        if texts.is_empty() || ends.is_empty() {
            return Err(ConstraintError::Empty);
        }
        if let Some(&end) = ends.iter().find(|&&end| end >= size) {
            return Err(ConstraintError::Vocabulary { vocabulary: size.into(), found: end.into() });
        }
        let mut ends = ends.to_vec();
        ends.sort_unstable();
        ends.dedup();
        let mut states = vec![State::default()];
        for text in texts {
            let mut at = 0;
            for &byte in text.as_ref() {
                at = match states[at].after(byte) {
                    Some(next) => next,
                    None => {
                        let next = states.len();
                        states[at].bytes.push((byte, next));
                        states.push(State::default());
                        next
                    }
                };
            }
            states[at].whole = true;
        }
        // From the last node to the first, so that the successors of a node are known before it.
        for from in (0..states.len()).rev() {
            let mut tokens = Vec::new();
            for (id, token) in (0..size).zip(vocabulary) {
                let bytes = token.as_ref();
                if bytes.is_empty() || ends.binary_search(&id).is_ok() {
                    continue;
                }
                let to = bytes.iter().try_fold(from, |at, &byte| states[at].after(byte));
                if let Some(to) = to.filter(|&to| states[to].whole || !states[to].tokens.is_empty()) {
                    tokens.push((id, to));
                }
            }
            states[from].tokens = tokens;
        }
        Ok(Self { vocabulary: size, ends, states })
    }

    fn is_end(&self, token: u32) -> bool {
        self.ends.binary_search(&token).is_ok()
    }
}

impl Constraint for FiniteLanguage {
    fn allowed(&mut self, tokens: &[u32]) -> Result<Allowed, ConstraintError> {
        let (mut at, mut over) = (0, false);
        for (index, &token) in tokens.iter().enumerate() {
            let violated = ConstraintError::Violated { index: index as u64, token };
            let state = &self.states[at];
            if self.is_end(token) && (over || state.whole) {
                over = true;
            } else {
                let known = state.tokens.binary_search_by_key(&token, |&(id, _)| id).ok().filter(|_| !over);
                at = state.tokens[known.ok_or(violated)?].1;
            }
        }
        let mut allowed = Allowed::none(self.vocabulary);
        if !over {
            for &(id, _) in &self.states[at].tokens {
                allowed.allow(id);
            }
        }
        if over || self.states[at].whole {
            for &id in &self.ends {
                allowed.allow(id);
            }
        }
        Ok(allowed)
    }
}
