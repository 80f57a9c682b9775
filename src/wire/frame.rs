//! One step's logits on the wire: compact, lossless, checked.
//! [CONTRACT.md, section "The frame"](crate#the-frame), specifies the bytes, what a frame suffices for, and every refusal.

use std::borrow::Cow;
use std::fmt;

use base64ct::{Base64, Encoding as _};
use half::{bf16, f16};
use quillmate_kernels::checksum::crc32;
use quillmate_kernels::rows::from_bytes;

use super::version::FRAME_FORMAT;
use crate::core::candidates::Candidates;
use crate::core::error::{LogitsError, SampleError};
use crate::core::fast::check;
use crate::core::processors::Processors;
use crate::core::refusal::Refusal;
use crate::core::settings::Settings;
use crate::core::sparse::SparseRow;

const MAGIC: &[u8; 4] = b"QMLF";
const HEADER: usize = 28;
const CHECKSUM: usize = 4;
/// The most bytes of an id: LEB128 of a number below [`MAX_VOCABULARY`].
const ID: usize = 4;

/// The largest vocabulary a frame may name, so that a forged header cannot ask for memory without end.
pub const MAX_VOCABULARY: u32 = 1 << 24;

/// Which logits a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All of them.
    Dense,
    /// The best, each with its id.
    Sparse,
}

/// How a frame writes a logit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// IEEE binary32, 4 bytes.
    F32,
    /// bfloat16, 2 bytes.
    Bf16,
    /// IEEE binary16, 2 bytes.
    F16,
}

impl Dtype {
    /// The narrowest in which every logit keeps its bits.
    fn lossless(logits: &[f32]) -> Self {
        if logits.iter().all(|logit| bf16::from_f32(*logit).to_f32().to_bits() == logit.to_bits()) {
            Self::Bf16
        } else if logits.iter().all(|logit| f16::from_f32(*logit).to_f32().to_bits() == logit.to_bits()) {
            Self::F16
        } else {
            Self::F32
        }
    }

    fn width(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    fn write(self, logits: &[f32], bytes: &mut Vec<u8>) {
        match self {
            Self::F32 => bytes.extend(logits.iter().flat_map(|logit| logit.to_le_bytes())),
            Self::Bf16 => bytes.extend(logits.iter().flat_map(|logit| bf16::from_f32(*logit).to_le_bytes())),
            Self::F16 => bytes.extend(logits.iter().flat_map(|logit| f16::from_f32(*logit).to_le_bytes())),
        }
    }

    fn read(self, bytes: &[u8]) -> Vec<f32> {
        match self {
            Self::F32 => from_bytes(bytes),
            Self::Bf16 => bytes.as_chunks().0.iter().map(|logit| bf16::from_le_bytes(*logit).to_f32()).collect(),
            Self::F16 => bytes.as_chunks().0.iter().map(|logit| f16::from_le_bytes(*logit).to_f32()).collect(),
        }
    }
}

/// Why a frame was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// `frame_truncated`: fewer bytes than a header and a checksum take.
    Truncated {
        /// How many there are.
        bytes: u64,
    },
    /// `frame_not_a_frame`: it does not begin as one.
    NotAFrame,
    /// `frame_format_unknown`: the version it names.
    Format(u8),
    /// `frame_damaged`: the checksum does not fit the bytes.
    Damaged {
        /// The checksum the frame carries.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// `frame_malformed`: intact, but not of the form; what is wrong.
    Malformed(&'static str),
    /// `frame_vocabulary_too_large`: above [`MAX_VOCABULARY`].
    Vocabulary(u32),
    /// `top_k_out_of_range`: a sparse frame needs k ≥ 1.
    NoTokens,
    /// `frame_insufficient`: it lacks logits that these settings need.
    Insufficient {
        /// The largest top-k it suffices for.
        largest: u32,
        /// The top-k that was asked for; 0 is off.
        top_k: u32,
    },
    /// `frame_step_mismatch`: it is for another step.
    StepMismatch {
        /// The step the run is at.
        expected: u64,
        /// The step the frame is for.
        found: u64,
    },
    /// The logits are refused, or no token could be sampled from them.
    Sample(SampleError),
}

impl From<LogitsError> for FrameError {
    fn from(error: LogitsError) -> Self {
        Self::Sample(SampleError::Logits(error))
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { bytes } => {
                write!(f, "a frame has at least {} bytes, but there are {bytes}", HEADER + CHECKSUM)
            }
            Self::NotAFrame => write!(f, "these bytes do not begin as a frame does"),
            Self::Format(version) => {
                write!(f, "frame format {version} is not known; this release reads {FRAME_FORMAT}")
            }
            Self::Damaged { stored, computed } => {
                write!(f, "the frame is damaged: its checksum is {stored:08x}, but its bytes give {computed:08x}")
            }
            Self::Malformed(what) => write!(f, "the frame is malformed: {what}"),
            Self::Vocabulary(size) => {
                write!(f, "a frame's vocabulary is at most {MAX_VOCABULARY}, but this one says {size}")
            }
            Self::NoTokens => write!(f, "a sparse frame holds at least 1 logit"),
            Self::Insufficient { largest, top_k: 0 } => {
                write!(
                    f,
                    "the frame holds the {largest} best logits, but without top-k, or with processors, all are needed"
                )
            }
            Self::Insufficient { largest, top_k } => {
                write!(f, "the frame holds the {largest} best logits, but top-k {top_k} needs more")
            }
            Self::StepMismatch { expected, found } => {
                write!(f, "the run is at step {expected}, but the frame is for step {found}")
            }
            Self::Sample(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FrameError {}

impl Refusal for FrameError {
    fn code(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "frame_truncated",
            Self::NotAFrame => "frame_not_a_frame",
            Self::Format(_) => "frame_format_unknown",
            Self::Damaged { .. } => "frame_damaged",
            Self::Malformed(_) => "frame_malformed",
            Self::Vocabulary(_) => "frame_vocabulary_too_large",
            Self::NoTokens => "top_k_out_of_range",
            Self::Insufficient { .. } => "frame_insufficient",
            Self::StepMismatch { .. } => "frame_step_mismatch",
            Self::Sample(error) => error.code(),
        }
    }

    fn index(&self) -> Option<u64> {
        match self {
            Self::Sample(error) => error.index(),
            _ => None,
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::NoTokens => Some(0.0),
            Self::Insufficient { top_k, .. } => Some(f64::from(*top_k)),
            Self::Vocabulary(size) => Some(f64::from(*size)),
            Self::Sample(error) => error.value(),
            _ => None,
        }
    }
}

/// One step's logits: all of them, or the best with their ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    step: u64,
    vocabulary: u32,
    dtype: Dtype,
    held: Held,
    /// 0: suffices for all settings.
    max_top_k: u32,
    checksum: u32,
}

/// The logits of a frame.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Dense(Vec<f32>),
    Sparse(Candidates<f32>),
}

impl Held {
    fn logits(&self) -> &[f32] {
        match self {
            Self::Dense(logits) => logits,
            Self::Sparse(candidates) => candidates.logits(),
        }
    }
}

impl Frame {
    fn build(step: u64, vocabulary: u32, held: Held, max_top_k: u32) -> Result<Self, FrameError> {
        if vocabulary > MAX_VOCABULARY {
            return Err(FrameError::Vocabulary(vocabulary));
        }
        let dtype = Dtype::lossless(held.logits());
        let mut frame = Self { step, vocabulary, dtype, held, max_top_k, checksum: 0 };
        frame.checksum = crc32(&frame.body());
        Ok(frame)
    }

    /// A frame that suffices for all settings. `logits`: V numbers, index = token id.
    ///
    /// # Errors
    /// Every refusal of the logits, and `frame_vocabulary_too_large`.
    pub fn dense(step: u64, logits: &[f32]) -> Result<Self, FrameError> {
        check(logits)?;
        Self::build(step, logits.len() as u32, Held::Dense(logits.to_vec()), 0)
    }

    /// A frame of the k best logits: enough for every top-k from 1 to k, and for greedy. Where k or fewer tokens are
    /// allowed it has all of them and suffices for all settings.
    ///
    /// # Errors
    /// `top_k_out_of_range` for k = 0, every refusal of the logits, and `frame_vocabulary_too_large`.
    pub fn sparse(step: u64, logits: &[f32], k: u32) -> Result<Self, FrameError> {
        if k == 0 {
            return Err(FrameError::NoTokens);
        }
        Self::of_best(step, logits, Candidates::top_k(logits, k)?, k)
    }

    /// A frame of the k best logits of a row, or of all that are allowed.
    pub(crate) fn of_best(step: u64, logits: &[f32], best: Candidates<f32>, k: u32) -> Result<Self, FrameError> {
        let max_top_k = if allows_more_than(logits, k) { k } else { 0 };
        Self::build(step, logits.len() as u32, Held::Sparse(best), max_top_k)
    }

    /// A frame of a row of which only the best logits are known: it suffices for every top-k up to
    /// [`SparseRow::max_top_k`] and for greedy, and for all settings where all logits are known. Logits whose place an
    /// unknown token could take are left out.
    ///
    /// # Errors
    /// `frame_insufficient` where not even the best token is certain, and `frame_vocabulary_too_large`.
    pub fn from_sparse(step: u64, row: &SparseRow<f32>) -> Result<Self, FrameError> {
        if let Some(logits) = row.whole() {
            return Self::smaller(step, logits, 0);
        }
        let best = row.candidates().map_err(FrameError::Sample)?;
        let max_top_k = best.ids().len() as u32;
        Self::build(step, row.vocabulary(), Held::Sparse(best), max_top_k)
    }

    /// The smaller of the frames that suffice for these settings. Where few tokens are allowed, as under a constraint,
    /// that is one of the allowed tokens.
    ///
    /// # Errors
    /// Every refusal of the logits, and `frame_vocabulary_too_large`.
    pub fn for_settings(step: u64, logits: &[f32], settings: &Settings) -> Result<Self, FrameError> {
        Self::for_run(step, logits, settings, &Processors::default())
    }

    /// The smaller of the frames that suffice for a run with these settings: with all that is allowed where it has
    /// processors.
    ///
    /// # Errors
    /// As [`for_settings`](Self::for_settings).
    pub fn for_run(
        step: u64,
        logits: &[f32],
        settings: &Settings,
        processors: &Processors,
    ) -> Result<Self, FrameError> {
        Self::smaller(step, logits, needed(settings, processors))
    }

    /// The most bytes a frame made by [`for_run`](Self::for_run) can take, whatever the logits.
    #[must_use]
    pub fn max_bytes_for_run(vocabulary: u32, settings: &Settings, processors: &Processors) -> u64 {
        let needed = needed(settings, processors);
        let width = Dtype::F32.width() as u64;
        let logits = if is_few(needed, vocabulary as usize) {
            u64::from(needed) * (ID as u64 + width)
        } else {
            // A sparse frame has fewer than half as many logits, and ids that are no wider than they are.
            u64::from(vocabulary) * width
        };
        (HEADER + CHECKSUM) as u64 + logits
    }

    /// The smaller of the frames with the `needed` best logits, or with all that are allowed for 0.
    fn smaller(step: u64, logits: &[f32], needed: u32) -> Result<Self, FrameError> {
        if is_few(needed, logits.len()) {
            return Self::sparse(step, logits, needed);
        }
        check(logits)?;
        Self::of_allowed(step, logits)
    }

    /// The smaller of the frames with all allowed logits of a row that has been checked.
    pub(crate) fn of_allowed(step: u64, logits: &[f32]) -> Result<Self, FrameError> {
        let allowed = allowed(logits);
        if is_few(allowed, logits.len()) {
            return Self::of_best(step, logits, Candidates::top_k(logits, allowed)?, allowed);
        }
        Self::build(step, logits.len() as u32, Held::Dense(logits.to_vec()), 0)
    }

    /// How many of the best logits make the frame of a run with these settings, where they are few enough for a sparse one.
    pub(crate) fn few_needed(logits: &[f32], settings: &Settings, processors: &Processors) -> Option<u32> {
        let needed = needed(settings, processors);
        is_few(needed, logits.len()).then_some(needed)
    }

    /// The step these logits are for.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How many token ids the model knows.
    #[must_use]
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// Whether all logits are here, or the best.
    #[must_use]
    pub fn layout(&self) -> Layout {
        match self.held {
            Held::Dense(_) => Layout::Dense,
            Held::Sparse(_) => Layout::Sparse,
        }
    }

    /// How the logits are written.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The largest top-k this frame suffices for; `None` when it suffices for all settings.
    #[must_use]
    pub fn max_top_k(&self) -> Option<u32> {
        (self.max_top_k > 0).then_some(self.max_top_k)
    }

    /// CRC-32 of the frame's bytes.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Whether the contract's token under these settings depends on nothing that is not in this frame.
    #[must_use]
    pub fn suffices_for(&self, settings: &Settings) -> bool {
        self.max_top_k == 0 || settings.is_greedy() || (1..=self.max_top_k).contains(&settings.top_k())
    }

    /// The row of V logits, −∞ where none was sent: under settings the frame suffices for it gives the same token as
    /// the whole row.
    ///
    /// # Errors
    /// `frame_insufficient`.
    pub fn logits_for(&self, settings: &Settings) -> Result<Vec<f32>, FrameError> {
        Ok(self.logits_for_run(settings, &Processors::default())?.into_owned())
    }

    /// [`suffices_for`](Self::suffices_for) a run: processors need all logits.
    #[must_use]
    pub fn suffices_for_run(&self, settings: &Settings, processors: &Processors) -> bool {
        self.max_top_k == 0 || (processors.is_empty() && self.suffices_for(settings))
    }

    /// Refuses a frame that does not suffice for a run.
    pub(crate) fn check_for_run(&self, settings: &Settings, processors: &Processors) -> Result<(), FrameError> {
        if self.suffices_for_run(settings, processors) {
            return Ok(());
        }
        let top_k = if processors.is_empty() { settings.top_k() } else { 0 };
        Err(FrameError::Insufficient { largest: self.max_top_k, top_k })
    }

    /// [`logits_for`](Self::logits_for) a run.
    ///
    /// # Errors
    /// `frame_insufficient`.
    pub fn logits_for_run(&self, settings: &Settings, processors: &Processors) -> Result<Cow<'_, [f32]>, FrameError> {
        self.check_for_run(settings, processors)?;
        Ok(self.row())
    }

    /// The row of V logits, −∞ where none was sent.
    pub(crate) fn row(&self) -> Cow<'_, [f32]> {
        let candidates = match &self.held {
            Held::Dense(logits) => return Cow::Borrowed(logits),
            Held::Sparse(candidates) => candidates,
        };
        let mut row = vec![f32::NEG_INFINITY; self.vocabulary as usize];
        for (id, logit) in candidates.ids().iter().zip(candidates.logits()) {
            row[*id as usize] = *logit;
        }
        Cow::Owned(row)
    }

    /// The candidates of a sparse frame; `None` for a dense one.
    pub(crate) fn candidates(&self) -> Option<&Candidates<f32>> {
        match &self.held {
            Held::Dense(_) => None,
            Held::Sparse(candidates) => Some(candidates),
        }
    }

    /// The allowed tokens this frame holds, ids ascending, with their logits.
    pub fn entries(&self) -> impl Iterator<Item = (u32, f32)> {
        let ids = self.candidates().map(Candidates::ids);
        let id = move |at: usize| ids.map_or(at as u32, |ids| ids[at]);
        let held = self.held.logits().iter().enumerate().map(move |(at, logit)| (id(at), *logit));
        held.filter(|(_, logit)| *logit != f32::NEG_INFINITY)
    }

    /// All bytes before the checksum.
    fn body(&self) -> Vec<u8> {
        let logits = self.held.logits();
        let ids = self.candidates().map(Candidates::ids);
        let mut bytes = Vec::with_capacity(HEADER + logits.len() * (self.dtype.width() + 3) + CHECKSUM);
        bytes.extend(MAGIC);
        bytes.extend([FRAME_FORMAT, u8::from(ids.is_some()), self.dtype as u8, 0]);
        bytes.extend(self.step.to_le_bytes());
        bytes.extend(self.vocabulary.to_le_bytes());
        bytes.extend((logits.len() as u32).to_le_bytes());
        bytes.extend(self.max_top_k.to_le_bytes());
        let mut next = 0;
        for id in ids.into_iter().flatten() {
            write_leb128(id - next, &mut bytes);
            next = id + 1;
        }
        self.dtype.write(logits, &mut bytes);
        bytes
    }

    /// The frame as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = self.body();
        bytes.extend(self.checksum.to_le_bytes());
        bytes
    }

    /// The frame as base64 text, as a record file has it.
    #[must_use]
    pub fn to_base64(&self) -> String {
        Base64::encode_string(&self.encode())
    }

    /// Reads a frame; the whole slice must be one frame.
    ///
    /// # Errors
    /// `frame_truncated`, `frame_not_a_frame`, `frame_format_unknown`, `frame_damaged`, `frame_malformed`,
    /// `frame_vocabulary_too_large`, and every refusal of the logits.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameError> {
        let Some((body, stored)) = bytes.split_last_chunk::<CHECKSUM>().filter(|(body, _)| body.len() >= HEADER) else {
            return Err(FrameError::Truncated { bytes: bytes.len() as u64 });
        };
        let mut reader = Reader(body);
        if &reader.take::<4>()? != MAGIC {
            return Err(FrameError::NotAFrame);
        }
        let [format, layout, dtype, reserved] = reader.take()?;
        if format != FRAME_FORMAT {
            return Err(FrameError::Format(format));
        }
        let (stored, checksum) = (u32::from_le_bytes(*stored), crc32(body));
        if stored != checksum {
            return Err(FrameError::Damaged { stored, computed: checksum });
        }
        let dtype = match dtype {
            0 => Dtype::F32,
            1 => Dtype::Bf16,
            2 => Dtype::F16,
            _ => return Err(FrameError::Malformed("unknown dtype")),
        };
        if reserved != 0 {
            return Err(FrameError::Malformed("reserved byte is not 0"));
        }
        let step = u64::from_le_bytes(reader.take()?);
        let [vocabulary, count, max_top_k] = [reader.take()?, reader.take()?, reader.take()?].map(u32::from_le_bytes);
        if vocabulary > MAX_VOCABULARY {
            return Err(FrameError::Vocabulary(vocabulary));
        }
        // Each logit takes two bytes at least: a count the bytes cannot hold reserves no memory.
        if count as usize > body.len() / 2 {
            return Err(FrameError::Malformed("more logits announced than there are bytes"));
        }
        let ids = match layout {
            0 if count != vocabulary => return Err(FrameError::Malformed("a dense frame that has not every logit")),
            0 if max_top_k != 0 => return Err(FrameError::Malformed("a dense frame with a limit on top-k")),
            0 => None,
            1 if max_top_k != 0 && max_top_k != count => {
                return Err(FrameError::Malformed("a limit on top-k that is not the number of logits"));
            }
            1 => Some(reader.ids(count, vocabulary)?),
            _ => return Err(FrameError::Malformed("unknown layout")),
        };
        if reader.0.len() != count as usize * dtype.width() {
            return Err(FrameError::Malformed("the logits do not fill the frame"));
        }
        let logits = dtype.read(reader.0);
        check(&logits)?;
        let held = match ids {
            None => Held::Dense(logits),
            Some(_) if logits.contains(&f32::NEG_INFINITY) => {
                return Err(FrameError::Malformed("a sparse frame with a banned token"));
            }
            Some(ids) => Held::Sparse(Candidates::new(ids, logits)),
        };
        Ok(Self { step, vocabulary, dtype, held, max_top_k, checksum })
    }
}

/// How many of the best logits a token depends on; 0: on all.
fn needed(settings: &Settings, processors: &Processors) -> u32 {
    if processors.is_empty() { settings.needed() } else { 0 }
}

/// Whether a frame of so many logits, 1 or more, is smaller than one of all: an id takes at least a byte beside its logit, so one
/// of half the vocabulary or more gains nothing.
fn is_few(count: u32, vocabulary: usize) -> bool {
    count > 0 && (count as usize) < vocabulary / 2
}

/// How many tokens a row allows.
fn allowed(logits: &[f32]) -> u32 {
    logits.iter().map(|logit| u32::from(*logit != f32::NEG_INFINITY)).sum()
}

/// Whether a row allows more than k tokens.
fn allows_more_than(logits: &[f32], k: u32) -> bool {
    // In parts: most rows say so soon.
    let mut count = 0;
    logits.chunks(1024).any(|part| {
        count += allowed(part);
        count > k
    })
}

fn write_leb128(mut value: u32, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let (head, rest) = self.0.split_first_chunk().ok_or(FrameError::Malformed("it ends early"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn leb128(&mut self) -> Result<u32, FrameError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let [byte] = self.take()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if byte == 0 && shift > 0 {
                    break;
                }
                return u32::try_from(value).map_err(|_| FrameError::Malformed("an id gap above 32 bits"));
            }
        }
        Err(FrameError::Malformed("an id gap not in its shortest form"))
    }

    fn ids(&mut self, count: u32, vocabulary: u32) -> Result<Vec<u32>, FrameError> {
        let mut ids = Vec::with_capacity(count as usize);
        let mut next = 0u64;
        for _ in 0..count {
            let id = next + u64::from(self.leb128()?);
            if id >= u64::from(vocabulary) {
                return Err(FrameError::Malformed("an id outside the vocabulary"));
            }
            ids.push(id as u32);
            next = id + 1;
        }
        Ok(ids)
    }
}
