//! The contract, step by step, written as plainly as possible: full sorts, no selection, no shortcuts.

use quillmate_sampler::exp;

/// Kept ids, ascending, with their probabilities. The logits must be valid.
pub fn distribution(logits: &[f64], temperature: f64, top_k: u32, top_p: f64) -> (Vec<u32>, Vec<f64>) {
    let logit = |id: u32| logits[id as usize];
    // A stable sort of ascending ids: lowest id first among equals.
    let mut order: Vec<u32> = (0..logits.len() as u32).filter(|id| logits[*id as usize] != f64::NEG_INFINITY).collect();
    order.sort_by(|a, b| logit(*b).partial_cmp(&logit(*a)).unwrap());
    if temperature == 0.0 {
        return (vec![order[0]], vec![1.0]);
    }
    if top_k > 0 {
        order.truncate(top_k as usize);
    }
    let highest = logit(order[0]);
    order.sort();
    let weights: Vec<f64> = order.iter().map(|id| exp((logit(*id) - highest) / temperature)).collect();
    let total = sum(&weights);
    let mut kept: Vec<(u32, f64)> = order.iter().zip(&weights).map(|(id, w)| (*id, w / total)).collect();
    if top_p < 1.0 {
        kept.sort_by(|a, b| b.1.partial_cmp(&a.1).unwrap());
        let mut running = 0.0;
        let reached = kept.iter().position(|(_, p)| {
            running += p;
            running >= top_p
        });
        if let Some(last) = reached {
            kept.truncate(last + 1);
        }
        kept.sort_by_key(|(id, _)| *id);
    }
    let probabilities: Vec<f64> = kept.iter().map(|(_, p)| *p).collect();
    let total = sum(&probabilities);
    (kept.iter().map(|(id, _)| *id).collect(), probabilities.iter().map(|p| p / total).collect())
}

/// The token at u.
pub fn walk(ids: &[u32], probabilities: &[f64], u: f64) -> u32 {
    let mut running = 0.0;
    for (id, q) in ids.iter().zip(probabilities) {
        running += q;
        if running > u {
            return *id;
        }
    }
    let last = probabilities.iter().rposition(|q| *q > 0.0).unwrap();
    ids[last]
}

fn sum(numbers: &[f64]) -> f64 {
    let mut sum = 0.0;
    for number in numbers {
        sum += number;
    }
    sum
}
