//! Choosing a token from a row of logits, settings and a uniform number; for one row or many.

use std::fmt;

use super::error::SampleError;
use super::fast;
use super::logits::Logit;
use super::refusal::Refusal;
use super::settings::{Settings, Temperature, TopK, TopP};

/// Chooses one token as the contract says.
///
/// * `logits`: V ≥ 1 numbers, index = token id; −∞ bans a token.
/// * `temperature`: finite, ≥ 0; 0 takes the best logit, lowest id on ties. `top_k`, `top_p` and `u` are then ignored, even
///   if they are out of range.
/// * `top_k`: 0 is off. `top_p`: 0 to 1; 1 is off.
/// * `u`: the uniform number, 0 ≤ u < 1.
///
/// ```
/// use quillmate_sampler::sample_token;
/// let logits = [0.05, 2.0, 0.15, 0.3];
/// assert_eq!(sample_token(&logits, 0.8, 3, 0.95, 0.5), Ok(1));
/// assert_eq!(sample_token(&logits, 0.0, 3, 7.0, f64::NAN), Ok(1));
/// ```
///
/// # Errors
/// In this order: a setting out of range, `u` out of range, then the logits. An error names the value or the index.
pub fn sample_token<L: Logit>(
    logits: &[L],
    temperature: f64,
    top_k: u32,
    top_p: f64,
    u: f64,
) -> Result<u32, SampleError> {
    let settings = match Temperature::new(temperature)? {
        temperature if temperature.get() == 0.0 => Settings::greedy(),
        temperature => Settings::from_parts(temperature, TopK::new(top_k), TopP::new(top_p)?),
    };
    sample(logits, &settings, u)
}

/// [`sample_token`] with settings that are already checked. Greedy settings ignore `u`.
///
/// # Errors
/// `uniform_out_of_range` unless greedy, then every refusal of the logits.
pub fn sample<L: Logit>(logits: &[L], settings: &Settings, u: f64) -> Result<u32, SampleError> {
    Ok(fast::sample_by(fast::Path::widest(), logits, settings, u)?.0)
}

/// Why a batch as a whole was refused: its parts do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// `batch_logits_length`: not B·V logits.
    Logits {
        /// Rows, that is uniform numbers.
        rows: u64,
        /// V.
        vocabulary: u64,
        /// Logits that were given.
        logits: u64,
    },
    /// `batch_settings_length`: neither one for all rows nor one per row.
    Settings {
        /// Rows, that is uniform numbers.
        rows: u64,
        /// Settings that were given.
        settings: u64,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Logits { rows, vocabulary, logits } => {
                write!(f, "{rows} rows over a vocabulary of {vocabulary} are not {logits} logits")
            }
            Self::Settings { rows, settings } => write!(f, "{rows} rows need {rows} settings or 1, not {settings}"),
        }
    }
}

impl std::error::Error for BatchError {}

impl Refusal for BatchError {
    fn code(&self) -> &'static str {
        match self {
            Self::Logits { .. } => "batch_logits_length",
            Self::Settings { .. } => "batch_settings_length",
        }
    }
}

/// A refused row of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowError {
    /// Which row, from 0.
    pub row: u64,
    /// Why.
    pub error: SampleError,
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}: {}", self.row, self.error)
    }
}

impl std::error::Error for RowError {}

impl Refusal for RowError {
    fn code(&self) -> &'static str {
        self.error.code()
    }

    fn index(&self) -> Option<u64> {
        self.error.index()
    }

    fn value(&self) -> Option<f64> {
        self.error.value()
    }
}

/// Chooses a token for each of B rows. Result i is that of [`sample`] for row i, so a refused row does not affect the others.
///
/// * `logits`: B·V numbers, row after row; `vocabulary`: V.
/// * `settings`: one per row, or one for all.
/// * `u`: B uniform numbers; that of a row with greedy settings is ignored.
///
/// With the feature `parallel` the rows are shared among threads; no result depends on it.
///
/// # Errors
/// `batch_logits_length`, `batch_settings_length`. The refusal of one row is its result in the list.
pub fn sample_batch<L: Logit + Sync>(
    logits: &[L],
    vocabulary: usize,
    settings: &[Settings],
    u: &[f64],
) -> Result<Vec<Result<u32, RowError>>, BatchError> {
    let rows = u.len();
    if rows.checked_mul(vocabulary) != Some(logits.len()) {
        let [rows, vocabulary, logits] = [rows, vocabulary, logits.len()].map(|count| count as u64);
        return Err(BatchError::Logits { rows, vocabulary, logits });
    }
    if settings.len() != rows && settings.len() != 1 {
        return Err(BatchError::Settings { rows: rows as u64, settings: settings.len() as u64 });
    }
    let of = |row: usize| if settings.len() == 1 { &settings[0] } else { &settings[row] };
    let one = |row: usize| {
        sample(&logits[row * vocabulary..][..vocabulary], of(row), u[row])
            .map_err(|error| RowError { row: row as u64, error })
    };
    Ok(in_parallel(rows, |row| is_long(of(row)), one))
}

/// Whether a row takes several times as long under these settings as under others.
pub(crate) fn is_long(settings: &Settings) -> bool {
    settings.top_k() == 0 && !settings.is_greedy()
}

/// Calls `one` for 0 to count − 1 and returns the results in that order.
///
/// The calling thread takes part, because waking another takes as long as a row or two. Each thread takes the next free row,
/// expensive rows first: rows differ in cost by a factor of ten, and an expensive row at the end would leave the other threads
/// idle.
#[cfg(all(feature = "parallel", not(target_arch = "wasm32")))]
pub(crate) fn in_parallel<T: Send>(
    count: usize,
    long: impl Fn(usize) -> bool,
    one: impl Fn(usize) -> T + Sync + Send,
) -> Vec<T> {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let helpers = rayon::current_num_threads().min(count).saturating_sub(1);
    if helpers == 0 {
        return (0..count).map(one).collect();
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&at| !long(at));
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let work = || {
        let mut mine = Vec::new();
        while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            mine.push((at, one(at)));
        }
        // A thread that panicked has left no partial result here.
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).append(&mut mine);
    };
    rayon::in_place_scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|_| work());
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_unstable_by_key(|&(at, _)| at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Calls `one` for 0 to count − 1 and returns the results in that order.
#[cfg(not(all(feature = "parallel", not(target_arch = "wasm32"))))]
pub(crate) fn in_parallel<T>(count: usize, _: impl Fn(usize) -> bool, one: impl Fn(usize) -> T) -> Vec<T> {
    (0..count).map(one).collect()
}
