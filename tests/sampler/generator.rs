//! Generators: a failing model changes nothing, and a run may be interrupted anywhere.

use std::convert::Infallible;

use proptest::prelude::*;
use quillmate_sampler::{
    ChainError, Distribution, Draft, Frame, FrameError, Generator, GeneratorState, LogitsError, Refusal, Run,
    SampleError, Settings, SparseRow, StepError, draw, uniform,
};

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
fn the_rows_of_one_run_have_one_length() {
    let row = |length: u64| -> Vec<f32> { (0..length).map(|id| (draw(length, id, 9) % 16) as f32).collect() };
    let mut run = Run::new(vec![1], 7, Settings::default());
    // What is refused, and what emits nothing, fixes nothing.
    assert_eq!(run.step_with(&[0.0, f32::NAN]).unwrap_err().code(), "logits_nan");
    run.decide(&row(5)).unwrap();
    run.decision(&row(6)).unwrap();
    run.trace(&row(7)).unwrap();
    assert_eq!(
        run.step_with_drafts(&[row(8), row(9)], &[run.decide(&row(8)).unwrap()]).unwrap_err().code(),
        "logits_length_changed"
    );
    run.step_with(&row(64)).unwrap();

    let before = run.state().clone();
    let refused = SampleError::Logits(LogitsError::LengthChanged { expected: 64, found: 128 });
    // The logits of two positions at once.
    assert_eq!(run.step_with(&row(128)), Err(refused));
    assert_eq!((refused.code(), refused.value()), ("logits_length_changed", Some(128.0)));
    assert_eq!(run.decide(&row(128)), Err(refused));
    assert_eq!(run.decision(&row(128)), Err(refused));
    assert_eq!(run.trace(&row(128)), Err(refused));
    let sparse = SparseRow::new(&(0..128).collect::<Vec<_>>(), &row(128), 128).unwrap();
    assert_eq!(run.step_with_sparse(&sparse), Err(refused));
    assert_eq!(run.decision_sparse(&sparse), Err(refused));
    let frame = Frame::dense(1, &row(128)).unwrap();
    assert_eq!(run.step_with_frame(&frame), Err(FrameError::Sample(refused)));
    let of_row = |row| Err(ChainError::Sample { row, error: refused });
    assert_eq!(run.step_with_drafts(&[row(128)], &[]), of_row(0));
    let draft = Draft { token: 3, distribution: Distribution::new(vec![3], vec![1.0]).unwrap() };
    assert_eq!(run.step_speculative(&[row(128), row(128)], &[draft]), of_row(0));
    // A row's own faults come first.
    assert_eq!(run.step_with(&[f32::NAN; 3]).unwrap_err().code(), "logits_nan");
    assert_eq!(*run.state(), before);
    run.step_with(&row(64)).unwrap();

    // Neither the state nor equality knows of it.
    let mut resumed = Run::from_state(before);
    resumed.step_with(&row(64)).unwrap();
    assert_eq!(resumed, run);
    let mut resumed = Run::from_state(run.state().clone());
    assert_eq!(resumed, run);
    resumed.step_with(&row(90)).unwrap();

    // The model of a generator that forgets to take the last row.
    let tensor = |context: &[u32]| Ok::<_, Infallible>(row(16 * context.len() as u64));
    let mut generator = Generator::new(tensor, vec![1], 7, Settings::default());
    generator.step().unwrap();
    assert_eq!(generator.step().unwrap_err().code(), "logits_length_changed");
    assert_eq!(generator.run().position(), 1);
}

#[test]
fn settings_keep_their_bits_through_text() {
    let settings = Settings::new(1.5777777777770001, 0, 1.0).unwrap();
    assert_eq!(settings.temperature().to_bits(), 0x3ff9_3e93_e93e_863b);
    let generator = Generator::new(model, vec![], 1, settings);
    let text = generator.state().to_json();
    assert_eq!(GeneratorState::from_json(&text).unwrap().settings.temperature().to_bits(), 0x3ff9_3e93_e93e_863b);
}

/// Two runs are equal when their states are, whatever rows they have taken.
#[test]
fn runs_are_equal_by_their_states() {
    let run = Run::new(vec![1], 7, Settings::default());
    assert_eq!(run, Run::from_state(run.state().clone()));
    for other in [
        Run::new(vec![2], 7, Settings::default()),
        Run::new(vec![1], 8, Settings::default()),
        Run::new(vec![1], 7, Settings::new(0.5, 0, 1.0).unwrap()),
    ] {
        assert_ne!(run, other);
    }
    let mut stepped = run.clone();
    stepped.step_with(&[1.0, 2.0]).unwrap();
    assert_ne!(run, stepped);
}
