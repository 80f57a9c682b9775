//! The arithmetic of a forward pass, each number by one fixed sequence of operations.
//!
//! What is promised: a function here gives the same bits for the same arguments whatever the number of threads, whichever
//! other rows are computed beside, and whichever instruction set is used. It is had by construction:
//!
//! * A dot product with quantized weights is a sum over blocks of 32. Inside a block everything is integers, which are
//!   exact in any order; between blocks it is f32, in ascending order of the blocks, one accumulator per column:
//!   `sum = sum + ((d·n)·a + m·s)`, each operation rounded by itself.
//! * Multiplication and addition are never fused, so SSE2, AVX2 and NEON round alike; no `exp`, `sin` or `pow` of a
//!   platform's library is called.
//! * Instructions are chosen by [`Isa`]; a kernel is either written once and compiled twice, or written twice and tested
//!   for equality. Vectors hold different columns, keys or dimensions side by side and never parts of one f32 sum.
//!   The one sum that has lanes, that of squares in `rms_norm`, has eight of them by definition.
//!
//! What is not: equal bits where the processor is told to flush subnormal numbers to zero, which nothing here does.

// Loads of vectors through pointers and calls of functions compiled for a named instruction set have no safe form. Each
// block says why it is sound; everything else in the server stays without.
#![allow(unsafe_code)]

mod activations;
mod attention;
mod elementary;
mod isa;
mod matrix;
mod rows;
#[cfg(test)]
mod testing;
mod tile;

pub use isa::Isa;

pub(super) use activations::{Activations, BLOCK, quantize};
pub(super) use attention::{HEAD_UNIT, PAGE, Place, attend, rotate};
pub(super) use elementary::{cos_sin, inverse_power};
pub(super) use matrix::{Format, Matrix};
pub(super) use rows::{add, rms_norm, silu_gate};
