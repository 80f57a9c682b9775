//! One step of the model, here and in llama.cpp: the same file, context and tokens, a step of the one and a step of the
//! other in turn.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use quillmate_sampler::{Frame, Settings, sample, uniform};
use quillmate_server::model::LanguageModel;
use quillmate_server::model::smollm2::{Progress, SHA256, SmolLm2};
use serde_json::{Value, json};

use crate::llama::{Llama, Model};
use crate::samplers::median;

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const OPENINGS: [&str; 3] = [
    "The letter arrived on a Tuesday, three years after the man who wrote it had died. Marta turned it over and",
    "The sea was grey, and the keeper of the light said that",
    "\"Where is the key?\" said Marta. \"I gave the key to Jonas,\" said Anna, and",
];
/// So many tokens after each opening, fewer where they take longer than this.
const TOKENS: usize = 48;
const TIME: Duration = Duration::from_secs(12);

/// What the server does with a row beside the model: choose the token, and make the frame and encode it.
fn parts(row: &[f32]) -> Outcome<Vec<Value>> {
    let mut parts = Vec::new();
    for (setting, settings) in [("k 50, p .95", Settings::new(0.8, 50, 0.95)?), ("p .9", Settings::new(0.8, 0, 0.9)?)] {
        let (mut choosing, mut framing) = (Vec::new(), Vec::new());
        for step in 0..200 {
            let begin = Instant::now();
            black_box(sample(black_box(row), &settings, uniform(1, step, 0))?);
            choosing.push(begin.elapsed().as_secs_f64() * 1e3);
            let begin = Instant::now();
            black_box(Frame::for_settings(step, black_box(row), &settings)?.encode());
            framing.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        parts.push(json!({"setting": setting, "sample_ms": median(&mut choosing), "frame_ms": median(&mut framing)}));
    }
    Ok(parts)
}

/// What the steps of the one and of the other took, in milliseconds.
#[derive(Default)]
struct Times {
    ours: Vec<f64>,
    theirs: Vec<f64>,
}

fn timed<T>(times: &mut Vec<f64>, step: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let made = step();
    times.push(begin.elapsed().as_secs_f64() * 1e3);
    made
}

/// Of the fastest tenth the slowest: what a step takes when nothing else wants the cores.
fn undisturbed(times: &[f64]) -> f64 {
    times[times.len() / 10]
}

pub fn against_llama(llama: &'static Llama, file: &Path) -> Outcome<Vec<Value>> {
    let ours = SmolLm2::load(file, SHA256, &Progress::default())?;
    let mut theirs = Model::load(llama, file, ours.identity().vocab as usize)?;
    let mut results = Vec::new();
    for threads in [1, 2] {
        theirs.set_threads(i32::try_from(threads)?);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        results.push(pool.install(|| in_turn(&ours, &mut theirs, threads))?);
    }
    Ok(results)
}

fn in_turn(ours: &SmolLm2, theirs: &mut Model, threads: usize) -> Outcome<Value> {
    let greedy = Settings::new(0.0, 0, 1.0)?;
    let (mut times, mut agree, mut apart) = (Times::default(), 0, 0f32);
    let mut logits = Vec::new();
    for opening in OPENINGS {
        let prompt = ours.encode(opening)?;
        let mut session = ours.open();
        logits = session.prefill(&prompt)?;
        theirs.clear();
        theirs.feed(&prompt)?;
        let begin = Instant::now();
        for at in (0..TOKENS).take_while(|_| begin.elapsed() < TIME) {
            let token = sample(&logits, &greedy, 0.0)?;
            // Neither is always the first.
            let beside;
            (logits, beside) = if at % 2 == 0 {
                let own = timed(&mut times.ours, || session.feed(token))?;
                (own, timed(&mut times.theirs, || theirs.feed(&[token]))?)
            } else {
                let beside = timed(&mut times.theirs, || theirs.feed(&[token]))?;
                (timed(&mut times.ours, || session.feed(token))?, beside)
            };
            agree += usize::from(sample(&logits, &greedy, 0.0)? == sample(&beside, &greedy, 0.0)?);
            for (a, b) in logits.iter().zip(&beside) {
                apart = if (a - b).abs() > apart { (a - b).abs() } else { apart };
            }
        }
    }
    let parts = parts(&logits)?;
    let steps = times.ours.len();
    let mut ratios: Vec<f64> = times.ours.iter().zip(&times.theirs).map(|(ours, theirs)| ours / theirs).collect();
    let (own, other, ratio) = (median(&mut times.ours), median(&mut times.theirs), median(&mut ratios));
    let (own_fast, other_fast) = (undisturbed(&times.ours), undisturbed(&times.theirs));
    eprintln!(
        "a step of SmolLM2, {threads} threads, {steps} steps: medians {own:.1} ms here, {other:.1} ms in llama.cpp, of the ratios \
         {ratio:.2}; the fastest tenths {own_fast:.1} and {other_fast:.1}; the best token agrees in {agree}, logits differ by \
         {apart:.2} at most"
    );
    Ok(json!({"where": "native", "setting": "step of the model", "threads": threads, "steps": steps, "parts": parts,
        "ours_ms": own, "llama.cpp_ms": other, "median_ratio": ratio, "ours_fastest_tenth_ms": own_fast,
        "llama.cpp_fastest_tenth_ms": other_fast, "best_agrees": agree, "largest_difference": apart}))
}
