//! Rows by length: of models where a folder of them is given, and elsewhere the ones that every bench here makes.

use std::path::Path;

#[path = "../../../tests/shared/differential.rs"]
mod differential;

pub struct Rows {
    /// How the rows of this length came about.
    pub source: &'static str,
    pub rows: Vec<Vec<f32>>,
}

const FILES: [(&str, usize); 3] =
    [("smollm2_49152.15rows.f32", 49_152), ("logits_128256.8rows.f32", 128_256), ("gemma3_262144.6rows.f32", 262_144)];

pub fn all(folder: &Path) -> Vec<Rows> {
    let one = |(file, vocabulary): (&'static str, usize)| match std::fs::read(folder.join(file)) {
        Ok(bytes) => {
            let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect();
            Rows { source: file, rows: logits.chunks_exact(vocabulary).map(<[f32]>::to_vec).collect() }
        }
        Err(_) => Rows {
            source: "made: peaky",
            rows: (0..8).map(|seed| differential::row("peaky", seed, vocabulary)).collect(),
        },
    };
    FILES.map(one).into()
}
