//! Generators: what a failing model costs (nothing), and that a run may be cut anywhere.
#![cfg(not(target_arch = "wasm32"))]

use std::convert::Infallible;

use proptest::prelude::*;
use quillmate_sampler::{Generator, GeneratorState, Refusal, Settings, StepError, draw, uniform};

/// A model whose logits are a function of the context, with many ties.
fn model(context: &[u32]) -> Result<Vec<f32>, Infallible> {
    let seed = context.iter().fold(7u64, |hash, token| draw(hash ^ u64::from(*token), 0, 9));
    Ok((0..97).map(|id| (draw(seed, id, 9) % 16) as f32 / 2.0).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_run_cut_anywhere_and_resumed_through_text_is_the_straight_run(
        seed in any::<u64>(), prompt in prop::collection::vec(any::<u32>(), 0..5),
        temperature in 0.0..4.0f64, top_k in 0u32..120, top_p in 0.0..=1.0f64, cut in 0usize..30
    ) {
        let settings = Settings::new(temperature, top_k, top_p).unwrap();
        let mut straight = Generator::new(model, prompt.clone(), seed, settings);
        let mut cut_run = Generator::new(model, prompt, seed, settings);
        for step in 0..30 {
            if step == cut {
                let text = cut_run.state().to_json();
                let state = GeneratorState::from_json(&text).unwrap();
                prop_assert_eq!(&state, cut_run.state(), "every bit of every setting survives the text");
                cut_run = Generator::from_state(model, state);
            }
            prop_assert_eq!(straight.step(), cut_run.step());
        }
        prop_assert_eq!(straight.state(), cut_run.state());
    }
}

#[test]
fn a_step_uses_the_uniform_of_its_position_and_the_whole_context() {
    let mut asked = Vec::new();
    let spy = |context: &[u32]| {
        asked.push(context.to_vec());
        model(context)
    };
    let mut generator = Generator::new(spy, vec![5, 6], 42, Settings::default());
    for n in 0..3 {
        assert_eq!(generator.run().uniform(), uniform(42, n, 0));
        generator.step().unwrap();
    }
    let tokens = generator.state().tokens.clone();
    assert_eq!(asked, [vec![5, 6], vec![5, 6, tokens[0]], vec![5, 6, tokens[0], tokens[1]]]);
}

#[test]
fn a_model_that_fails_or_gives_no_row_costs_nothing() {
    let mut attempt = 0;
    let flaky = |context: &[u32]| {
        attempt += 1;
        match attempt {
            2 => Err("out of memory"),
            3 => Ok(vec![0.0, f32::NAN]),
            4 => Ok(vec![]),
            5 => Ok(vec![f32::NEG_INFINITY; 3]),
            _ => Ok(model(context).unwrap()),
        }
    };
    let mut generator = Generator::new(flaky, vec![1], 3, Settings::default());
    generator.step().unwrap();
    let before = generator.state().clone();
    assert_eq!(generator.step(), Err(StepError::Model("out of memory")));
    for code in ["logits_nan", "logits_empty", "logits_all_banned"] {
        assert_eq!(generator.step().unwrap_err().code(), code);
    }
    assert_eq!(*generator.state(), before);
    generator.step().unwrap();

    let mut untroubled = Generator::new(model, vec![1], 3, Settings::default());
    untroubled.step().unwrap();
    untroubled.step().unwrap();
    assert_eq!(generator.state(), untroubled.state());
}

#[test]
fn settings_keep_their_bits_through_text() {
    let settings = Settings::new(1.5777777777770001, 0, 1.0).unwrap();
    assert_eq!(settings.temperature().to_bits(), 0x3ff9_3e93_e93e_863b);
    let generator = Generator::new(model, vec![], 1, settings);
    let text = generator.state().to_json();
    assert_eq!(GeneratorState::from_json(&text).unwrap().settings.temperature().to_bits(), 0x3ff9_3e93_e93e_863b);
}
