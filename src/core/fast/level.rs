//! The levels of the fast path and their error bounds.
//!
//! **Errors.** ε = 2^-53, e = 2^-24; W_i the contract's weight, V the length of the row, B = ⌈V/64⌉.
//!
//! * y = (l − m)·c for (l − m)/T·log2 e. The subtraction is the contract's. Its division errs by ε, our product by ε, the
//!   constant c by 2ε: |y|·4ε, times ln 2 in the weight, below 2^-44 for |y| ≤ 90. With the polynomial's 2^-40.23 + 2^-51,
//!   the contract's rounding of W and the sum over a block (6 levels of a tree, 6ε): η = 2^-40.
//! * Coarse, the difference, the constant and the product are rounded to f32: |y|·(3e + 5ε), times ln 2 below 2^-17.6 for
//!   |y| ≤ 40. The polynomial 2^-21.5, the sum over a block (8 additions in a lane, 3 across lanes) 11e: η = 2^-17.
//! * Weights below 2^-90 are off by less than themselves, and so are blocks that are skipped because their highest weight
//!   is below 2^-90; subnormal weights and probabilities are among them. Coarse weights below 2^-40 are off by a 2^16th
//!   of themselves. In two sums together less than V·2^-88 (coarse: V·2^-55), against a sum of at least 1: `negligible`.
//! * Our sums over blocks: B·ε. The contract's: S errs by V·ε at most, but cancels between q_i and r; p and q by one
//!   rounding each, S2 and r by V·ε each.
//!
//! So the contract's r_j is P̃_j/P̃·(1 ± (2η + (2V + B + 72)·ε)) ± negligible, and the token is j where
//! P̃_j·(1 − Δ) > u·P̃ + negligible and P̃_(j−1)·(1 + Δ) + negligible < u·P̃, with Δ = 2η + (2V + 2B + 512)·ε (1 in
//! 1024 more, for products of errors and for the roundings of the two tests). Running sums never fall, so no other token
//! needs to be looked at.
//!
//! **The cut of top-p** compares H/S with p, H the sum of the likeliest tokens up to one. S errs by V·ε, p by ε, the running
//! sum by V·ε; ours over the list, its buckets and the blocks by (V + B + 8000)·ε at most: Δ = 2η + (3V + B + 8192)·ε, with
//! the same 1 in 1024. The contract ranks
//! by probability and id, and so does the fast path as long as different logits near the cut have different
//! probabilities: with x = (l − m)/T as the contract computes it, x' − x ≥ 2^-48 makes W'/W ≥ 1 + 2^-49, from which four
//! roundings take 2^-51, so that p' and p lie more than a unit in the last place apart. Further from the cut probabilities
//! that coincide are on one side of it together.

use quillmate_kernels::rows::{BLOCK, Precision, Vectors, Weighing};

use crate::core::logits::Numbers;

/// The error bounds of a level.
pub struct Bound {
    /// 2η, and the roundings of running sums: of the walk, and of the cut.
    pub walk: f64,
    pub cut: f64,
    pub negligible: f64,
}

impl Bound {
    pub fn new(precision: Precision, length: usize) -> Self {
        const EPSILON: f64 = f64::EPSILON / 2.0;
        let (eta, each) = match precision {
            Precision::Fine => (f64::from_bits(0x3d70_0000_0000_0000), f64::from_bits(0x3a70_0000_0000_0000)),
            Precision::Coarse => (f64::from_bits(0x3ee0_0000_0000_0000), f64::from_bits(0x3c80_0000_0000_0000)),
        };
        let (v, b) = (length as f64, length.div_ceil(BLOCK) as f64);
        let more = 1.0 + 1.0 / 1024.0;
        Self {
            walk: (2.0 * eta + (2.0 * v + 2.0 * b + 512.0) * EPSILON) * more,
            cut: (2.0 * eta + (3.0 * v + b + 8192.0) * EPSILON) * more,
            negligible: v * each,
        }
    }

    /// Whether `target` is certainly above a sum.
    pub fn above(&self, delta: f64, sum: f64, target: f64) -> bool {
        sum + sum * delta + self.negligible < target
    }

    /// Whether `target` is certainly below a sum.
    pub fn below(&self, delta: f64, sum: f64, target: f64) -> bool {
        sum - sum * delta > target + self.negligible
    }
}

/// What the steps of a level share.
pub struct Level<'a> {
    pub vectors: Vectors,
    pub row: Numbers<'a>,
    pub length: usize,
    pub weighing: Weighing,
    pub temperature: f64,
    pub precision: Precision,
    pub bound: Bound,
}
