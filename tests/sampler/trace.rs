//! Decisions and traces: their content, and that computing them changes nothing.

use proptest::prelude::*;
use quillmate_sampler::comparison::{Lacking, Missing, Outcome, RunPart};
use quillmate_sampler::json::Object;
use quillmate_sampler::{
    Filter, Penalty, Processor, Processors, Run, Settings, Trace, Window, Xtc, distribution, draw,
    first_divergence_of_traces, ln, read_traces, uniform,
};
use serde_json::json;

fn filter(value: f64) -> Filter {
    Filter { value, min_keep: 1 }
}

#[test]
fn a_trace_tells_each_stage() {
    let logits = [0.05f64, 0.5, 0.15, 0.3].map(ln);
    let processors = Processors::new(vec![Processor::Deny(vec![2])]).unwrap();
    let run = Run::with_processors(vec![7], 42, Settings::new(1.0, 2, 0.5).unwrap(), processors);
    let trace = run.trace(&logits).unwrap();
    let stages: Vec<_> = trace.stages.iter().map(|it| (&*it.stage, it.candidates, it.removed)).collect();
    assert_eq!(stages, [("logits", 4, 0), ("deny", 3, 1), ("top_k", 2, 1), ("temperature", 2, 0), ("top_p", 1, 1)]);
    let best: Vec<_> = trace.stages[0].top.iter().map(|it| (it.id, it.logit)).collect();
    assert_eq!(best, [1, 3, 2, 0].map(|id| (Some(id), Some(logits[id as usize]))));
    let after_softmax: Vec<_> = trace.stages[3].top.iter().map(|it| it.probability.unwrap()).collect();
    assert!((after_softmax[0] - 0.625).abs() < 1e-12 && (after_softmax[1] - 0.375).abs() < 1e-12);
    assert_eq!((trace.token, trace.probability, trace.draw), (Some(1), Some(1.0), Some(uniform(42, 0, 0))));
    assert_eq!((trace.contract, trace.step), ("quillmate-v1", 0));
}

#[test]
fn a_decision_has_all_six_fields_for_both_contracts() {
    let run = Run::new(vec![], 42, Settings::new(0.8, 3, 0.9).unwrap());
    assert_eq!(
        serde_json::to_value(run.decision(&[0.0, 1.0, 2.0, 3.0]).unwrap()).unwrap(),
        json!({
            "token_id": 3, "candidate_count": 2, "selected_probability": 0.7772998611746912,
            "random_draw": 0.7415648787718233, "draw_index": 0, "algorithm_version": "quillmate-v1"
        })
    );
    let greedy = Run::new(vec![], 42, Settings::new(0.0, 0, 1.0).unwrap());
    assert_eq!(
        serde_json::to_value(greedy.decision(&[0.0, f64::NEG_INFINITY, 2.0]).unwrap()).unwrap(),
        json!({
            "token_id": 2, "candidate_count": 2, "selected_probability": null,
            "random_draw": null, "draw_index": null, "algorithm_version": "quillmate-v1"
        })
    );
    use quillmate_sampler::mosaic::{Sampler, SamplingConfig, SelectionStrategy};
    let strategy = SelectionStrategy::Sample(SamplingConfig::try_new(0.8, 3, 0.9).unwrap());
    assert_eq!(
        serde_json::to_value(Sampler::new(strategy, 42).next(&[0.0, 1.0, 2.0, 3.0]).unwrap()).unwrap(),
        json!({
            "token_id": 3, "candidate_count": 2, "selected_probability": 0.7772998611746912,
            "random_draw": 0.7415648787718233, "draw_index": 0,
            "algorithm_version": "mosaic-splitmix64-top-k-top-p-v1"
        })
    );
}

#[test]
fn a_redacted_trace_holds_no_id_no_number_of_the_model_and_no_draw() {
    let run = |list: Vec<Processor>| {
        Run::with_processors(vec![3], 9, Settings::new(1.0, 2, 0.5).unwrap(), Processors::new(list).unwrap())
    };
    let row = [0.5f32, 0.25, 0.125];
    let redacted = |run: &Run| serde_json::to_value(run.trace(&row).unwrap().redacted()).unwrap();
    assert_eq!(
        redacted(&run(vec![Processor::Deny(vec![2])])),
        json!({
            "contract": "quillmate-v1", "step": 0, "draw": null, "token": null, "probability": null,
            "stages": [
                {"stage": "logits", "candidates": 3, "removed": 0, "top": []},
                {"stage": "deny", "candidates": 2, "removed": 1, "top": []},
                {"stage": "top_k", "candidates": 2, "removed": 0, "top": []},
                {"stage": "temperature", "candidates": 2, "removed": 0, "top": []},
                {"stage": "top_p", "candidates": 1, "removed": 1, "top": []},
            ]
        })
    );
    // What XTC and all after it left tells whether its draw was below its probability: a redacted trace ends before.
    let xtc = Processor::Xtc(Xtc { probability: 0.5, threshold: 0.1, exempt: vec![] });
    assert_eq!(
        redacted(&run(vec![Processor::Deny(vec![2]), xtc.clone()])),
        json!({
            "contract": "quillmate-v1", "step": 0, "draw": null, "token": null, "probability": null,
            "stages": [
                {"stage": "logits", "candidates": 3, "removed": 0, "top": []},
                {"stage": "deny", "candidates": 2, "removed": 1, "top": []},
            ]
        })
    );
    // Runs that differ in their seed alone leave the same redacted trace of a step, whatever they drew.
    let traces = |list: &[Processor]| {
        let of = |seed| {
            let settings = Settings::new(1.0, 2, 0.9).unwrap();
            let run = Run::with_processors(vec![3], seed, settings, Processors::new(list.to_vec()).unwrap());
            run.trace(&row).unwrap()
        };
        (0..64).map(of).collect::<Vec<_>>()
    };
    for list in [&[][..], &[xtc]] {
        let (whole, redacted): (Vec<_>, Vec<_>) =
            traces(list).into_iter().map(|trace| (trace.clone(), trace.redacted())).unzip();
        assert!(whole.iter().any(|trace| trace.token != whole[0].token));
        assert!(redacted.iter().all(|trace| *trace == redacted[0]));
    }
}

#[test]
fn redacted_traces_of_before_still_read_with_their_draws() {
    let old = json!({"traces": [{
        "contract": "quillmate-v1", "step": 0, "draw": uniform(9, 0, 0), "token": null, "probability": null,
        "stages": [
            {"stage": "logits", "candidates": 3, "removed": 0, "top": []},
            {"stage": "xtc", "candidates": 1, "removed": 2, "top": [], "draw": uniform(9, 0, 4)},
            {"stage": "top_k", "candidates": 1, "removed": 0, "top": []},
            {"stage": "temperature", "candidates": 1, "removed": 0, "top": []},
            {"stage": "top_p", "candidates": 1, "removed": 0, "top": []},
        ]
    }]});
    let read = |file: &serde_json::Value| read_traces(Object::parse(&file.to_string()).unwrap()).unwrap();
    assert_eq!(json!({ "traces": read(&old) }), old);
    let mut other = old.clone();
    other["traces"][0]["stages"][1]["draw"] = 0.25.into();
    let found = first_divergence_of_traces(&read(&old), &read(&other), false).first.unwrap();
    assert_eq!((found.what, found.at.as_str()), (RunPart::Draw, "xtc"));
    // Redacted once more they lose them.
    let text = json!(read(&old).remove(0).redacted()).to_string();
    assert!(!text.contains(&uniform(9, 0, 0).to_string()) && !text.contains(&uniform(9, 0, 4).to_string()), "{text}");
}

#[test]
fn a_trace_names_its_row_by_a_digest_of_all_its_numbers() {
    let run = Run::new(vec![], 1, Settings::default());
    let digest = |row: &[f64]| run.trace(row).unwrap().logits_sha256.unwrap();
    // By sha256sum of 0.5, 0 and -inf as little-endian binary64.
    let known = "e7bd85f082e937ba8fc63c20912e7bcc9f013acaf75d493bdccbb21dc38589fa";
    assert_eq!(digest(&[0.5, 0.0, f64::NEG_INFINITY]), known);
    assert_eq!(digest(&[0.5, -0.0, f64::NEG_INFINITY]), known);
    assert_eq!(run.trace(&[0.5f32, 0.0, f32::NEG_INFINITY]).unwrap().logits_sha256.unwrap(), known);
    assert_ne!(digest(&[0.5, 0.0, f64::MIN]), known);
}

/// −0 is no other number than 0, and JSON does not keep it in every language.
#[test]
fn no_stage_names_minus_zero() {
    let processors = Processors::new(vec![Processor::Deny(vec![2])]).unwrap();
    let run = Run::with_processors(vec![7], 42, Settings::default(), processors);
    let text = |row: &[f64]| serde_json::to_string(&run.trace(row).unwrap()).unwrap();
    assert_eq!(text(&[-0.0, -1.0, 0.5]), text(&[0.0, -1.0, 0.5]));
}

/// Two logits so close that their probabilities are equal: the older contract hands its stages on by logit, and a stage
/// names its tokens by its own numbers, then by id.
#[test]
fn among_equal_probabilities_a_stage_names_the_lower_id_first() {
    use quillmate_sampler::MosaicState;
    use quillmate_sampler::mosaic::{SamplingConfig, SelectionStrategy};
    let strategy = SelectionStrategy::Sample(SamplingConfig::try_new(1.0, 2, 1.0).unwrap());
    let trace = MosaicState::new(vec![7], 42, strategy).trace(&[0.0, 1e-20]).unwrap();
    let stages: Vec<_> = trace.stages.iter().map(|it| (&*it.stage, it.top[0].id, it.top[1].id)).collect();
    let (low, high) = (Some(0), Some(1));
    let expected = [
        ("logits", high, low),
        ("scaled_logits", high, low),
        ("top_k", high, low),
        ("softmax", low, high),
        ("top_p", low, high),
    ];
    assert_eq!(stages, expected);
}

#[test]
fn a_refused_row_has_no_trace() {
    let run = Run::new(vec![], 1, Settings::default());
    for (row, code) in [(vec![], "logits_empty"), (vec![1.0, f64::NAN], "logits_nan")] {
        use quillmate_sampler::Refusal;
        assert_eq!(run.trace(&row).unwrap_err().code(), code);
        assert_eq!(run.decision(&row).unwrap_err().code(), code);
    }
}

// ---- Two lists of traces --------------------------------------------------------------------------------------------

/// Six steps of a run with a penalty and XTC, traced.
fn traces(seed: u64, penalty: f64, change: impl Fn(usize, &mut Vec<f32>)) -> Vec<Trace> {
    let list = vec![
        Processor::RepetitionPenalty(Penalty { penalty, window: Window::default(), exempt: vec![] }),
        Processor::Xtc(Xtc { probability: 0.5, threshold: 0.02, exempt: vec![] }),
    ];
    let settings = Settings::new(0.9, 40, 0.95).unwrap();
    let mut run = Run::with_processors(vec![3, 5], seed, settings, Processors::new(list).unwrap());
    let mut traces = Vec::new();
    for step in 0..6 {
        let mut logits = row(&[step as u32]);
        change(step, &mut logits);
        traces.push(run.trace(&logits).unwrap());
        run.step_with(&logits).unwrap();
    }
    traces
}

fn plain(seed: u64) -> Vec<Trace> {
    traces(seed, 1.2, |_, _| ())
}

#[test]
fn traces_of_the_same_run_do_not_differ_and_that_is_not_enough_to_call_it_the_same() {
    let file = json!({ "traces": plain(7) }).to_string();
    let read = read_traces(Object::parse(&file).unwrap()).unwrap();
    assert_eq!(read, plain(7));
    let comparison = first_divergence_of_traces(&plain(7), &read, true);
    assert_eq!((comparison.outcome, comparison.steps), (Outcome::Insufficient, 6), "{}", comparison.paragraph);
    // Input ids, settings and stop are in no trace; of the candidates it names five; the logits it has by their digest.
    let lacks = |what, step| Missing { what, record: Lacking::Both, step };
    let expected = [
        lacks(RunPart::InputIds, None),
        lacks(RunPart::Settings, None),
        lacks(RunPart::Candidates, Some(0)),
        lacks(RunPart::Stop, None),
    ];
    assert_eq!(comparison.missing, expected);
    let paragraph = &comparison.paragraph;
    assert!(paragraph.starts_with("No difference was found in 6 steps, but there is not enough"), "{paragraph}");
    assert!(paragraph.contains("Compared were, of each step that both have"), "{paragraph}");
    assert!(
        paragraph.contains("Missing: input ids in both lists of traces; settings and processors in both"),
        "{paragraph}"
    );
    for never in ["the same stop", "equal input ids", "The runs are the same"] {
        assert!(!paragraph.contains(never), "{paragraph}");
    }
}

/// A logit below the five likeliest, moved by the least there is. It changes no stage's best and no token.
#[test]
fn a_logit_below_the_best_five_differs_by_the_digest_and_is_missing_without_one() {
    let least = |step: usize, logits: &mut Vec<f32>| {
        if step == 3 {
            let lowest = (0..200).min_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
            logits[lowest] = logits[lowest].next_down();
        }
    };
    let other = traces(7, 1.2, least);
    let tokens = |traces: &[Trace]| traces.iter().map(|trace| trace.token).collect::<Vec<_>>();
    assert_eq!(tokens(&plain(7)), tokens(&other));
    let comparison = first_divergence_of_traces(&plain(7), &other, true);
    let found = comparison.first.as_ref().unwrap();
    assert_eq!(
        (found.what, found.step, found.at.as_str()),
        (RunPart::Logits, Some(3), "digest"),
        "{}",
        comparison.paragraph
    );
    let [one, two] = found.digests.clone().unwrap();
    assert!(one != two && comparison.paragraph.contains(&two), "{}", comparison.paragraph);
    // Traces made before rows had digests: what is below the best five is not in the evidence.
    let old = |mut traces: Vec<Trace>| {
        traces.iter_mut().for_each(|trace| trace.logits_sha256 = None);
        traces
    };
    for (one, two, record) in [
        (old(plain(7)), old(other.clone()), Lacking::Both),
        (old(plain(7)), other.clone(), Lacking::First),
        (old(plain(7)), old(plain(7)), Lacking::Both),
    ] {
        let comparison = first_divergence_of_traces(&one, &two, false);
        assert_eq!(comparison.outcome, Outcome::Insufficient, "{}", comparison.paragraph);
        assert!(
            comparison.missing.contains(&Missing { what: RunPart::Logits, record, step: Some(0) }),
            "{:?}",
            comparison.missing
        );
    }
}

#[test]
fn a_trace_of_few_tokens_names_all_its_logits() {
    let run = Run::new(vec![], 1, Settings::default());
    let mut trace = run.trace(&[0.5f32, 0.25, f32::NEG_INFINITY]).unwrap();
    trace.logits_sha256 = None;
    let comparison = first_divergence_of_traces(&[trace.clone()], &[trace], false);
    let missing: Vec<RunPart> = comparison.missing.iter().map(|missing| missing.what).collect();
    assert_eq!(missing, [RunPart::InputIds, RunPart::Settings, RunPart::Stop]);
    // So does a stage that left none.
    let mut none = run.trace(&[0.5f32, 0.25]).unwrap();
    (none.stages[1].candidates, none.stages[1].top) = (0, vec![]);
    let comparison = first_divergence_of_traces(&[none.clone()], &[none], false);
    let missing: Vec<RunPart> = comparison.missing.iter().map(|missing| missing.what).collect();
    assert_eq!(missing, [RunPart::InputIds, RunPart::Settings, RunPart::Stop]);
}

/// A redacted trace may end before the last stage: what that stage left is missing. Where both name every stage, only the
/// token is.
#[test]
fn candidates_of_stages_that_one_trace_does_not_have_are_missing_in_it() {
    let whole = Run::new(vec![], 1, Settings::default()).trace(&[0.5f32, 0.25]).unwrap();
    let without_token = Trace { token: None, ..whole.clone() };
    let mut cut = without_token.clone();
    cut.stages.truncate(2);
    for (one, two, record) in [(&whole, &cut, Lacking::Second), (&cut, &whole, Lacking::First)] {
        let comparison = first_divergence_of_traces(std::slice::from_ref(one), std::slice::from_ref(two), false);
        assert_eq!(comparison.first, None, "{}", comparison.paragraph);
        let lacks = |what| Missing { what, record, step: Some(0) };
        assert_eq!(comparison.missing[2..4], [lacks(RunPart::Candidates), lacks(RunPart::Token)]);
    }
    let comparison = first_divergence_of_traces(&[whole], &[without_token], false);
    let missing: Vec<RunPart> = comparison.missing.iter().map(|missing| missing.what).collect();
    assert_eq!(missing, [RunPart::InputIds, RunPart::Settings, RunPart::Token, RunPart::Stop]);
}

#[test]
fn the_tokens_a_stage_names_are_a_set() {
    let mut other = plain(7);
    other[2].stages[0].top.reverse();
    other[4].stages[5].top.reverse();
    assert_eq!(first_divergence_of_traces(&plain(7), &other, false).first, None);
}

#[test]
fn steps_that_one_list_does_not_have_are_missing_in_it() {
    let whole = plain(7);
    for (second, step) in [(&whole[..4], 4), (&whole[2..], 0), (&[], 0)] {
        for (one, two, record) in [(&whole[..], second, Lacking::Second), (second, &whole[..], Lacking::First)] {
            let comparison = first_divergence_of_traces(one, two, false);
            assert_eq!(comparison.outcome, Outcome::Insufficient, "{}", comparison.paragraph);
            assert_eq!(comparison.steps, second.len() as u64);
            let tokens: Vec<_> = comparison.missing.iter().filter(|missing| missing.what == RunPart::Token).collect();
            assert_eq!(tokens, [&Missing { what: RunPart::Token, record, step: Some(step) }]);
        }
    }
    // The same step is compared with the same step, wherever a list begins.
    let mut other = whole[2..].to_vec();
    other[1].token = Some(150);
    let found = first_divergence_of_traces(&whole, &other, false).first.unwrap();
    assert_eq!((found.what, found.step), (RunPart::Token, Some(3)));
}

/// What is changed in the second list, and where the comparison must say that they part.
#[test]
fn each_difference_is_named_where_it_is() {
    let changed = |step: usize, change: &dyn Fn(&mut Trace)| {
        let mut traces = plain(7);
        change(&mut traces[step]);
        traces
    };
    let first_logit = |step: usize, logits: &mut Vec<f32>| {
        if step == 3 {
            logits[0] = 50.0;
        }
    };
    for (second, what, step, at) in [
        (traces(7, 1.2, first_logit), RunPart::Logits, Some(3), "logits"),
        (changed(2, &|trace| trace.stages[0].candidates += 1), RunPart::Logits, Some(2), "logits"),
        (changed(2, &|trace| trace.stages[0].top[1].id = Some(199)), RunPart::Logits, Some(2), "logits"),
        (changed(2, &|trace| trace.stages[0].top[4].logit = Some(-1.0)), RunPart::Logits, Some(2), "logits"),
        (changed(2, &|trace| trace.stages[1].stage = "dry".into()), RunPart::Settings, Some(2), "stages[1]"),
        (changed(2, &|trace| drop(trace.stages.pop())), RunPart::Settings, Some(2), "stages[5]"),
        (changed(4, &|trace| trace.stages[3].candidates -= 1), RunPart::Candidates, Some(4), "top_k"),
        (changed(4, &|trace| trace.stages[5].top[1].probability = Some(0.5)), RunPart::Candidates, Some(4), "top_p"),
        (
            changed(1, &|trace| {
                trace.stages[2].draw = Some(0.5);
                trace.stages[2].candidates -= 1;
            }),
            RunPart::Draw,
            Some(1),
            "xtc",
        ),
        (changed(1, &|trace| trace.draw = Some(0.25)), RunPart::Draw, Some(1), "value"),
        (changed(3, &|trace| trace.probability = Some(0.5)), RunPart::Candidates, Some(3), "probability"),
        (changed(5, &|trace| trace.token = Some(150)), RunPart::Token, Some(5), "id"),
        (
            changed(2, &|trace| trace.contract = "mosaic-splitmix64-top-k-top-p-v1"),
            RunPart::Settings,
            Some(2),
            "contract",
        ),
    ] {
        let comparison = first_divergence_of_traces(&plain(7), &second, false);
        let found = comparison.first.unwrap_or_else(|| panic!("{what:?}: {}", comparison.paragraph));
        assert_eq!((found.what, found.step, found.at.as_str()), (what, step, at), "{}", comparison.paragraph);
        assert_eq!((comparison.outcome, found.values), (Outcome::Diverged, None));
        let values = first_divergence_of_traces(&plain(7), &second, true).first.unwrap().values.unwrap();
        assert_ne!(values[0], values[1]);
    }
    // The first token that differs may be that of a later step.
    let mut later = changed(1, &|trace| trace.draw = Some(0.25));
    later[4].token = Some(150);
    let comparison = first_divergence_of_traces(&plain(7), &later, false);
    assert_eq!((comparison.first.unwrap().step, comparison.first_token), (Some(1), Some(4)));
    // Another seed draws other numbers: XTC's own, or the walk's.
    let seed = first_divergence_of_traces(&plain(7), &plain(8), false).first.unwrap();
    assert_eq!((seed.what, seed.step), (RunPart::Draw, Some(0)));
    // Another penalty leaves other logits, below the five likeliest here: it shows in what these share with all others.
    let penalty = first_divergence_of_traces(&plain(7), &traces(7, 1.3, |_, _| ()), false).first.unwrap();
    assert_eq!((penalty.what, penalty.at.as_str()), (RunPart::Candidates, "temperature"));
    // Two greedy runs of different seeds: no draw, no difference.
    let greedy = |seed| {
        let run = Run::new(vec![3, 5], seed, Settings::new(0.0, 0, 1.0).unwrap());
        vec![run.trace(&row(&[1])).unwrap()]
    };
    assert_eq!(first_divergence_of_traces(&greedy(7), &greedy(8), false).first, None);
}

/// XTC's draw counts only by its effect: a draw with the same effect is no difference, but is reported.
#[test]
fn a_draw_of_xtc_that_leaves_the_same_is_said_beside() {
    let greedy = |seed, probability| {
        let xtc = Processor::Xtc(Xtc { probability, threshold: 0.02, exempt: vec![] });
        let settings = Settings::new(0.0, 0, 1.0).unwrap();
        let mut run = Run::with_processors(vec![3, 5], seed, settings, Processors::new(vec![xtc]).unwrap());
        let mut traces = Vec::new();
        for step in 0..4 {
            traces.push(run.trace(&row(&[step])).unwrap());
            run.step_with(&row(&[step])).unwrap();
        }
        traces
    };
    // It acts always: the draws differ at each step, and are told once.
    let comparison = first_divergence_of_traces(&greedy(7, 1.0), &greedy(8, 1.0), false);
    assert_eq!((comparison.first, comparison.steps), (None, 4), "{}", comparison.paragraph);
    let fields: Vec<_> = comparison.beside.iter().map(|beside| (beside.field, beside.values.clone())).collect();
    assert_eq!(fields, [("xtc", None)]);
    assert!(comparison.paragraph.contains("XTC drew other numbers"), "{}", comparison.paragraph);
    let told = first_divergence_of_traces(&greedy(7, 1.0), &greedy(8, 1.0), true);
    let values = [7, 8].map(|seed| uniform(seed, 0, 4).into());
    assert_eq!(told.beside[0].values, Some(values));
    // It acts on one side only: what it left differs, and the draw is why.
    let acts = |seed: &u64| uniform(*seed, 0, 4) < 0.5;
    let [one, other] = [(0..).find(acts), (0..).find(|seed| !acts(seed))].map(Option::unwrap);
    let found = first_divergence_of_traces(&greedy(one, 0.5), &greedy(other, 0.5), false).first.unwrap();
    assert_eq!((found.what, found.step, found.at.as_str()), (RunPart::Draw, Some(0), "xtc"));
}

#[test]
fn what_is_redacted_is_missing_and_not_equal() {
    let redacted: Vec<Trace> = plain(7).into_iter().map(Trace::redacted).collect();
    let comparison = first_divergence_of_traces(&plain(7), &redacted, false);
    assert_eq!(comparison.outcome, Outcome::Insufficient, "{}", comparison.paragraph);
    let missing: Vec<RunPart> = comparison.missing.iter().map(|missing| missing.what).collect();
    let expected = [
        RunPart::InputIds,
        RunPart::Settings,
        RunPart::Logits,
        RunPart::Candidates,
        RunPart::Candidates,
        RunPart::Draw,
        RunPart::Token,
        RunPart::Stop,
    ];
    assert_eq!(missing, expected);
    assert_eq!(comparison.first, None, "{}", comparison.paragraph);
    let empty = first_divergence_of_traces(&[], &[], false);
    assert_eq!(empty.outcome, Outcome::Insufficient);
    assert!(empty.missing.contains(&Missing { what: RunPart::Token, record: Lacking::Both, step: None }));
    // Of another seed nothing is left to be seen.
    let other: Vec<Trace> = plain(8).into_iter().map(Trace::redacted).collect();
    let comparison = first_divergence_of_traces(&redacted, &other, false);
    assert_eq!((comparison.outcome, comparison.first), (Outcome::Insufficient, None));
    // A difference that is left is found all the same.
    let mut fewer = redacted.clone();
    fewer[2].stages[0].candidates -= 1;
    let found = first_divergence_of_traces(&redacted, &fewer, false).first.unwrap();
    assert_eq!((found.what, found.step), (RunPart::Logits, Some(2)));
    // A number that one of them leaves out contradicts nothing.
    let mut partly = plain(7);
    partly[1].draw = None;
    partly[1].stages[0].top[2].logit = None;
    for (one, two, record) in [(plain(7), partly.clone(), Lacking::Second), (partly, plain(7), Lacking::First)] {
        let comparison = first_divergence_of_traces(&one, &two, false);
        assert_eq!(comparison.first, None, "{}", comparison.paragraph);
        let lacks = |what, record, step| Missing { what, record, step };
        let expected = [
            lacks(RunPart::InputIds, Lacking::Both, None),
            lacks(RunPart::Settings, Lacking::Both, None),
            lacks(RunPart::Candidates, Lacking::Both, Some(0)),
            lacks(RunPart::Logits, record, Some(1)),
            lacks(RunPart::Draw, record, Some(1)),
            lacks(RunPart::Stop, Lacking::Both, None),
        ];
        assert_eq!(comparison.missing, expected);
    }
}

#[test]
fn a_file_of_traces_is_read_strictly() {
    let refused = |change: &dyn Fn(&mut serde_json::Value)| {
        use quillmate_sampler::Refusal;
        let mut file = json!({ "traces": plain(7) });
        change(&mut file);
        read_traces(Object::parse(&file.to_string()).unwrap()).unwrap_err().code()
    };
    assert_eq!(refused(&|file| file["traces"][0]["contract"] = json!("other")), "field_type");
    assert_eq!(refused(&|file| file["traces"][1]["stages"][0]["seen"] = json!(1)), "field_unknown");
    assert_eq!(refused(&|file| drop(file["traces"][1].as_object_mut().unwrap().remove("draw"))), "field_missing");
    assert_eq!(refused(&|file| file["more"] = json!(1)), "field_unknown");
    assert_eq!(refused(&|file| file["traces"][3]["step"] = json!(2)), "field_type");
    for digest in ["a0".into(), "0".repeat(63), "0".repeat(65), "A".repeat(64), "g".repeat(64)] {
        assert_eq!(refused(&|file| file["traces"][3]["logits_sha256"] = json!(digest)), "field_type", "{digest}");
    }
}

fn row(context: &[u32]) -> Vec<f32> {
    let seed = context.iter().fold(7u64, |hash, token| draw(hash ^ u64::from(*token), 0, 9));
    (0..200).map(|id| (draw(seed, id, 9) % 16) as f32 / 2.0).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Two runs, one of them asked for its decision and its trace at every step: the same tokens, the same state; and
    /// what it was told is what then happened.
    #[test]
    fn asking_changes_nothing_and_tells_the_truth(
        seed in any::<u64>(), temperature in prop_oneof![Just(0.0), 0.1..3.0f64], top_k in 0u32..250, top_p in 0.0..=1.0f64,
        min_p in 0.0..0.5f64, xtc in 0.0..=1.0f64, penalty in 0.5..2.0f64
    ) {
        let list = vec![
            Processor::RepetitionPenalty(Penalty { penalty, window: Window::default(), exempt: vec![] }),
            Processor::MinP(filter(min_p)),
            Processor::Xtc(Xtc { probability: xtc, threshold: 0.05, exempt: vec![] }),
        ];
        let settings = Settings::new(temperature, top_k, top_p).unwrap();
        let mut plain = Run::with_processors(vec![1], seed, settings, Processors::new(list).unwrap());
        let mut asked = plain.clone();
        for _ in 0..8 {
            let logits = row(&plain.context());
            let before = asked.state().clone();
            let (decision, trace) = (asked.decision(&logits).unwrap(), asked.trace(&logits).unwrap());
            prop_assert_eq!(asked.state(), &before);
            let token = plain.step_with(&logits).unwrap();
            prop_assert_eq!(asked.step_with(&logits).unwrap(), token);
            prop_assert_eq!(&asked, &plain);
            prop_assert_eq!((decision.token_id, trace.token), (token, Some(token)));
            prop_assert_eq!(decision.selected_probability, trace.probability);
            // Capped, and the counts add up.
            prop_assert!(trace.stages.len() <= 25);
            let mut left = 200;
            for stage in &trace.stages {
                prop_assert_eq!(stage.candidates + stage.removed, left);
                prop_assert!(stage.top.len() <= 5 && stage.top.len() as u64 <= stage.candidates);
                left = stage.candidates;
            }
        }
    }

    /// The last stage is what the token is drawn from.
    #[test]
    fn the_last_stage_is_the_distribution(seed in any::<u64>(), top_k in 1u32..60, top_p in 0.0..=1.0f64) {
        let settings = Settings::new(0.7, top_k, top_p).unwrap();
        let run = Run::new(vec![], seed, settings);
        let logits = row(&[seed as u32]);
        let kept = distribution(&logits, &settings).unwrap();
        let trace = run.trace(&logits).unwrap();
        let last = trace.stages.last().unwrap();
        prop_assert_eq!(last.candidates as usize, kept.ids().len());
        let mut best: Vec<(f64, u32)> = kept.probabilities().iter().copied().zip(kept.ids().iter().copied()).collect();
        best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        best.truncate(5);
        let told: Vec<(f64, u32)> = last.top.iter().map(|it| (it.probability.unwrap(), it.id.unwrap())).collect();
        prop_assert_eq!(told, best);
    }
}
