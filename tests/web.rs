//! contract.json, whole, in a real browser: `wasm-pack test --headless --chrome`. Prints how many cases of each kind
//! ran; `make test` compares the counts with the file.
#![cfg(target_arch = "wasm32")]

mod shared;

use quillmate_sampler::{Frame, GeneratorState, Run, Settings, Verdict, verify};
use wasm_bindgen_test::{console_log, wasm_bindgen_test, wasm_bindgen_test_configure};

// Without this line wasm-pack runs nothing in a browser, and exits 0.
wasm_bindgen_test_configure!(run_in_browser);

#[wasm_bindgen_test]
fn every_exp() {
    console_log!("ran {} exp cases", shared::exp_pairs(&shared::section("exp")));
}

#[wasm_bindgen_test]
fn every_hard_exp() {
    let hard: serde_json::Value = serde_json::from_str(include_str!("vectors/exp_hard.json")).expect("JSON");
    console_log!("ran {} exp_hard cases", shared::exp_pairs(hard["exp"].as_array().expect("a list")));
}

#[wasm_bindgen_test]
fn every_uniform() {
    console_log!("ran {} uniform cases", shared::uniforms());
}

#[wasm_bindgen_test]
fn every_sample() {
    console_log!("ran {} sample cases", shared::samples());
}

/// States stored elsewhere after 7 tokens resume here, and the text stored here is the same.
#[wasm_bindgen_test]
fn a_run_stored_natively_resumes_here_and_back() {
    console_log!("ran {} golden cases", shared::golden_run());
}

#[wasm_bindgen_test]
fn a_claim_is_checked_here_as_on_a_server() {
    let logits = [0.5f32, 1.5, -2.0, 1.5];
    let settings = Settings::new(0.8, 3, 0.9).expect("valid");
    let mut run = Run::new(vec![1], 42, settings);
    let start = run.state().clone();
    let mut frames = Vec::new();
    for step in 0..5 {
        let frame = Frame::for_settings(step, &logits, &settings).expect("valid");
        run.step_with_frame(&frame).expect("steps");
        frames.push(frame.encode());
    }
    let record = quillmate_sampler::Record { start, frames };
    let state: GeneratorState = run.state().clone();
    let claim = quillmate_sampler::Claim { tokens: run.tokens().to_vec(), state, frame_checksums: None };
    assert_eq!(verify(&record, &claim), Verdict::Match { steps: 5 });
}
