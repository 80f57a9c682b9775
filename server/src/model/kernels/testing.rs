//! What the tests of several kernels share.

use super::activations::{Activations, BLOCK, quantize};
use super::isa::Isa;

/// SplitMix64, as numbers of every kind.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 8_388_608.0 - 1.0
    }

    pub fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

pub fn quantized(values: &[f32]) -> Vec<Activations> {
    let mut out = vec![Activations::default(); values.len() / BLOCK];
    quantize(Isa::plain(), values, &mut out);
    out
}

/// What a kernel gives, having the same bits in plain Rust and with the best instructions.
pub fn both_ways(run: impl Fn(Isa) -> Vec<f32>) -> Vec<f32> {
    let plain = run(Isa::plain());
    assert_eq!(bits(&plain), bits(&run(Isa::detect())));
    plain
}
