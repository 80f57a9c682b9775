//! A row of logits of which only the best are known, such as a model server's list of top log-probabilities.

use std::fmt;

use super::candidates::Candidates;
use super::distribution::Distribution;
use super::error::{LogitsError, SampleError};
use super::logits::Logit;
use super::rank::ordered;
use super::refusal::Refusal;
use super::settings::Settings;

/// The known part of a row of V logits: token ids and their logits. Every other token is **unknown**, not banned.
///
/// The caller must ensure that no unknown token has a logit above the lowest finite one in the list. This cannot be checked; a
/// list of other logits gives other tokens. A logit of −∞ says that this token is banned, and nothing about unknown ones.
/// Log-probabilities can be used as logits: they differ by one number for the whole row, up to rounding.
///
/// Settings are accepted only if no unknown logit could change the token: see [`max_top_k`](Self::max_top_k).
///
/// ```
/// use quillmate_sampler::{Settings, SparseRow};
/// let row = SparseRow::new(&[7, 3, 9], &[2.0, 0.5, 1.0], 50_000)?;
/// // The third place is not certain: an unknown token below 3 may have the logit 0.5 too, and would come first.
/// assert_eq!(row.max_top_k(), Some(2));
/// assert_eq!(row.sample(&Settings::new(1.0, 2, 0.9)?, 0.1)?, 7);
/// assert!(row.sample(&Settings::new(1.0, 3, 0.9)?, 0.1).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct SparseRow<L> {
    known: Candidates<L>,
    vocabulary: u32,
    /// How many of the best logits have the same rank in every row this may be a part of.
    certain: u32,
}

impl<L: Logit> SparseRow<L> {
    /// Checks a row.
    ///
    /// * `ids`: 1 to V different token ids below V, in any order.
    /// * `logits`: the logit of each, finite or −∞.
    /// * `vocabulary`: V, how many tokens the model knows.
    ///
    /// # Errors
    /// `sparse_lengths_differ`, `logits_empty`, `sparse_id_out_of_range`, `logits_nan` or `logits_positive_infinity`,
    /// `sparse_id_repeated`, each with the index in these lists; `logits_all_banned` where all V logits are −∞.
    pub fn new(ids: &[u32], logits: &[L], vocabulary: u32) -> Result<Self, SparseRowError> {
        if ids.len() != logits.len() {
            return Err(SparseRowError::Lengths { ids: ids.len() as u64, logits: logits.len() as u64 });
        }
        if ids.is_empty() {
            return Err(LogitsError::Empty.into());
        }
        let mut known = Vec::with_capacity(ids.len());
        for (at, (&id, &logit)) in ids.iter().zip(logits).enumerate() {
            // If the index does not fit in a u32, some id is repeated.
            let index = at as u32;
            if id >= vocabulary {
                return Err(SparseRowError::Id { index, id, vocabulary });
            }
            if logit.widen().is_nan() {
                return Err(LogitsError::NotANumber(index).into());
            }
            if logit.widen() == f64::INFINITY {
                return Err(LogitsError::PositiveInfinity(index).into());
            }
            known.push((u64::from(id), index));
        }
        let known = ordered(known);
        let repeated = known.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1).min();
        if let Some(index) = repeated {
            return Err(SparseRowError::Repeated { index, id: ids[index as usize] });
        }
        let (ids, logits): (Vec<u32>, Vec<L>) =
            known.iter().map(|&(_, index)| (ids[index as usize], logits[index as usize])).unzip();
        if ids.len() == vocabulary as usize && logits.iter().all(|logit| logit.widen() == f64::NEG_INFINITY) {
            return Err(LogitsError::AllBanned(vocabulary).into());
        }
        let certain = certain(&ids, &logits);
        Ok(Self { known: Candidates::new(ids, logits), vocabulary, certain })
    }

    /// The known ids, ascending.
    #[must_use]
    pub fn ids(&self) -> &[u32] {
        self.known.ids()
    }

    /// Their logits, in the order of [`ids`](Self::ids).
    #[must_use]
    pub fn logits(&self) -> &[L] {
        self.known.logits()
    }

    /// How many tokens the model knows, V.
    #[must_use]
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// All V logits by id, if all are known.
    #[must_use]
    pub fn whole(&self) -> Option<&[L]> {
        (self.ids().len() == self.vocabulary as usize).then_some(self.logits())
    }

    /// The largest top-k this row suffices for; `None` when every logit is known and it suffices for all settings. Greedy
    /// settings need 1.
    ///
    /// It is the number of known logits, less those whose rank an unknown token could take: those that equal the lowest known
    /// logit and have an id above some unknown one. Of n different logits that is usually the last one: for a top-k of k, ask
    /// for k + 1.
    #[must_use]
    pub fn max_top_k(&self) -> Option<u32> {
        self.whole().is_none().then_some(self.certain)
    }

    /// Whether no unknown logit could change the token under these settings.
    #[must_use]
    pub fn suffices_for(&self, settings: &Settings) -> bool {
        self.whole().is_some() || (1..=self.certain).contains(&settings.needed())
    }

    /// Refuses settings this row does not suffice for.
    pub(crate) fn check(&self, settings: &Settings) -> Result<(), SampleError> {
        if self.suffices_for(settings) {
            return Ok(());
        }
        Err(SampleError::Insufficient { certain: self.certain, top_k: settings.needed() })
    }

    /// The token of the whole row at the uniform number `u`, whatever the unknown logits are.
    ///
    /// # Errors
    /// `frame_insufficient` where it could depend on them; `uniform_out_of_range`.
    pub fn sample(&self, settings: &Settings, u: f64) -> Result<u32, SampleError> {
        self.check(settings)?;
        self.known.sample(settings, u)
    }

    /// What the token of the whole row is drawn from, whatever the unknown logits are.
    ///
    /// # Errors
    /// `frame_insufficient` where it could depend on them.
    pub fn distribution(&self, settings: &Settings) -> Result<Distribution, SampleError> {
        self.check(settings)?;
        Ok(self.known.distribution(settings)?)
    }

    /// The id at a place among the known ones.
    pub(crate) fn id(&self, place: u32) -> u32 {
        self.ids()[place as usize]
    }

    /// The known logits whose places are certain, ids ascending; at least one.
    ///
    /// # Errors
    /// `frame_insufficient` where there is none.
    pub(crate) fn candidates(&self) -> Result<Candidates<L>, SampleError> {
        if self.certain == 0 {
            return Err(SampleError::Insufficient { certain: 0, top_k: 1 });
        }
        let places = Candidates::top_k(self.logits(), self.certain)?;
        let ids = places.ids().iter().map(|place| self.id(*place)).collect();
        Ok(Candidates::new(ids, places.logits().to_vec()))
    }
}

/// How many of the best logits have a certain rank. `ids` ascend.
fn certain<L: Logit>(ids: &[u32], logits: &[L]) -> u32 {
    let allowed = || logits.iter().map(|logit| logit.widen()).filter(|logit| *logit != f64::NEG_INFINITY);
    let mut lowest = f64::INFINITY;
    for logit in allowed() {
        if logit < lowest {
            lowest = logit;
        }
    }
    // An unknown token may tie with the lowest known logit; then it comes before those of higher ids.
    let first_unknown = (0..).zip(ids).position(|(at, id): (u32, _)| at != *id).unwrap_or(ids.len());
    let tied_before = logits[..first_unknown].iter().filter(|logit| logit.widen() == lowest).count();
    (allowed().filter(|logit| *logit > lowest).count() + tied_before) as u32
}

/// Why a list of ids and logits is not part of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SparseRowError {
    /// `sparse_lengths_differ`: not one logit per id.
    Lengths {
        /// How many ids there are.
        ids: u64,
        /// How many logits there are.
        logits: u64,
    },
    /// `sparse_id_out_of_range`: an id that is not below the size of the vocabulary.
    Id {
        /// The first such index.
        index: u32,
        /// The id there.
        id: u32,
        /// The size of the vocabulary.
        vocabulary: u32,
    },
    /// `sparse_id_repeated`: an id that occurs earlier in the list.
    Repeated {
        /// The first such index.
        index: u32,
        /// The id there.
        id: u32,
    },
    /// A logit is refused, or there is none; indices count in the list.
    Logits(LogitsError),
}

impl From<LogitsError> for SparseRowError {
    fn from(error: LogitsError) -> Self {
        Self::Logits(error)
    }
}

impl fmt::Display for SparseRowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lengths { ids, logits } => write!(f, "a sparse row needs one logit an id, not {logits} for {ids}"),
            Self::Id { index, id, vocabulary } => {
                write!(f, "id {id} at index {index} is outside the vocabulary of {vocabulary}")
            }
            Self::Repeated { index, id } => write!(f, "id {id} at index {index} is in the list already"),
            Self::Logits(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SparseRowError {}

impl Refusal for SparseRowError {
    fn code(&self) -> &'static str {
        match self {
            Self::Lengths { .. } => "sparse_lengths_differ",
            Self::Id { .. } => "sparse_id_out_of_range",
            Self::Repeated { .. } => "sparse_id_repeated",
            Self::Logits(error) => error.code(),
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Id { index, .. } | Self::Repeated { index, .. } => Some(u64::from(*index)),
            Self::Logits(error) => error.index(),
            Self::Lengths { .. } => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Id { id, .. } | Self::Repeated { id, .. } => Some(f64::from(*id)),
            _ => None,
        }
    }
}
