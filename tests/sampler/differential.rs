//! The crate against the plain reference: kept ids, probability bits and tokens, on rows built to tie.

use crate::{reference, share};
use proptest::prelude::*;
use quillmate_sampler::{Settings, distribution, sample_token, uniform};

/// Logits from a few values (so that most tie), wide ones, both zeros, and banned ones.
fn logit() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-4i8..5).prop_map(|n| f64::from(n) / 2.0),
        3 => -30.0..30.0f64,
        1 => Just(-0.0),
        1 => Just(f64::NEG_INFINITY),
        1 => -1e308..1e308f64,
        1 => (-40i8..40).prop_map(|n| f64::from(n) * 1e-17),
    ]
}

fn row() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![
        prop::collection::vec(logit(), 1..40),
        // Above the size of the pool of the k best, and of a block of the nucleus.
        prop::collection::vec(logit(), 2000..3000),
        (1usize..3000, -5.0..5.0f64).prop_map(|(length, value)| vec![value; length]),
    ]
    .prop_filter("at least one is allowed", |row| row.iter().any(|logit| *logit != f64::NEG_INFINITY))
}

fn temperature() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(-0.0), Just(1.0), 0.05..3.0f64, Just(5e-324), Just(1e-3), Just(1e300)]
}

fn top_k() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), 2u32..60, 60u32..3000, Just(u32::MAX)]
}

fn top_p() -> impl Strategy<Value = f64> {
    prop_oneof![Just(1.0), Just(0.0), Just(0.5), Just(0.9), 0.0..1.0f64, Just(1.0 - f64::EPSILON / 2.0), Just(5e-324)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000 / share::one_in() as u32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kept_probabilities_and_tokens_are_the_references(
        row in row(), temperature in temperature(), top_k in top_k(), top_p in top_p(), draws in prop::collection::vec(0.0..1.0f64, 4)
    ) {
        let (ids, probabilities) = reference::distribution(&row, temperature, top_k, top_p);
        let settings = Settings::new(temperature, top_k, top_p).unwrap();
        let kept = distribution(&row, &settings).unwrap();
        prop_assert_eq!(kept.ids(), &ids);
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(kept.probabilities()), bits(&probabilities));
        // Random draws, and each side of some boundaries of the walk.
        let mut draws = draws;
        let mut running = 0.0f64;
        for q in probabilities.iter().take(20) {
            running += q;
            draws.extend([running.next_down(), running, running.next_up()]);
        }
        draws.extend([0.0, 1.0f64.next_down()]);
        for u in draws.into_iter().filter(|u| (0.0..1.0).contains(u)) {
            let expected = reference::walk(&ids, &probabilities, u);
            prop_assert_eq!(sample_token(&row, temperature, top_k, top_p, u), Ok(expected), "u = {}", u);
        }
    }

    #[test]
    fn a_banned_token_never_appears(
        row in row(), temperature in temperature(), top_k in top_k(), top_p in top_p(), seed in any::<u64>()
    ) {
        for step in 0..20 {
            let token = sample_token(&row, temperature, top_k, top_p, uniform(seed, step, 0)).unwrap();
            prop_assert!(row[token as usize] != f64::NEG_INFINITY, "token {}", token);
        }
    }

    #[test]
    fn f32_rows_give_the_token_of_the_same_numbers_as_f64(
        row in prop::collection::vec(-20.0..20.0f32, 1..300), temperature in temperature(), top_k in top_k(), top_p in top_p(), u in 0.0..1.0f64
    ) {
        let wide: Vec<f64> = row.iter().map(|logit| f64::from(*logit)).collect();
        prop_assert_eq!(
            sample_token(&row, temperature, top_k, top_p, u),
            sample_token(&wide, temperature, top_k, top_p, u)
        );
    }
}
