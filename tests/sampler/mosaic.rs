//! The older contract: its published run, and each of its rules by name.

use proptest::prelude::*;
use quillmate_sampler::comparison::RunPart;
use quillmate_sampler::json::Object;
use quillmate_sampler::mosaic::{ALGORITHM_VERSION, Sampler, SamplingConfig, SelectionStrategy, candidates, select};
use quillmate_sampler::{AnyState, GeneratorState, MosaicState, Refusal, first_divergence_of_traces, read_traces};

fn sample(temperature: f64, top_k: u32, top_p: f64) -> SelectionStrategy {
    SelectionStrategy::Sample(SamplingConfig::try_new(temperature, top_k, top_p).unwrap())
}

fn tokens(strategy: SelectionStrategy, seed: u64, logits: &[f64], count: usize) -> Vec<u32> {
    let mut sampler = Sampler::new(strategy, seed);
    (0..count).map(|_| sampler.next(logits).unwrap().token_id).collect()
}

#[test]
fn greedy_ties_take_the_lowest_id_and_consume_no_draw() {
    let mut sampler = Sampler::new(SelectionStrategy::Greedy, 42);
    let decision = sampler.next(&[1.0, 3.0, 3.0, -0.0]).unwrap();
    assert_eq!((decision.token_id, decision.candidate_count), (1, 4));
    assert_eq!((decision.selected_probability, decision.random_draw, decision.draw_index), (None, None, None));
    assert_eq!(decision.algorithm_version, "mosaic-splitmix64-top-k-top-p-v1");
    assert_eq!(sampler.draws(), 0);
}

/// The published code takes the greatest by `f64::total_cmp`, then the lower id.
#[test]
fn greedy_goes_by_the_total_order_in_which_minus_zero_is_below_zero() {
    let mut sampler = Sampler::new(SelectionStrategy::Greedy, 42);
    for (logits, token) in [(&[-0.0, 0.0][..], 1), (&[0.0, -0.0], 0), (&[-1.0, -0.0, 0.0, -0.0], 2), (&[-0.0, -0.0], 0)]
    {
        assert_eq!(sampler.next(logits).unwrap().token_id, token, "{logits:?}");
        let mut run = MosaicState::new(vec![7], 42, SelectionStrategy::Greedy);
        run.step_with(logits).unwrap();
        assert_eq!(run.tokens, [token], "{logits:?}");
    }
}

#[test]
fn same_seed_and_settings_replay_the_same_decisions() {
    let logits = [0.0, 1.0, 2.0, 3.0];
    let mut first = Sampler::new(sample(0.8, 3, 0.9), 42);
    let decisions: Vec<_> = (0..8).map(|_| first.next(&logits).unwrap()).collect();
    assert_eq!(decisions.iter().map(|d| d.token_id).collect::<Vec<_>>(), [3, 3, 3, 3, 3, 2, 3, 2]);
    for (at, decision) in (0u64..).zip(&decisions) {
        assert_eq!(decision.draw_index, Some(at));
        assert_eq!(select(&logits, &sample(0.8, 3, 0.9), 42, at).as_ref(), Ok(decision));
    }
    // Resumed after five draws it continues with the sixth.
    let mut resumed = Sampler::resume(sample(0.8, 3, 0.9), 42, 5);
    assert_eq!(resumed.next(&logits).unwrap(), decisions[5]);
}

#[test]
fn top_k_one_is_the_maximum() {
    let logits = [0.3, -1.0, 7.5, 7.5, 2.0];
    assert_eq!(tokens(sample(1.3, 1, 1.0), 9, &logits, 20), [2; 20]);
}

#[test]
fn top_p_can_leave_one_and_renormalizes() {
    let logits = [4.0, 3.0, 0.0];
    let strategy = sample(1.0, 3, 0.6);
    let decision = select(&logits, &strategy, 1, 0).unwrap();
    assert_eq!((decision.token_id, decision.candidate_count, decision.selected_probability), (0, 1, Some(1.0)));
}

#[test]
fn several_seeds_reach_both_of_two_equal_candidates() {
    let reached: Vec<u32> = (0..20).map(|seed| tokens(sample(1.0, 2, 1.0), seed, &[1.0, 1.0], 1)[0]).collect();
    assert!(reached.contains(&0) && reached.contains(&1));
}

#[test]
fn invalid_temperature_k_and_p_fail_at_construction() {
    for temperature in [0.0, -0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(SamplingConfig::try_new(temperature, 1, 1.0).unwrap_err().code(), "temperature_out_of_range");
    }
    assert_eq!(SamplingConfig::try_new(1.0, 0, 1.0).unwrap_err().code(), "top_k_out_of_range");
    for top_p in [0.0, -0.1, 1.0f64.next_up(), f64::NAN, f64::INFINITY] {
        assert_eq!(SamplingConfig::try_new(1.0, 1, top_p).unwrap_err().code(), "top_p_out_of_range");
    }
}

#[test]
fn empty_nan_and_oversized_k_fail_without_a_draw() {
    let mut sampler = Sampler::new(sample(1e-300, 3, 0.9), 42);
    let refused = |sampler: &mut Sampler, logits: &[f64]| {
        let error = sampler.next(logits).unwrap_err();
        (error.code(), error.index())
    };
    assert_eq!(refused(&mut sampler, &[]), ("logits_empty", None));
    assert_eq!(refused(&mut sampler, &[0.0, f64::NAN, 0.0]), ("logits_not_finite", Some(1)));
    assert_eq!(refused(&mut sampler, &[0.0, 0.0, f64::NEG_INFINITY]), ("logits_not_finite", Some(2)));
    assert_eq!(refused(&mut sampler, &[0.0, 1.0]), ("top_k_above_vocabulary", None));
    assert_eq!(refused(&mut sampler, &[0.0, 0.0, 1e10]), ("scaled_not_finite", Some(2)));
    assert_eq!(sampler.draws(), 0);
    let mut greedy = Sampler::new(SelectionStrategy::Greedy, 42);
    assert_eq!(refused(&mut greedy, &[f64::INFINITY]), ("logits_not_finite", Some(0)));
}

/// The published run as stored after this many tokens.
fn published(cut: usize) -> String {
    let tokens = &[3, 3, 3, 3, 3, 2, 3, 2][..cut];
    format!(
        r#"{{"contract":"mosaic-splitmix64-top-k-top-p-v1","format":1,"seed":"42","draws":{cut},"prompt":[1,2],"tokens":{},"strategy":{{"kind":"sample","temperature":0.8,"top_k":3,"top_p":0.9}}}}"#,
        serde_json::to_string(tokens).unwrap()
    )
}

#[test]
fn the_published_run_resumes_from_its_stored_state_at_every_cut() {
    for cut in 0..=8 {
        let stored = published(cut);
        let AnyState::Mosaic(mut run) = AnyState::from_json(&stored).unwrap() else { panic!("another contract") };
        assert_eq!(run.to_json(), stored);
        for at in cut..8 {
            let decision = run.step_with(&[0.0, 1.0, 2.0, 3.0]).unwrap();
            assert_eq!(decision.draw_index, Some(at as u64));
        }
        assert_eq!(run.tokens, [3, 3, 3, 3, 3, 2, 3, 2], "cut at {cut}");
        assert_eq!(run.to_json(), published(8));
        // A refused row costs nothing.
        let before = run.clone();
        assert_eq!(run.step_with(&[0.0, f64::NAN]).unwrap_err().code(), "logits_not_finite");
        assert_eq!(run, before);
    }
}

const SOFTMAX: [(u32, f64); 3] = [(3, 0.7306791292026887), (2, 0.20934307548219694), (1, 0.05997779531511428)];
const TOP_P: [(u32, f64); 2] = [(3, 0.7772998611746912), (2, 0.22270013882530887)];

/// The published run, traced at every step: stages of its own, and what they leave worked out by another program from the
/// published definition (`python3`: exp((l - 3) / 0.8) over the three best, then the nucleus of 0.9).
#[test]
fn the_published_run_is_traced_in_stages_of_its_own() {
    let AnyState::Mosaic(mut run) = AnyState::from_json(&published(0)).unwrap() else { panic!("another contract") };
    let logits = [0.0, 1.0, 2.0, 3.0];
    for step in 0..8 {
        let (before, trace) = (run.clone(), run.trace(&logits).unwrap());
        assert_eq!(run, before, "asking emits nothing");
        let decision = run.step_with(&logits).unwrap();
        assert_eq!((trace.contract, trace.step), (ALGORITHM_VERSION, step));
        assert_eq!((trace.token, trace.draw), (Some(decision.token_id), decision.random_draw));
        assert_eq!(trace.probability, decision.selected_probability);
        let stages: Vec<_> = trace.stages.iter().map(|it| (&*it.stage, it.candidates, it.removed)).collect();
        let expected = [("logits", 4, 0), ("scaled_logits", 4, 0), ("top_k", 3, 1), ("softmax", 3, 0), ("top_p", 2, 1)];
        assert_eq!(stages, expected);
        let top = |stage: usize| -> Vec<_> {
            trace.stages[stage].top.iter().map(|it| (it.id.unwrap(), it.logit.or(it.probability).unwrap())).collect()
        };
        assert_eq!(top(0), [(3, 3.0), (2, 2.0), (1, 1.0), (0, 0.0)]);
        assert_eq!(top(1), [(3, 3.75), (2, 2.5), (1, 1.25), (0, 0.0)]);
        assert_eq!(top(2), [(3, 3.75), (2, 2.5), (1, 1.25)]);
        assert_eq!(top(3), SOFTMAX);
        assert_eq!(top(4), TOP_P);
        // Redacted: names and counts.
        let redacted = trace.redacted();
        assert_eq!((redacted.token, redacted.probability, redacted.draw), (None, None, None));
        assert_eq!(redacted.logits_sha256, None);
        assert!(redacted.stages.iter().all(|stage| stage.top.is_empty() && stage.draw.is_none()));
        assert_eq!(redacted.stages.iter().map(|it| it.candidates).collect::<Vec<_>>(), [4, 4, 3, 3, 2]);
    }
    assert_eq!(run.tokens, [3, 3, 3, 3, 3, 2, 3, 2]);
}

#[test]
fn a_greedy_run_has_a_trace_without_draw_and_a_refused_row_has_none() {
    let run = MosaicState::new(vec![7], 42, SelectionStrategy::Greedy);
    let trace = run.trace(&[0.5f32, 2.0, 2.0]).unwrap();
    let stages: Vec<_> = trace.stages.iter().map(|it| (&*it.stage, it.candidates, it.removed)).collect();
    assert_eq!(stages, [("logits", 3, 0), ("greedy", 1, 2)]);
    assert_eq!((trace.token, trace.draw, trace.probability), (Some(1), None, None));
    assert_eq!(run.trace(&[0.0, f64::NAN]).unwrap_err().code(), "logits_not_finite");
    let sampled = MosaicState::new(vec![7], 42, sample(1e-300, 3, 0.9));
    assert_eq!(sampled.trace::<f64>(&[]).unwrap_err().code(), "logits_empty");
    assert_eq!(sampled.trace(&[0.0, 1.0]).unwrap_err().code(), "top_k_above_vocabulary");
    assert_eq!(sampled.trace(&[0.0, 0.0, 1e10]).unwrap_err().code(), "scaled_not_finite");
}

#[test]
fn traces_of_the_older_contract_are_read_back_and_compared() {
    let traces = |seed| {
        let mut run = MosaicState::new(vec![1, 2], seed, sample(0.8, 3, 0.9));
        let mut traces = Vec::new();
        for _ in 0..8 {
            traces.push(run.trace(&[0.0, 1.0, 2.0, 3.0]).unwrap());
            run.step_with(&[0.0, 1.0, 2.0, 3.0]).unwrap();
        }
        traces
    };
    let file = serde_json::json!({ "traces": traces(42) }).to_string();
    let read = read_traces(Object::parse(&file).unwrap()).unwrap();
    assert_eq!(read, traces(42));
    assert_eq!(first_divergence_of_traces(&traces(42), &read, false).first, None);
    let found = first_divergence_of_traces(&traces(42), &traces(43), false).first.unwrap();
    assert_eq!((found.what, found.step, found.at.as_str()), (RunPart::Draw, Some(0), "value"));
}

#[test]
fn a_greedy_run_is_stored_without_draws() {
    let mut run = MosaicState::new(vec![7], 42, SelectionStrategy::Greedy);
    run.step_with(&[0.0f32, 2.0, 2.0]).unwrap();
    let stored = run.to_json();
    assert!(stored.contains(r#""draws":0,"prompt":[7],"tokens":[1],"strategy":{"kind":"greedy"}"#), "{stored}");
    assert_eq!(AnyState::from_json(&stored).unwrap(), AnyState::Mosaic(run));
}

#[test]
fn states_of_both_contracts_load_through_one_door_and_an_unknown_name_is_refused() {
    let quillmate = r#"{"contract":"quillmate-v1","format":1,"seed":"42","step":1,"prompt":[1],"tokens":[7],"settings":{"temperature":0.8,"top_k":50,"top_p":0.95}}"#;
    let loaded = AnyState::from_json(quillmate).unwrap();
    assert_eq!(loaded, AnyState::Quillmate(GeneratorState::from_json(quillmate).unwrap()));
    assert_eq!((loaded.contract(), loaded.to_json()), ("quillmate-v1", quillmate.to_owned()));
    let mosaic = published(3);
    assert_eq!(AnyState::from_json(&mosaic).unwrap().contract(), ALGORITHM_VERSION);
    // Neither is taken for the other.
    assert_eq!(GeneratorState::from_json(&mosaic).unwrap_err().code(), "contract_unknown");

    let refused = |from: &str, to: &str| {
        assert!(mosaic.contains(from), "{from}");
        AnyState::from_json(&mosaic.replacen(from, to, 1)).unwrap_err().code()
    };
    for name in ["mosaic-splitmix64-top-k-top-p-v2", "Mosaic-splitmix64-top-k-top-p-v1", "quillmate-v2", ""] {
        assert_eq!(refused("mosaic-splitmix64-top-k-top-p-v1", name), "contract_unknown", "{name}");
        let message = AnyState::from_json(&mosaic.replacen(ALGORITHM_VERSION, name, 1)).unwrap_err().to_string();
        assert!(message.contains("\"quillmate-v1\" and \"mosaic-splitmix64-top-k-top-p-v1\""), "{message}");
    }
    assert_eq!(refused(r#""contract":"mosaic-splitmix64-top-k-top-p-v1","#, ""), "field_missing");
    assert_eq!(refused(r#""format""#, r#""contract":"quillmate-v1","format""#), "field_repeated");
    assert_eq!(refused(r#""format":1"#, r#""format":2"#), "format_unknown");
    assert_eq!(refused(r#""seed":"42""#, r#""seed":42"#), "seed_not_string");
    assert_eq!(refused(r#""draws":3"#, r#""draws":2"#), "draws_mismatch");
    assert_eq!(refused(r#""draws":3"#, r#""draws":-1"#), "field_type");
    assert_eq!(refused(r#""tokens":[3,"#, r#""tokens":["#), "draws_mismatch");
    assert_eq!(refused(r#""temperature":0.8"#, r#""temperature":0"#), "temperature_out_of_range");
    assert_eq!(refused(r#""top_k":3"#, r#""top_k":0"#), "top_k_out_of_range");
    assert_eq!(refused(r#""top_p":0.9"#, r#""top_p":0"#), "top_p_out_of_range");
    assert_eq!(refused(r#""kind":"sample""#, r#""kind":"greedy""#), "field_unknown");
    assert_eq!(refused(r#""kind":"sample""#, r#""kind":"beam""#), "field_type");
    assert_eq!(refused(r#""prompt""#, r#""step":3,"prompt""#), "field_unknown");
}

#[test]
fn the_example_prints_the_published_run() {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["run", "-q", "--release", "--example", "sampling_replay"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let replay: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(replay["algorithm_version"], ALGORITHM_VERSION);
    assert_eq!(replay["seed"], 42);
    assert_eq!(replay["draws"].as_array().unwrap().len(), 8);
    assert_eq!(replay["draws"][0], 0.7415648787718233);
    assert_eq!(replay["tokens"], serde_json::json!([3, 3, 3, 3, 3, 2, 3, 2]));
    assert!(replay["scope"].as_str().unwrap().contains("Not claimed"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn probabilities_are_finite_and_sum_to_one(
        logits in prop::collection::vec(prop_oneof![-30.0..30.0f64, (-3i8..3).prop_map(f64::from)], 1..300),
        temperature in 0.05..4.0f64, k in 0.0..1.0f64, top_p in 1e-9..=1.0f64, seed in any::<u64>()
    ) {
        let top_k = 1 + (k * (logits.len() - 1) as f64) as u32;
        let config = SamplingConfig::try_new(temperature, top_k, top_p).unwrap();
        let kept = candidates(&logits, &config).unwrap();
        prop_assert!(kept.ids.len() <= top_k as usize && !kept.ids.is_empty());
        let mut sum = 0.0;
        for p in &kept.probabilities {
            prop_assert!(p.is_finite() && *p >= 0.0);
            sum += p;
        }
        prop_assert!((sum - 1.0).abs() <= f64::from_bits(0x3d20_0000_0000_0000), "{}", sum);
        // In order of falling logit, lower id first among equals; and no token beyond the candidates appears.
        for pair in kept.ids.windows(2) {
            let (a, b) = (logits[pair[0] as usize], logits[pair[1] as usize]);
            prop_assert!(a > b || (a == b && pair[0] < pair[1]) || a / temperature == b / temperature);
        }
        let decision = select(&logits, &SelectionStrategy::Sample(config), seed, 0).unwrap();
        prop_assert!(kept.ids.contains(&decision.token_id));
    }

    /// A run's decisions do not notice what is decided between them.
    #[test]
    fn a_run_replays_whatever_is_scheduled_beside_it(seeds in prop::collection::vec(any::<u64>(), 2..6), order in prop::collection::vec(0usize..6, 0..60)) {
        let row = |turn: u64| [0.5 * turn as f64, 1.0, 2.0, (turn % 3) as f64];
        let strategy = sample(0.9, 4, 0.95);
        let mut samplers: Vec<(Sampler, Vec<u32>)> = seeds.iter().map(|seed| (Sampler::new(strategy, *seed), vec![])).collect();
        let count = samplers.len();
        for at in order {
            let (sampler, emitted) = &mut samplers[at % count];
            emitted.push(sampler.next(&row(sampler.draws())).unwrap().token_id);
        }
        for (seed, (_, emitted)) in seeds.iter().zip(samplers) {
            let mut alone = Sampler::new(strategy, *seed);
            for (drawn, token) in (0..).zip(emitted) {
                prop_assert_eq!(alone.draws(), drawn);
                prop_assert_eq!(alone.next(&row(drawn)).unwrap().token_id, token);
            }
        }
    }
}

/// Greedy tells −0 from 0, so the digest of its row does as well. The numbers that are named are the same in every
/// language's JSON, which for −0 they are not.
#[test]
fn a_greedy_trace_tells_minus_zero_by_its_digest_and_names_it_as_zero() {
    let run = MosaicState::new(vec![7], 42, SelectionStrategy::Greedy);
    let zeros = |at: usize| {
        let mut row = vec![-0.0; 7];
        row[at] = 0.0;
        vec![run.trace(&row).unwrap()]
    };
    // The zero is among those that are named, or not.
    for (one, other) in [(6, 5), (0, 1), (1, 6)] {
        let [first, second] = [zeros(one), zeros(other)];
        assert_eq!((first[0].token, second[0].token), (Some(one as u32), Some(other as u32)));
        let comparison = first_divergence_of_traces(&first, &second, false);
        let found = comparison.first.unwrap();
        assert_eq!((found.what, found.at.as_str()), (RunPart::Logits, "digest"), "{}", comparison.paragraph);
        assert!(comparison.paragraph.contains("the sign of a zero"), "{}", comparison.paragraph);
        let text = serde_json::to_string(&first).unwrap();
        assert!(!text.contains("-0"), "{text}");
    }
    // No other decision tells them apart, and its digest does not.
    let sampled = MosaicState::new(vec![7], 42, sample(0.8, 2, 1.0));
    let traces = [[-0.0, 0.0], [0.0, -0.0]].map(|row: [f64; 2]| sampled.trace(&row).unwrap());
    assert_eq!(traces[0], traces[1]);
    let text = serde_json::to_string(&traces).unwrap();
    assert!(!text.contains("-0"), "{text}");
}

#[test]
fn a_state_that_is_not_loaded_names_the_processor_at_fault() {
    let processor = r#"{"name": "min_p", "version": 1, "p": 0.1}"#;
    let text = format!(
        r#"{{"contract": "quillmate-v1", "format": 1, "seed": "1", "step": 0, "prompt": [], "tokens": [], "settings":
        {{"temperature": 1, "top_k": 0, "top_p": 1, "processors": [{processor}, {processor}]}}}}"#
    );
    let error = AnyState::from_json(&text).unwrap_err();
    assert_eq!((error.code(), error.index()), ("processor_repeated", Some(1)));
}
