//! contract.json, whole, natively. `tests/web.rs` and `tests/js` run the same file.

use crate::shared;

#[test]
fn exp_is_correctly_rounded_on_every_pair() {
    let cases = shared::section("exp");
    assert_eq!(shared::exp_pairs(&cases), cases.len());
    println!("ran {} exp cases", cases.len());
}

/// Arguments whose results lie near the midpoint of two doubles, a quarter of them subnormal; checked against MPFR.
#[test]
fn exp_is_correctly_rounded_on_the_hard_pairs() {
    let hard: serde_json::Value = serde_json::from_str(include_str!("../vectors/exp_hard.json")).expect("JSON");
    let cases = hard["exp"].as_array().expect("a list");
    assert_eq!(shared::exp_pairs(cases), 4000);
    println!("ran {} exp_hard cases", cases.len());
}

#[test]
fn every_uniform() {
    println!("ran {} uniform cases", shared::uniforms());
}

#[test]
fn every_sample() {
    println!("ran {} sample cases", shared::samples());
}

#[test]
fn every_greedy_choice_whatever_the_other_settings_hold() {
    println!("ran {} greedy cases", shared::greedy());
}

#[test]
fn every_greedy_choice_of_the_older_contract() {
    println!("ran {} mosaic_greedy cases", shared::mosaic_greedy());
}

#[test]
fn every_golden_run_straight_and_resumed() {
    println!("ran {} golden cases", shared::golden_run());
}

#[test]
fn every_speculation() {
    println!("ran {} speculative cases", shared::speculations());
}

#[test]
fn every_derived_seed() {
    println!("ran {} derive_seed cases", shared::derived_seeds());
}

#[test]
fn every_run_of_the_older_contract() {
    println!("ran {} mosaic cases", shared::mosaics());
}

#[test]
fn every_processor() {
    println!("ran {} processor cases", shared::processors());
}

#[test]
fn every_run_with_processors_straight_and_resumed() {
    println!("ran {} processed_run cases", shared::processed_runs());
}

#[test]
fn every_frame() {
    println!("ran {} frame cases", shared::frames());
    println!("ran {} refused_frame cases", shared::refused_frames());
}

#[test]
fn every_number_in_a_message() {
    println!("ran {} number cases", shared::numbers());
}
