//! What is computed number by number along rows of f32: normalization, the gated activation, sums.

use super::elementary::exp;
use super::isa::{Isa, compiled_for};

/// Root-mean-square normalization of one row: x / √(mean(x²) + ε), times the weight. The squares are summed in f64, in
/// eight lanes by index modulo 8, and the lanes in a tree.
pub fn rms_norm(isa: Isa, x: &[f32], weight: &[f32], epsilon: f64, out: &mut [f32]) {
    compiled_for!(isa, rms_norm_body(x: &[f32], weight: &[f32], epsilon: f64, out: &mut [f32]));
}

#[inline(always)]
fn rms_norm_body(x: &[f32], weight: &[f32], epsilon: f64, out: &mut [f32]) {
    let mut lanes = [0.0; 8];
    let (eights, rest) = x.as_chunks::<8>();
    for eight in eights {
        for (lane, &x) in lanes.iter_mut().zip(eight) {
            *lane += f64::from(x) * f64::from(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(x) * f64::from(x);
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + e) + (c + g)) + ((b + f) + (d + h));
    let scale = (1.0 / (sum / x.len() as f64 + epsilon).sqrt()) as f32;
    for ((out, &x), &weight) in out.iter_mut().zip(x).zip(weight) {
        *out = x * scale * weight;
    }
}

/// The gated activation of a row: silu(gate)·up, with silu(x) = x / (1 + e^−x). The row holds all gates, then all ups.
pub fn silu_gate(isa: Isa, row: &[f32], out: &mut [f32]) {
    compiled_for!(isa, silu_gate_body(row: &[f32], out: &mut [f32]));
}

#[inline(always)]
fn silu_gate_body(row: &[f32], out: &mut [f32]) {
    let (gates, ups) = row.split_at(out.len());
    for ((out, &gate), &up) in out.iter_mut().zip(gates).zip(ups) {
        *out = gate / (1.0 + exp(-gate)) * up;
    }
}

/// Adds a row to another.
pub fn add(isa: Isa, x: &mut [f32], y: &[f32]) {
    compiled_for!(isa, add_body(x: &mut [f32], y: &[f32]));
}

#[inline(always)]
fn add_body(x: &mut [f32], y: &[f32]) {
    for (x, y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Random, both_ways};
    use super::*;

    #[test]
    fn kernels_of_rows_give_the_same_bits_both_ways() {
        let mut random = Random(3);
        let (x, weight) = (random.floats(581), random.floats(581));
        both_ways(|isa| {
            let mut out = vec![0.0; x.len()];
            rms_norm(isa, &x, &weight, 1e-5, &mut out);
            out
        });
        let row: Vec<f32> = random.floats(200).iter().map(|x| x * 100.0).collect();
        let gated = both_ways(|isa| {
            let mut out = vec![0.0; 100];
            silu_gate(isa, &row, &mut out);
            out
        });
        for (at, gated) in gated.iter().enumerate() {
            let (gate, up) = (f64::from(row[at]), f64::from(row[100 + at]));
            let exact = gate / (1.0 + quillmate_sampler::exp(-gate)) * up;
            assert!((f64::from(*gated) - exact).abs() <= exact.abs() * 1e-5 + 1e-30);
        }
    }
}
