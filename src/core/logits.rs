//! One row of logits, checked in one pass.

use super::error::LogitsError;
#[doc(hidden)]
pub use quillmate_kernels::rows::Numbers;

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A logit: `f32` or `f64`. `f32` widens exactly.
pub trait Logit: Copy + Send + Sync + sealed::Sealed {
    /// The same number as `f64`.
    fn widen(self) -> f64;
    /// −∞.
    const BANNED: Self;
    /// The numbers, with their type known when the program runs.
    #[doc(hidden)]
    fn numbers(logits: &[Self]) -> Numbers<'_>;
}

impl Logit for f32 {
    const BANNED: Self = f32::NEG_INFINITY;

    #[inline]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline]
    fn numbers(logits: &[Self]) -> Numbers<'_> {
        Numbers::F32(logits)
    }
}

impl Logit for f64 {
    const BANNED: Self = f64::NEG_INFINITY;

    #[inline]
    fn widen(self) -> f64 {
        self
    }

    #[inline]
    fn numbers(logits: &[Self]) -> Numbers<'_> {
        Numbers::F64(logits)
    }
}

/// A row in which every logit is finite or −∞, at least one is finite, and every id fits in a `u32`.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a, L> {
    logits: &'a [L],
    allowed: u32,
    best: u32,
}

impl<'a, L: Logit> Row<'a, L> {
    /// Checks a row of V ≥ 1 logits.
    ///
    /// # Errors
    /// `logits_empty`, `logits_too_long`, `logits_nan` or `logits_positive_infinity` (whichever index comes first), and
    /// `logits_all_banned`.
    pub fn new(logits: &'a [L]) -> Result<Self, LogitsError> {
        let length = u32::try_from(logits.len()).map_err(|_| LogitsError::TooLong(logits.len() as u64))?;
        if length == 0 {
            return Err(LogitsError::Empty);
        }
        let (mut allowed, mut best, mut highest) = (0, 0, f64::NEG_INFINITY);
        for (id, logit) in (0..length).zip(logits) {
            let logit = logit.widen();
            if logit.is_nan() {
                return Err(LogitsError::NotANumber(id));
            }
            if logit == f64::INFINITY {
                return Err(LogitsError::PositiveInfinity(id));
            }
            allowed += u32::from(logit != f64::NEG_INFINITY);
            if logit > highest {
                (best, highest) = (id, logit);
            }
        }
        if allowed == 0 {
            return Err(LogitsError::AllBanned(length));
        }
        Ok(Self { logits, allowed, best })
    }

    /// How many logits are finite, that is how many tokens are allowed.
    #[must_use]
    pub fn allowed(&self) -> u32 {
        self.allowed
    }

    /// The allowed token with the highest logit, lowest id on ties.
    #[must_use]
    pub fn argmax(&self) -> u32 {
        self.best
    }

    /// The allowed tokens, ids ascending, with their logits. −0 becomes 0, so that equal logits have equal bits.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> + use<'a, L> {
        (0u32..)
            .zip(self.logits)
            .map(|(id, logit)| (id, logit.widen() + 0.0))
            .filter(|&(_, logit)| logit != f64::NEG_INFINITY)
    }
}
