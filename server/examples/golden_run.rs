//! Prints `tests/server/vectors/golden_run.json`: the token ids SmolLM2 gives after three prompts, greedy and seeded. Made anew
//! only where the arithmetic has a new name.
//!
//! `cargo run --release -p quillmate-server --example golden_run -- MODEL > server/tests/server/vectors/golden_run.json`

use std::path::PathBuf;

use quillmate_sampler::wire::state::RunSettings;
use quillmate_sampler::{Processors, Run, Settings};
use quillmate_server::model::smollm2::{Progress, SHA256, SmolLm2};
use quillmate_server::model::{LanguageModel, use_threads};
use quillmate_server::text::text;
use serde_json::json;

const TOKENS: usize = 40;
const PROMPTS: [&str; 3] = [
    "The lighthouse keeper had not seen a ship in eleven days. On the twelfth, ",
    "\u{201c}Do you believe in ghosts?\u{201d} asked the boy. His grandmother",
    "To bake a loaf of bread, first",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = PathBuf::from(std::env::args_os().nth(1).ok_or("give the model's file")?);
    use_threads(None)?;
    let model = SmolLm2::load(&path, SHA256, &Progress::default())?;
    let mut runs = Vec::new();
    for prompt in PROMPTS {
        let ids = model.encode(prompt)?;
        for (seed, settings) in [(0, Settings::new(0.0, 0, 1.0)?), (20_261_130, Settings::new(0.8, 50, 0.95)?)] {
            let mut run = Run::new(ids.clone(), seed, settings);
            let mut session = model.open();
            let mut row = session.prefill(&ids)?;
            for _ in 0..TOKENS {
                let token = run.step_with(&row)?;
                row = session.feed(token)?;
            }
            runs.push(json!({
                "prompt": prompt,
                "prompt_ids": ids,
                "seed": seed.to_string(),
                "settings": RunSettings { settings, processors: Processors::default() },
                "tokens": run.tokens(),
                "text": text(model.tokens(), run.tokens()),
            }));
        }
    }
    let about = "Token ids of SmolLM2-135M-Instruct (Q4_1) under this arithmetic, made by examples/golden_run.rs.";
    let file = json!({"about": about, "model": model.identity(), "runs": runs});
    println!("{}", serde_json::to_string_pretty(&file)?);
    Ok(())
}
