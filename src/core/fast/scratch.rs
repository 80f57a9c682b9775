//! The passes of the fast path over a row, and their scratch memory.

use std::cell::Cell;

use quillmate_kernels::rows::{BLOCK, Vectors, widened};

use super::level::Level;
use crate::core::distribution::top_k_of;
use crate::core::logits::Numbers;
use crate::core::rank::{Rank, falling, nth, number};

thread_local! {
    static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::new()) };
}

/// Memory that is reused from token to token, one per thread (in the wasm, one for all generators): V/4 bytes for a row of V
/// logits; with top-p 24 for each selected token (usually few, up to V if very many logits are equal); with top-k about 64 for
/// each of the k.
#[derive(Default)]
pub struct Scratch {
    /// The highest logit of each block.
    pub maxima: Vec<f64>,
    /// The sum of the kept weights of each block.
    pub sums: Vec<f64>,
    /// The selected tokens, ids ascending: their ids, logits and weights.
    pub ids: Vec<u32>,
    pub logits: Vec<f64>,
    pub weights: Vec<f64>,
    /// Which of these are not decided yet.
    pub open: Vec<u32>,
    /// With top-k: the numbers among which the k-th best is found.
    pub ranked: Vec<Rank>,
    /// The logit from which up all tokens are selected, if there is one.
    pub picked_from: Option<f64>,
}

impl Scratch {
    const fn new() -> Self {
        Self {
            maxima: Vec::new(),
            sums: Vec::new(),
            ids: Vec::new(),
            logits: Vec::new(),
            weights: Vec::new(),
            open: Vec::new(),
            ranked: Vec::new(),
            picked_from: None,
        }
    }

    /// Calls `with` with this thread's memory. It is taken out while in use, so that a nested call or one after a panic gets
    /// an empty one.
    pub fn with<T>(with: impl FnOnce(&mut Self) -> T) -> T {
        let mut scratch = SCRATCH.take();
        let result = with(&mut scratch);
        SCRATCH.set(scratch);
        result
    }

    /// The highest logit if the row is valid; `None` if it is invalid or the scan cannot decide.
    pub fn scan(&mut self, vectors: Vectors, row: Numbers) -> Option<f64> {
        u32::try_from(row.len()).ok()?;
        vectors.scan(row, &mut self.maxima)
    }

    /// The lowest id with the highest logit.
    pub fn first(&self, row: Numbers, highest: f64) -> Option<u32> {
        let block = self.maxima.iter().position(|maximum| *maximum == highest)?;
        let within = widened(row, block).iter().position(|logit| *logit == highest)?;
        Some((block * BLOCK + within) as u32)
    }

    /// Top-k. The k-th highest of the maxima of disjoint sets of logits is a lower bound of the k-th highest logit. There are 4k
    /// sets, each of every 4k-th block, so that few logits are above the bound and it is found quickly.
    ///
    /// The row has been [scanned](Self::scan), and k is from 1 to its length less 1.
    pub fn top_k(&mut self, vectors: Vectors, row: Numbers, k: u32) -> (Vec<u32>, Vec<f64>) {
        let sets = &mut self.weights;
        sets.clear();
        for blocks in self.maxima.chunks((k as usize).saturating_mul(4)) {
            if sets.is_empty() {
                sets.extend_from_slice(blocks);
            }
            for (highest, block) in sets.iter_mut().zip(blocks) {
                *highest = if block > highest { *block } else { *highest };
            }
        }
        // If fewer than k sets contain an allowed token, take every allowed token.
        let mut lowest = narrow(row, f64::MIN);
        self.ranked.clear();
        self.ranked.extend(sets.iter().map(|set| (falling(*set), 0)));
        if let Some((highest, _)) = nth(k as usize - 1, &mut self.ranked) {
            lowest = if number(highest) > lowest { number(highest) } else { lowest };
        }
        self.collect(vectors, row, lowest, f64::INFINITY);
        let tokens = self.ids.iter().copied().zip(self.logits.iter().copied());
        top_k_of(tokens, k, &mut self.ranked)
    }

    /// Selects the allowed tokens with logits in this range.
    pub fn collect(&mut self, vectors: Vectors, row: Numbers, lowest: f64, highest: f64) {
        self.ids.clear();
        self.logits.clear();
        self.picked_from = None;
        vectors.collect(row, &self.maxima, lowest, highest, &mut self.ids, &mut self.logits);
    }

    /// The sum of the weights of logits above `above`, by block and in total.
    pub fn sum(&mut self, level: &Level, above: f64) -> f64 {
        let Level { vectors, row, weighing, precision, .. } = *level;
        vectors.sum(precision, row, &self.maxima, weighing, above, &mut self.sums);
        total(&self.sums)
    }
}

/// A sum in lanes, so that an addition need not wait for the previous one.
pub fn total(numbers: &[f64]) -> f64 {
    let mut lanes = [0.0; 8];
    for numbers in numbers.chunks(8) {
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane += number;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

/// The nearest finite number of the row's type.
pub fn narrow(row: Numbers, value: f64) -> f64 {
    match row {
        Numbers::F32(_) => f64::from(value.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32),
        Numbers::F64(_) => value.clamp(f64::MIN, f64::MAX),
    }
}
