//! The trait of all errors.

use std::fmt;

use super::text::Number;

/// Implemented by every error of this crate: its code, and the offending index and number.
pub trait Refusal: fmt::Display {
    /// A stable name for programs: `temperature_out_of_range`.
    fn code(&self) -> &'static str;
    /// The first offending index, if any.
    fn index(&self) -> Option<u64> {
        None
    }
    /// The offending number, if any.
    fn value(&self) -> Option<f64> {
        None
    }
}

/// A number that was refused. It is kept and compared by its bits, so that errors are `Eq`: NaN equals itself here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RejectedNumber(u64);

impl RejectedNumber {
    /// The number itself.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl From<f64> for RejectedNumber {
    fn from(value: f64) -> Self {
        Self(value.to_bits())
    }
}

impl fmt::Display for RejectedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Number(self.get()).fmt(f)
    }
}

impl fmt::Debug for RejectedNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
