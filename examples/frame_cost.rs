//! What one token costs on the wire: `cargo run --release --example frame_cost -- ROWS.f32 VOCABULARY …`
//!
//! Prints mean bytes a frame over all rows of each file (rows of little-endian f32), as they are and after gzip.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use quillmate_sampler::{Frame, Settings};

fn gzipped(bytes: &[u8]) -> std::io::Result<usize> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    while let (Some(path), Some(vocabulary)) = (arguments.next(), arguments.next()) {
        let vocabulary: usize = vocabulary.parse()?;
        let bytes = std::fs::read(&path)?;
        let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect();
        println!("{path}: {} rows of {vocabulary}", logits.len() / vocabulary);
        // What a model that computes in bfloat16 would send: the upper half of each f32.
        let halved: Vec<f32> = logits.iter().map(|logit| f32::from_bits(logit.to_bits() & 0xffff_0000)).collect();
        for (name, logits, settings) in [
            ("all settings", &logits, Settings::default()),
            ("all settings, bf16", &halved, Settings::default()),
            ("top-k 50", &logits, Settings::new(0.8, 50, 0.95)?),
            ("top-k 50, bf16", &halved, Settings::new(0.8, 50, 0.95)?),
            ("greedy", &logits, Settings::new(0.0, 0, 1.0)?),
        ] {
            let (mut plain, mut packed, mut rows) = (0, 0, 0);
            for (step, row) in (0u64..).zip(logits.chunks_exact(vocabulary)) {
                let bytes = Frame::for_settings(step, row, &settings)?.encode();
                plain += bytes.len();
                packed += gzipped(&bytes)?;
                rows += 1;
            }
            println!("  {name:20} {:>8} bytes, {:>8} gzipped", plain / rows, packed / rows);
        }
    }
    Ok(())
}
