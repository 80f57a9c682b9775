//! Temperature, top-k and top-p, checked once when they are made.

use super::error::SettingsError;

/// Softmax temperature: finite and ≥ 0, in units of logits. 0 is greedy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature(f64);

impl Temperature {
    /// Checks a temperature; −0 becomes 0.
    ///
    /// # Errors
    /// `temperature_out_of_range` for NaN, an infinity, or a number below 0.
    pub fn new(value: f64) -> Result<Self, SettingsError> {
        if value.is_finite() && value >= 0.0 {
            Ok(Self(value + 0.0))
        } else {
            Err(SettingsError::Temperature(value.into()))
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

/// How many of the best logits are kept: 0 is off (all are kept).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopK(u32);

impl TopK {
    /// Every `u32` is a valid top-k.
    #[must_use]
    pub fn new(value: u32) -> Self {
        Self(value)
    }

    /// For callers whose numbers are floating point, such as JavaScript and JSON.
    ///
    /// # Errors
    /// `top_k_out_of_range` for anything but an integer from 0 to 2^32 − 1.
    pub fn from_f64(value: f64) -> Result<Self, SettingsError> {
        if (0.0..=f64::from(u32::MAX)).contains(&value) && value.trunc() == value {
            Ok(Self(value as u32))
        } else {
            Err(SettingsError::TopK(value.into()))
        }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

/// The share of probability the nucleus must hold: 0 ≤ p ≤ 1. 1 is off, 0 keeps one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopP(f64);

impl TopP {
    /// Checks a share; −0 becomes 0.
    ///
    /// # Errors
    /// `top_p_out_of_range` for NaN or a number outside 0 to 1.
    pub fn new(value: f64) -> Result<Self, SettingsError> {
        if (0.0..=1.0).contains(&value) { Ok(Self(value + 0.0)) } else { Err(SettingsError::TopP(value.into())) }
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

/// The settings of one token or one run.
///
/// ```
/// use quillmate_sampler::Settings;
/// let settings = Settings::new(0.8, 50, 0.95)?;
/// assert_eq!(settings.top_k(), 50);
/// # Ok::<(), quillmate_sampler::SettingsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    temperature: Temperature,
    top_k: TopK,
    top_p: TopP,
}

impl Settings {
    /// Checks three settings.
    ///
    /// # Errors
    /// `temperature_out_of_range` or `top_p_out_of_range`, with the value.
    pub fn new(temperature: f64, top_k: u32, top_p: f64) -> Result<Self, SettingsError> {
        Ok(Self::from_parts(Temperature::new(temperature)?, TopK::new(top_k), TopP::new(top_p)?))
    }

    /// Greedy settings: temperature 0, where top-k and top-p have no effect.
    #[must_use]
    pub fn greedy() -> Self {
        Self { temperature: Temperature(0.0), ..Self::default() }
    }

    /// Settings from checked parts.
    #[must_use]
    pub fn from_parts(temperature: Temperature, top_k: TopK, top_p: TopP) -> Self {
        Self { temperature, top_k, top_p }
    }

    /// Softmax temperature; 0 is greedy.
    #[must_use]
    pub fn temperature(&self) -> f64 {
        self.temperature.get()
    }

    /// How many of the best logits are kept; 0 keeps all.
    #[must_use]
    pub fn top_k(&self) -> u32 {
        self.top_k.get()
    }

    /// The share of probability the nucleus must hold; 1 is off.
    #[must_use]
    pub fn top_p(&self) -> f64 {
        self.top_p.get()
    }

    /// How many of the best logits a token depends on, 1 or more; 0: on all.
    pub(crate) fn needed(&self) -> u32 {
        if self.is_greedy() { 1 } else { self.top_k() }
    }

    /// Whether the best token is always taken (temperature 0).
    #[must_use]
    pub fn is_greedy(&self) -> bool {
        self.temperature() == 0.0
    }
}

impl Default for Settings {
    /// Temperature 1, top-k and top-p off: the model's own distribution.
    fn default() -> Self {
        Self { temperature: Temperature(1.0), top_k: TopK(0), top_p: TopP(1.0) }
    }
}
