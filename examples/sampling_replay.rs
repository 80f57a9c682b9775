//! Replays the published run of `mosaic-splitmix64-top-k-top-p-v1` and prints it as JSON.

use quillmate_sampler::mosaic::{ALGORITHM_VERSION, Sampler, SamplingConfig, SelectionStrategy};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (logits, seed) = ([0.0, 1.0, 2.0, 3.0], 42);
    let (temperature, top_k, top_p) = (0.8, 3, 0.9);
    let strategy = SelectionStrategy::Sample(SamplingConfig::try_new(temperature, top_k, top_p)?);
    let mut sampler = Sampler::new(strategy, seed);
    let (mut draws, mut tokens) = (Vec::new(), Vec::new());
    for _ in 0..8 {
        let decision = sampler.next(&logits)?;
        draws.push(decision.random_draw);
        tokens.push(decision.token_id);
    }
    let replay = json!({
        "algorithm_version": ALGORITHM_VERSION,
        "logits": logits,
        "settings": { "temperature": temperature, "top_k": top_k, "top_p": top_p },
        "seed": seed,
        "draws": draws,
        "tokens": tokens,
        "scope": "Claimed: given these logits, settings and seed, these draws and tokens, bit for bit, on every machine. \
                  Not claimed: that a model gives the same logits elsewhere, or anything about what the tokens mean.",
    });
    println!("{}", serde_json::to_string_pretty(&replay)?);
    Ok(())
}
