//! How many drafts each rule accepts: `cargo run --release --example acceptance -- ROWS.f32 VOCABULARY`
//!
//! Integrated exactly over the uniform numbers, not sampled, on rows of little-endian f32 (the target's). The draft model
//! is the target with its logits rounded to a multiple of a step: the coarser, the worse a draft.
//!
//! * p/q, the draft drawn by itself: Σ min(p, q)
//! * drafter-invariant, the draft drawn by itself: Σ p·q
//! * drafter-invariant, the draft drawn with the target's uniform number: the share of [0, 1) on which both walks stop
//!   at the same id

use quillmate_sampler::{Distribution, Settings, distribution};

struct Rates {
    p_over_q: f64,
    independent: f64,
    coupled: f64,
}

fn rates(target: &Distribution, draft: &Distribution) -> Rates {
    let mut rates = Rates { p_over_q: 0.0, independent: 0.0, coupled: 0.0 };
    let intervals = |of: &Distribution| {
        let mut sum = 0.0;
        let steps = of.ids().iter().zip(of.probabilities());
        steps
            .map(|(id, p)| {
                (*id, *p, sum, {
                    sum += p;
                    sum
                })
            })
            .collect::<Vec<_>>()
    };
    let drafts = intervals(draft);
    for (id, p, from, to) in intervals(target) {
        let Ok(at) = drafts.binary_search_by_key(&id, |draft| draft.0) else { continue };
        let (_, q, q_from, q_to) = drafts[at];
        rates.p_over_q += if p < q { p } else { q };
        rates.independent += p * q;
        let (start, end) = (if from > q_from { from } else { q_from }, if to < q_to { to } else { q_to });
        rates.coupled += if end > start { end - start } else { 0.0 };
    }
    rates
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(path), Some(vocabulary)) = (arguments.next(), arguments.next()) else {
        return Err("usage: acceptance ROWS.f32 VOCABULARY".into());
    };
    let bytes = std::fs::read(&path)?;
    let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect();
    let rows: Vec<&[f32]> = logits.chunks_exact(vocabulary.parse()?).collect();
    println!("| draft's logits rounded to | settings | p/q | drafter-invariant, apart | drafter-invariant, coupled |");
    println!("|---|---|---|---|---|");
    for step in [0.0f32, 0.5, 1.0, 2.0] {
        for (name, settings) in [
            ("T 0.8, k 50, p .95", Settings::new(0.8, 50, 0.95)?),
            ("T 1, p .9", Settings::new(1.0, 0, 0.9)?),
            ("greedy", Settings::new(0.0, 0, 1.0)?),
        ] {
            let mut sum = [0.0; 3];
            for row in &rows {
                let rounded: Vec<f32> =
                    row.iter().map(|logit| if step > 0.0 { (logit / step).round() * step } else { *logit }).collect();
                let found = rates(&distribution(row, &settings)?, &distribution(&rounded, &settings)?);
                sum = [sum[0] + found.p_over_q, sum[1] + found.independent, sum[2] + found.coupled];
            }
            let [a, b, c] = sum.map(|sum| 100.0 * sum / rows.len() as f64);
            println!("| {step} | {name} | {a:.1} % | {b:.1} % | {c:.1} % |");
        }
    }
    Ok(())
}
