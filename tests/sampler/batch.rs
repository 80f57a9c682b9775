//! Batches: a request's token depends only on the request.

use std::convert::Infallible;

use proptest::prelude::*;
use quillmate_sampler::{
    Generator, LogitsError, Processor, Processors, Refusal, Run, SampleError, Settings, StepBatchError, StepError,
    draw, sample, sample_batch, step_batch,
};

fn settings() -> impl Strategy<Value = Settings> {
    let temperature = prop_oneof![Just(0.0), 0.05..3.0f64];
    (temperature, prop_oneof![Just(0u32), 1u32..40], prop_oneof![Just(1.0), 0.0..=1.0f64])
        .prop_map(|(temperature, top_k, top_p)| Settings::new(temperature, top_k, top_p).unwrap())
}

/// Logits of which one in twenty or so is refused or banned.
fn logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        200 => -8.0..8.0f32,
        100 => (-4i8..4).prop_map(f32::from),
        10 => Just(f32::NEG_INFINITY),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn row_i_is_sample_of_row_i_refusals_included(
        (vocabulary, rows) in (1usize..60, 0usize..20)
            .prop_flat_map(|(v, b)| (Just(v), prop::collection::vec(
                (prop::collection::vec(logit(), v), settings(), prop_oneof![9 => 0.0..1.0f64, 1 => Just(1.0)]), b)))
    ) {
        let flat: Vec<f32> = rows.iter().flat_map(|(row, _, _)| row.clone()).collect();
        let settings: Vec<Settings> = rows.iter().map(|(_, settings, _)| *settings).collect();
        let u: Vec<f64> = rows.iter().map(|(_, _, u)| *u).collect();
        // One entry may stand for all rows, so a batch of one says the same either way.
        let batch = sample_batch(&flat, vocabulary, &settings, &u).unwrap();
        prop_assert_eq!(batch.len(), rows.len());
        for (at, (row, settings, u)) in rows.iter().enumerate() {
            match (&batch[at], sample(row, settings, *u)) {
                (Ok(token), alone) => prop_assert_eq!(Ok(*token), alone),
                (Err(refused), alone) => {
                    prop_assert_eq!(refused.row, at as u64);
                    prop_assert_eq!(Err(refused.error), alone);
                }
            }
        }
    }
}

#[test]
fn a_bad_row_costs_only_itself_and_is_named() {
    let (nan, inf) = (f64::NAN, f64::NEG_INFINITY);
    let logits = [1.0, 2.0, nan, 0.0, inf, inf, 3.0, 1.0];
    let one = [Settings::default()];
    let batch = sample_batch(&logits, 2, &one, &[0.9, 0.5, 0.5, 0.0]).unwrap();
    assert_eq!(batch[0], Ok(1));
    assert_eq!(batch[3], Ok(0));
    let refused = batch[1].unwrap_err();
    assert_eq!((refused.row, refused.code(), refused.index()), (1, "logits_nan", Some(0)));
    assert_eq!(refused.to_string(), "row 1: logit 0 is NaN");
    assert_eq!(batch[2].unwrap_err().code(), "logits_all_banned");
    let batch = sample_batch(&logits[..4], 2, &one, &[1.0, 0.5]).unwrap();
    assert_eq!(batch[0].unwrap_err().code(), "uniform_out_of_range");
    let greedy = [Settings::new(0.0, 0, 1.0).unwrap(), one[0]];
    let batch = sample_batch(&[1.0, 2.0, 1.0, 2.0], 2, &greedy, &[1.0, 1.0]).unwrap();
    assert_eq!(batch[0], Ok(1), "temperature 0 does not look at u");
    assert_eq!(batch[1].unwrap_err().code(), "uniform_out_of_range");
}

/// A generator's own model: a function of the context and of a number; it fails where the context is as long as `fails_at`.
fn own(number: u32, fails_at: usize) -> impl FnMut(&[u32]) -> Result<Vec<f32>, String> + Clone {
    move |context| match context.len() {
        length if length == fails_at => Err(format!("model {number} failed")),
        length if length == fails_at + 1 => Ok(vec![f32::NAN; 53]),
        _ => Ok(row(&[&[number], context].concat(), 40 + number)),
    }
}

#[test]
fn generators_of_their_own_models_step_together_as_alone() {
    let settings = |at: u32| Settings::new([0.0, 0.8, 1.5][at as usize % 3], at % 4 * 5, 0.9).unwrap();
    let fresh = || -> Vec<_> {
        // One of them fails at a step, and is refused at none other; the last has a longer prompt.
        (0..6)
            .map(|at| Generator::new(own(at, if at == 2 { 5 } else { 999 }), vec![at; at as usize], 7, settings(at)))
            .collect()
    };
    let mut alone = fresh();
    let rounds: Vec<Vec<_>> = (0..8).map(|_| alone.iter_mut().map(Generator::step).collect()).collect();
    for reversed in [false, true] {
        let mut together = fresh();
        for (step, expected) in rounds.iter().enumerate() {
            let mut batch: Vec<_> = together.iter_mut().collect();
            if reversed {
                batch.reverse();
            }
            let mut answers = Generator::step_batch(&mut batch);
            if reversed {
                answers.reverse();
            }
            assert_eq!(&answers, expected, "step {step}");
        }
        for (together, alone) in together.iter().zip(&alone) {
            assert_eq!(together.state(), alone.state());
        }
    }
    assert_eq!(rounds[3][2], Err(StepError::Model("model 2 failed".to_owned())));
    assert_eq!(alone[2].state().step(), 3, "it stays where its model fails");
    let refused = |round: &Vec<Result<u32, _>>| round.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(rounds.iter().map(refused).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(Generator::<fn(&[u32]) -> Result<Vec<f32>, String>>::step_batch(&mut []), []);
}

#[test]
fn models_of_different_types_step_together_and_a_refusal_keeps_its_value() {
    type Boxed = Box<dyn FnMut(&[u32]) -> Result<Vec<f32>, String>>;
    let deny = Processors::new(vec![Processor::Deny(vec![77])]).unwrap();
    let run = Run::with_processors(vec![], 1, Settings::default(), deny);
    let mut steady: Generator<Boxed> = Generator::new(Box::new(own(1, 999)), vec![1], 7, Settings::default());
    let mut narrow: Generator<Boxed> = Generator::from_run(Box::new(|_| Ok(vec![0.5; 4])), run);
    let answers = Generator::step_batch(&mut [&mut steady, &mut narrow]);
    assert!(answers[0].is_ok());
    let refused = answers[1].as_ref().unwrap_err();
    assert_eq!((refused.code(), refused.index(), refused.value()), ("processor_token", Some(0), Some(77.0)));
}

#[test]
fn a_refused_row_of_a_generators_own_model_costs_only_itself() {
    let mut generators: Vec<_> = (0..3)
        .map(|at| Generator::new(own(at, if at == 1 { 0 } else { 999 }), vec![9], 7, Settings::default()))
        .collect();
    let mut batch: Vec<_> = generators.iter_mut().collect();
    let answers = Generator::step_batch(&mut batch);
    assert_eq!(answers[1].as_ref().map_err(Refusal::code), Err("logits_nan"));
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert_eq!(generators.iter().map(|it| it.state().step()).collect::<Vec<_>>(), [1, 0, 1]);
}

#[test]
fn parts_that_do_not_fit_are_refused_whole() {
    let one = [Settings::default()];
    assert_eq!(sample_batch::<f32>(&[], 5, &one, &[]), Ok(vec![]));
    assert_eq!(sample_batch::<f32>(&[], 5, &[], &[]), Ok(vec![]));
    assert_eq!(sample_batch(&[0.0f32; 5], 2, &one, &[0.1, 0.2]).unwrap_err().code(), "batch_logits_length");
    assert_eq!(sample_batch(&[0.0f32; 4], 2, &[one[0]; 3], &[0.1, 0.2]).unwrap_err().code(), "batch_settings_length");
    assert_eq!(sample_batch(&[0.0f32; 4], usize::MAX, &one, &[0.1, 0.2]).unwrap_err().code(), "batch_logits_length");
    // No vocabulary at all: each row is empty, and says so.
    assert_eq!(sample_batch::<f32>(&[], 0, &one, &[0.1]).unwrap()[0].unwrap_err().code(), "logits_empty");
}

/// A model that is a function of the context alone, over a vocabulary of this size.
fn row(context: &[u32], vocabulary: u32) -> Vec<f32> {
    let seed = context.iter().fold(3u64, |hash, token| draw(hash ^ u64::from(*token), 1, 9));
    (0..vocabulary).map(|id| (draw(seed, u64::from(id), 9) % 32) as f32 / 4.0).collect()
}

fn model(contexts: &[Vec<u32>]) -> Result<Vec<Vec<f32>>, Infallible> {
    Ok(contexts.iter().map(|context| row(context, 53)).collect())
}

/// Four that differ in everything: greedy, nucleus, top-k on a longer prompt and already under way, hot.
fn four() -> Vec<Run> {
    let settings = [(0.0, 0, 1.0), (1.0, 0, 0.8), (0.7, 5, 0.95), (2.5, 0, 1.0)];
    let mut runs: Vec<Run> = (0u32..)
        .zip(settings)
        .map(|(at, (t, k, p))| Run::new((0..at * 3).collect(), 41 + u64::from(at), Settings::new(t, k, p).unwrap()))
        .collect();
    for _ in 0..4 {
        let logits = row(&runs[2].context(), 53);
        runs[2].step_with(&logits).unwrap();
    }
    runs
}

fn alone(mut run: Run, steps: usize) -> Run {
    for _ in 0..steps {
        let logits = row(&run.context(), 53);
        run.step_with(&logits).unwrap();
    }
    run
}

#[test]
fn every_permutation_of_a_mixed_batch_of_four() {
    let expected: Vec<Run> = four().into_iter().map(|run| alone(run, 6)).collect();
    let mut tried = 0;
    for code in 0..256usize {
        let order: Vec<usize> = (0..4).map(|at| code >> (2 * at) & 3).collect();
        if (0..4).any(|id| !order.contains(&id)) {
            continue;
        }
        let mut runs = four();
        for _ in 0..6 {
            let mut by_id: Vec<Option<&mut Run>> = runs.iter_mut().map(Some).collect();
            let mut batch: Vec<&mut Run> = order.iter().map(|id| by_id[*id].take().unwrap()).collect();
            let tokens = step_batch(&mut batch, model).unwrap();
            for (run, token) in batch.iter().zip(tokens) {
                assert_eq!(run.tokens().last().copied(), token.ok());
            }
        }
        assert_eq!(runs, expected, "{order:?}");
        tried += 1;
    }
    assert_eq!(tried, 24);
}

#[test]
fn random_regroupings_of_64_over_200_steps() {
    let fresh = |id: u64| {
        let settings =
            Settings::new([0.0, 0.5, 1.0, 1.7][id as usize % 4], (id % 7) as u32 * 3, [1.0, 0.9, 0.3][id as usize % 3]);
        Run::new((0..id as u32 % 11).collect(), draw(5, id, 0), settings.unwrap())
    };
    let mut runs: Vec<Run> = (0..64).map(fresh).collect();
    let mut steps = [0usize; 64];
    let mut widest = 0;
    for round in 0..200 {
        // Each run takes part in about two of three rounds, in an order of the round's own: mates come and go.
        let key = |id: usize| draw(99, round * 64 + id as u64, 5);
        let mut order: Vec<usize> = (0..64).filter(|id| !key(*id).is_multiple_of(3)).collect();
        order.sort_by_key(|id| key(*id));
        widest = widest.max(order.len());
        let mut by_id: Vec<Option<&mut Run>> = runs.iter_mut().map(Some).collect();
        let mut batch: Vec<&mut Run> = order.iter().map(|id| by_id[*id].take().unwrap()).collect();
        for token in step_batch(&mut batch, model).unwrap() {
            token.unwrap();
        }
        for id in order {
            steps[id] += 1;
        }
    }
    assert!(widest > 40);
    for (id, run) in runs.into_iter().enumerate() {
        assert!(steps[id] > 100);
        assert_eq!(run, alone(fresh(id as u64), steps[id]), "run {id}");
    }
}

#[test]
fn mates_that_are_refused_stay_and_the_others_do_not_notice() {
    for poison in [vec![f32::NAN; 53], vec![f32::NEG_INFINITY; 53], vec![f32::INFINITY; 53]] {
        let mut runs = four();
        let before = runs[1].clone();
        for _ in 0..3 {
            let mut batch: Vec<&mut Run> = runs.iter_mut().collect();
            let tokens = step_batch(&mut batch, |contexts| {
                let mut rows = model(contexts)?;
                rows[1] = poison.clone();
                Ok::<_, Infallible>(rows)
            })
            .unwrap();
            assert!(tokens[1].is_err());
            assert!([0, 2, 3].iter().all(|at| tokens[*at].is_ok()));
        }
        assert_eq!(runs[1], before);
        for (at, run) in four().into_iter().enumerate().filter(|(at, _)| *at != 1) {
            assert_eq!(runs[at], alone(run, 3));
        }
        // And it continues where it stopped.
        let after = alone(runs[1].clone(), 2);
        assert_eq!(after, alone(before, 2));
    }
}

#[test]
fn a_model_that_fails_or_miscounts_advances_nobody() {
    let mut runs = four();
    let before = runs.clone();
    let mut batch: Vec<&mut Run> = runs.iter_mut().collect();
    let failed = step_batch(&mut batch, |_| Err::<Vec<Vec<f32>>, _>("no memory"));
    assert_eq!(failed, Err(StepBatchError::Model("no memory")));
    let short = step_batch(&mut batch, |contexts| model(&contexts[1..])).unwrap_err();
    assert_eq!((short.code(), short.to_string().as_str()), ("batch_rows", "the model was asked for 4 rows and gave 3"));
    // Too many are as wrong as too few: whose row is whose cannot be told.
    let long = step_batch(&mut batch, |contexts| {
        let mut rows = model(contexts)?;
        rows.push(rows[0].clone());
        Ok::<_, Infallible>(rows)
    });
    assert_eq!(long, Err(StepBatchError::Rows { asked: 4, given: 5 }));
    let narrow = step_batch(&mut batch, |contexts| {
        let mut rows = model(contexts)?;
        rows[2].pop();
        Ok::<_, Infallible>(rows)
    })
    .unwrap_err();
    assert_eq!((narrow.code(), narrow.index()), ("batch_width", Some(2)));
    assert_eq!(runs, before);
}

#[test]
fn the_model_is_asked_once_and_not_at_all_for_nobody() {
    let mut asked = 0;
    let mut runs = four();
    let mut batch: Vec<&mut Run> = runs.iter_mut().collect();
    step_batch(&mut batch, |contexts| {
        asked += 1;
        assert_eq!(contexts.len(), 4);
        model(contexts)
    })
    .unwrap();
    assert_eq!(asked, 1);
    let nobody = step_batch(&mut [], |_| -> Result<Vec<Vec<f32>>, Infallible> { panic!("asked for nobody") });
    assert_eq!(nobody, Ok(vec![]));
}

#[test]
fn a_batch_of_one_and_a_vocabulary_that_changes_only_for_a_resumed_run() {
    let mut run = four().remove(1);
    let expected = alone(run.clone(), 1);
    step_batch(&mut [&mut run], model).unwrap();
    assert_eq!(run, expected);
    let wider = row(&run.context(), 90);
    let tokens = step_batch(&mut [&mut run], |_| Ok::<_, Infallible>(vec![wider.clone()])).unwrap();
    let refused = SampleError::Logits(LogitsError::LengthChanged { expected: 53, found: 90 });
    assert_eq!((tokens, &run), (vec![Err(refused)], &expected));
    // A state does not know the vocabulary: a run that is resumed takes rows of any length, and then of that one.
    let mut resumed = Run::from_state(run.state().clone());
    let mut apart = resumed.clone();
    apart.step_with(&wider).unwrap();
    let tokens = step_batch(&mut [&mut resumed], |_| Ok::<_, Infallible>(vec![wider.clone()])).unwrap();
    assert_eq!((tokens[0].ok(), &resumed), (apart.tokens().last().copied(), &apart));
    let tokens = step_batch(&mut [&mut resumed], model).unwrap();
    assert_eq!(tokens[0].unwrap_err().code(), "logits_length_changed");
}

#[test]
fn mates_that_finish_early_leave_no_trace() {
    let mut runs = four();
    for round in 0..5 {
        let mut batch: Vec<&mut Run> =
            runs.iter_mut().enumerate().filter(|(at, _)| *at + 1 >= round).map(|(_, run)| run).collect();
        step_batch(&mut batch, model).unwrap();
    }
    for (at, run) in four().into_iter().enumerate() {
        assert_eq!(runs[at], alone(run, (at + 2).min(5)));
    }
}
