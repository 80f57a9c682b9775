//! `tests/vectors/refusals.json`: what is refused, with which code, and that it changes nothing.

use quillmate_sampler::{GeneratorState, Refusal, Run, STATE_SCHEMA, Settings, TopK, sample_token};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/refusals.json")).unwrap()
}

fn float(value: &Value) -> f64 {
    match value.as_str() {
        Some("NaN") => f64::NAN,
        Some("Infinity") => f64::INFINITY,
        Some("-Infinity") => f64::NEG_INFINITY,
        Some(other) => panic!("{other}"),
        None => value.as_f64().unwrap(),
    }
}

#[test]
fn every_sample_that_is_refused() {
    let vectors = vectors();
    let cases = vectors["sample"].as_array().unwrap();
    assert!(cases.len() >= 30);
    for case in cases {
        let name = &case["name"];
        let logits: Vec<f64> = case["logits"].as_array().unwrap().iter().map(float).collect();
        let narrow: Vec<f32> = logits.iter().map(|logit| *logit as f32).collect();
        let [temperature, top_k, top_p, u] = ["temperature", "top_k", "top_p", "u"].map(|name| float(&case[name]));
        let index = case.get("index").map(|index| index.as_u64().unwrap());
        let Ok(top_k) = TopK::from_f64(top_k) else {
            assert_eq!(TopK::from_f64(top_k).unwrap_err().code(), case["code"], "{name}");
            continue;
        };
        for error in [
            sample_token(&logits, temperature, top_k.get(), top_p, u).unwrap_err(),
            sample_token(&narrow, temperature, top_k.get(), top_p, u).unwrap_err(),
        ] {
            assert_eq!(error.code(), case["code"], "{name}");
            assert_eq!(error.index(), index, "{name}");
            assert!(!error.to_string().is_empty());
        }
        // A run refuses the same row and is unchanged.
        if case["code"].as_str().unwrap().starts_with("logits_") {
            let mut run = Run::new(vec![1], 7, Settings::new(temperature, top_k.get(), top_p).unwrap());
            let before = run.clone();
            assert_eq!(run.step_with(&logits).unwrap_err().code(), case["code"], "{name}");
            assert_eq!(run, before, "{name}");
        }
    }
}

#[test]
fn every_state_that_is_refused() {
    let vectors = vectors();
    let cases = vectors["state"].as_array().unwrap();
    assert!(cases.len() >= 50);
    for case in cases {
        let error = GeneratorState::from_json(case["text"].as_str().unwrap()).unwrap_err();
        assert_eq!(error.code(), case["code"], "{}: {error}", case["name"]);
    }
}

#[test]
fn errors_name_the_offending_field_and_value() {
    let vectors = vectors();
    let good = vectors["good_state"].as_str().unwrap();
    for (from, to, named) in [
        ("[7, 3]", "[7, -3]", "tokens[1] must be a token id, an integer from 0 to 4294967295, but is -3"),
        ("0.95", "1.5", "top_p must be from 0 to 1, but is 1.5"),
        ("\"step\": 2", "\"step\": 9", "the step is 9, but there are 2 tokens"),
        ("\"42\"", "42", "the seed must be a string of decimal digits, but is the number 42"),
        ("top_k", "topK", "field settings.top_k is missing"),
    ] {
        let error = GeneratorState::from_json(&good.replace(from, to)).unwrap_err();
        assert_eq!(error.to_string(), named);
    }
}

/// The schema tells the same as the reader, but for what a schema cannot say.
#[test]
fn the_schema_agrees_with_the_reader() {
    let schema: Value = serde_json::from_str(STATE_SCHEMA).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let vectors = vectors();
    let good = vectors["good_state"].as_str().unwrap();
    let valid = |text: &str| schema.is_valid(&serde_json::from_str(text).unwrap());
    assert!(valid(good));
    assert!(valid(&GeneratorState::from_json(good).unwrap().to_json()));
    let mut compared = 0;
    for case in vectors["state"].as_array().unwrap() {
        // Beyond a schema: text that is not one JSON object, repeated keys, step against tokens, seeds of 2^64 and more.
        let beyond = ["json_syntax", "field_repeated", "step_mismatch"].contains(&case["code"].as_str().unwrap())
            || case["name"] == "seed is 2^64";
        if !beyond {
            assert!(!valid(case["text"].as_str().unwrap()), "{} passes the schema", case["name"]);
            compared += 1;
        }
    }
    assert!(compared > 40);
}
