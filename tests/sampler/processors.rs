//! Processors: their vectors, what public samplers' own tests expect, and the properties a run may count on.

use crate::share::one_in;
use proptest::prelude::*;
use quillmate_sampler::{
    Dry, Filter, Frame, GeneratorState, Length, Ngram, Penalty, Position, Processor, Processors, Refusal, Run,
    Settings, Window, Xtc, distribution, draw, exp, ln, sample_token, uniform,
};
use serde_json::Value;

fn apply(list: Vec<Processor>, row: &mut [f64], history: &[u32], seed: u64) {
    let position = Position { prompt: history, tokens: &[], seed };
    Processors::new(list).unwrap().apply(row, &position, &mut |_, _| ()).unwrap();
}

fn kept(row: &[f64]) -> Vec<u32> {
    (0..).zip(row).filter(|(_, logit)| **logit != f64::NEG_INFINITY).map(|(id, _)| id).collect()
}

// ---- Cases of public samplers -------------------------------------------------------------------------------------

/// Why a case of another sampler is not reproduced.
enum Other {
    /// It has a rule we do not have.
    Rule,
    /// It settles a tie, or bad input, in another way.
    Differs,
}

/// The cases whose rule is not ours. All others must come out as the other sampler's own test says.
const OTHERS: [(&str, Other, &str); 7] = [
    ("hf-nan", Other::Differs, "NaN becomes 0 there; here it is refused by its index, never repaired"),
    ("hf-seqbias-b", Other::Rule, "a bias on sequences; ours are on tokens, and bad_words on sequences"),
    (
        "hf-topp-a",
        Other::Differs,
        "0.5 + 0.3 is top_p on paper; the softmax of ln(0.3) in binary64 is two bits short of 0.3, so one more token stays",
    ),
    ("ls-topa-8.0", Other::Rule, "top-a"),
    ("ls-topa-0.0001", Other::Rule, "top-a"),
    ("ls-minp-2.0", Other::Differs, "min-p above 1 keeps the best there; here it is refused as out of range"),
    (
        "hf-typical-uniform",
        Other::Differs,
        "of equally typical tokens all stay there; here the lowest ids, up to the one at which the mass is reached",
    ),
];

fn number(value: &Value) -> f64 {
    match value.as_str() {
        Some("-inf") => f64::NEG_INFINITY,
        Some(other) => panic!("{other}"),
        None => value.as_f64().unwrap(),
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// A case's row: logits, or the logarithms of probabilities, or a rule in words.
fn row_of(case: &Value) -> Vec<f64> {
    if let Some(probabilities) = case.get("probs") {
        return numbers(probabilities).into_iter().map(ln).collect();
    }
    if let Some(rule) = case.get("logits_rule") {
        assert_eq!(rule, "V = 10000; logit of token i is ln(i), token 0 is -inf");
        return (0..10_000).map(|id| ln(f64::from(id))).collect();
    }
    numbers(&case["logits"])
}

/// A case's settings as a list of processors and a temperature; filters in the order it names. Of rules that have a second
/// version, the first or the second.
fn list_of(case: &Value, second: bool) -> (Vec<Processor>, f64) {
    let settings = case["settings"].as_object().unwrap();
    let get = |name: &str| settings.get(name).map(number);
    let whole = |value: &Value| value.as_u64().unwrap() as u32;
    let penalty = |penalty| Penalty { penalty, window: Window::default(), exempt: vec![] };
    let min_keep = settings.get("min_keep").map_or(1, whole).max(1);
    let filter = |value| Filter { value, min_keep };
    let mut list = Vec::new();
    if let Some(value) = get("repetition_penalty") {
        list.push(Processor::RepetitionPenalty(penalty(value)));
    }
    if let Some(value) = get("frequency_penalty") {
        list.push(Processor::FrequencyPenalty(penalty(value)));
    }
    if let Some(value) = get("presence_penalty") {
        list.push(Processor::PresencePenalty(penalty(value)));
    }
    if let Some(dry) = settings.get("dry") {
        let dry = Dry {
            multiplier: number(&dry["multiplier"]),
            base: number(&dry["base"]),
            allowed_length: whole(&dry["allowed_length"]),
            // −1 is all there.
            window: Window { last: dry["penalty_last_n"].as_u64().map(|last| last as u32), prompt: true },
            breakers: dry["sequence_breakers"].as_array().unwrap().iter().map(ids).collect(),
        };
        list.push(if second { Processor::DryV2(dry) } else { Processor::Dry(dry) });
    }
    if let Some(size) = settings.get("no_repeat_ngram_size") {
        list.push(Processor::NoRepeatNgram(Ngram { size: whole(size), window: Window::default() }));
    }
    if let Some(words) = settings.get("bad_words") {
        let end = settings.get("eos").map(whole);
        let words: Vec<Vec<u32>> = words.as_array().unwrap().iter().map(ids).collect();
        list.push(Processor::BadWords(
            words.into_iter().filter(|word| end.is_none_or(|end| word[..] != [end])).collect(),
        ));
    }
    if let Some(biases) = settings.get("logit_bias") {
        let biases = biases.as_object().unwrap().iter().map(|(id, bias)| (id.parse().unwrap(), number(bias)));
        let (denied, biased): (Vec<(u32, f64)>, Vec<_>) = biases.partition(|(_, bias)| *bias == f64::NEG_INFINITY);
        // A bias of −∞ is a ban, and ours has a name of its own.
        if !denied.is_empty() {
            list.push(Processor::Deny(denied.into_iter().map(|(id, _)| id).collect()));
        }
        if !biased.is_empty() {
            list.push(Processor::LogitBias(biased));
        }
    }
    let order: Vec<&str> = match settings.get("order") {
        Some(order) => order.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect(),
        None => vec!["top_k", "typical_p", "top_p", "min_p", "epsilon_cutoff", "eta_cutoff", "top_n_sigma", "xtc"],
    };
    for name in order {
        let Some(value) = settings.get(name) else { continue };
        list.push(match name {
            // 0 and less are off there; off is absent here.
            "top_k" if value.as_i64().unwrap() < 1 => continue,
            "top_k" => Processor::TopK(whole(value).max(min_keep)),
            "top_p" if second => Processor::TopPV2(filter(number(value))),
            "top_p" => Processor::TopP(filter(number(value))),
            "min_p" => Processor::MinP(filter(number(value))),
            "typical_p" if second => Processor::TypicalV2(filter(number(value))),
            "typical_p" => Processor::Typical(filter(number(value))),
            "epsilon_cutoff" => Processor::Epsilon(filter(number(value))),
            "eta_cutoff" => Processor::Eta(filter(number(value))),
            "top_n_sigma" if number(value) == 0.0 => continue,
            "top_n_sigma" => Processor::TopNSigma(filter(number(value))),
            "xtc" => {
                let [probability, threshold] = ["probability", "threshold"].map(|name| number(&value[name]));
                Processor::Xtc(Xtc { probability, threshold, exempt: vec![] })
            }
            other => panic!("{other}"),
        });
    }
    // A temperature other than 0 acts on the logits where the case expects logits, else in the contract.
    let temperature = get("temperature").unwrap_or(1.0);
    if case["expect"].get("logits").is_some() && temperature != 1.0 {
        list.push(Processor::Temperature(temperature));
        return (list, 1.0);
    }
    (list, temperature)
}

#[test]
fn cases_of_public_samplers() {
    const KNOWN: [&str; 15] = [
        "repetition_penalty",
        "frequency_penalty",
        "presence_penalty",
        "dry",
        "no_repeat_ngram_size",
        "bad_words",
        "eos",
        "logit_bias",
        "order",
        "min_keep",
        "temperature",
        "ties",
        "top_k",
        "top_p",
        "min_p",
    ];
    const MORE: [&str; 5] = ["typical_p", "epsilon_cutoff", "eta_cutoff", "top_n_sigma", "xtc"];
    let file: Value = serde_json::from_str(include_str!("../vectors/peer_cases.json")).unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len() as u64, file["count"].as_u64().unwrap());
    let (mut reproduced, mut other) = (0, 0);
    for case in cases {
        let id = case["id"].as_str().unwrap();
        if OTHERS.iter().any(|(name, ..)| *name == id) {
            other += 1;
            continue;
        }
        for name in case["settings"].as_object().unwrap().keys() {
            assert!(KNOWN.contains(&name.as_str()) || MORE.contains(&name.as_str()), "{id}: {name}");
        }
        for second in [false, true] {
            let (list, temperature) = list_of(case, second);
            let mut row = row_of(case);
            let history = case.get("history").map(ids).unwrap_or_default();
            // Where another sampler's XTC says "apply", so must our draw.
            let seed = match list.iter().find(|it| it.name() == "xtc") {
                Some(Processor::Xtc(xtc)) => {
                    (0..).find(|seed| xtc.probability == 0.0 || uniform(*seed, 0, 4) < xtc.probability).unwrap()
                }
                _ => 0,
            };
            apply(list, &mut row, &history, seed);
            check(id, case, &row, temperature);
        }
        reproduced += 1;
    }
    assert_eq!(other, OTHERS.len(), "a case that is listed does not exist");
    println!("ran {reproduced} peer cases; {other} follow another rule:");
    for (name, kind, why) in &OTHERS {
        println!("  {name}: {}: {why}", if matches!(kind, Other::Rule) { "no such rule here" } else { "differs" });
    }
}

fn check(id: &str, case: &Value, row: &[f64], temperature: f64) {
    let expect = case["expect"].as_object().unwrap();
    let tolerance = case.get("tolerance").map_or(1e-6, number);
    let settings = Settings::new(temperature, 0, 1.0).unwrap();
    let dense = || distribution(row, &settings).unwrap().dense(row.len()).unwrap();
    let close = |found: &[f64], expected: &[f64], tolerance: f64| {
        assert_eq!(found.len(), expected.len(), "{id}");
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!(found == expected || (found - expected).abs() <= tolerance, "{id}[{at}]: {found}, not {expected}");
        }
    };
    for (name, value) in expect {
        match name.as_str() {
            "kept_ids" if temperature != 0.0 => assert_eq!(kept(row), ids(value), "{id}"),
            "kept_ids" => assert_eq!(distribution(row, &settings).unwrap().ids(), ids(value), "{id}"),
            "kept_count" => {
                // A token of probability 0 counts as kept there; here it is banned from the start.
                let banned = if expect.get("kept_range").is_some_and(|range| range[0] == 0) { 1 } else { 0 };
                assert_eq!(kept(row).len() as u64 + banned, value.as_u64().unwrap(), "{id}");
            }
            "kept_count_max" => assert!(kept(row).len() as u64 <= value.as_u64().unwrap(), "{id}"),
            "kept_count_min" => assert!(kept(row).len() as u64 >= value.as_u64().unwrap(), "{id}"),
            "kept_range" => {
                let kept = kept(row);
                let [first, last] = [0, 1].map(|at| value[at].as_u64().unwrap() as u32);
                let first = first.max(1);
                assert_eq!((kept[0], kept[kept.len() - 1]), (first, last), "{id}");
                assert_eq!(kept.len() as u32, last - first + 1, "{id}");
            }
            "probs" => close(&dense(), &numbers(value), tolerance),
            "logits" => close(row, &numbers(value), tolerance),
            "distribution" => close(&dense(), &numbers(value), number(&expect["distribution_tolerance"])),
            "allowed_ids" => {
                let allowed = ids(value);
                assert!(kept(row).iter().all(|id| allowed.contains(id)), "{id}: {:?}", kept(row));
            }
            "picked" => {
                for u in [0.0, 0.3, 0.999] {
                    let token = sample_token(row, temperature, 0, 1.0, u).unwrap();
                    assert_eq!(u64::from(token), value.as_u64().unwrap(), "{id}");
                }
            }
            "order" => {
                let mut order: Vec<u32> = kept(row);
                order.sort_by(|a, b| row[*b as usize].total_cmp(&row[*a as usize]).then(a.cmp(b)));
                assert_eq!(order, ids(value), "{id}");
            }
            "best_logit" => assert_eq!(
                row.iter().copied().fold(f64::NEG_INFINITY, |a, b| if b > a { b } else { a }),
                number(value),
                "{id}"
            ),
            "last_kept_logit" => {
                let least =
                    kept(row).iter().map(|id| row[*id as usize]).fold(f64::INFINITY, |a, b| if b < a { b } else { a });
                assert_eq!(least, number(value), "{id}");
            }
            "probs_before" => close(
                &distribution(&row_of(case), &settings).unwrap().dense(row.len()).unwrap(),
                &numbers(value),
                tolerance,
            ),
            // Used with "distribution".
            "distribution_tolerance" | "draws" => {}
            other => panic!("{id}: {other}"),
        }
    }
}

// ---- What a run may count on ---------------------------------------------------------------------------------------

fn filter(value: f64) -> Filter {
    Filter { value, min_keep: 1 }
}

fn penalty(penalty: f64) -> Penalty {
    Penalty { penalty, window: Window::default(), exempt: vec![] }
}

/// Two orders of the same two processors, and whether they give the same row.
fn commute(a: Processor, b: Processor, row: &[f64], history: &[u32]) -> bool {
    let (mut ab, mut ba) = (row.to_vec(), row.to_vec());
    apply(vec![a.clone(), b.clone()], &mut ab, history, 0);
    apply(vec![b, a], &mut ba, history, 0);
    ab == ba
}

#[test]
fn the_order_of_the_list_matters() {
    let row = [2.0, 1.5, 1.0, 0.0, -1.0];
    let halves = Processor::RepetitionPenalty(penalty(2.0));
    let minus_1 = Processor::PresencePenalty(penalty(1.0));
    let plus_1 = Processor::LogitBias(vec![(0, 1.0)]);
    assert!(!commute(halves.clone(), minus_1, &row, &[0]), "2/2 − 1 is not (2 − 1)/2");
    assert!(!commute(halves.clone(), plus_1, &row, &[0]), "2/2 + 1 is not (2 + 1)/2");
    assert!(!commute(Processor::TopK(3), Processor::TopP(filter(0.75)), &row, &[]), "top-k first makes a larger share");
    assert!(!commute(Processor::Temperature(3.0), Processor::MinP(filter(0.3)), &row, &[]), "heat lets more in");
    assert!(!commute(Processor::Deny(vec![0]), Processor::TopK(2), &row, &[]), "a ban before top-k makes room");
    assert!(!commute(halves, Processor::TopK(1), &row, &[0]), "another token is the best");
    let typical = Processor::Typical(filter(0.3));
    assert!(!commute(typical, Processor::MinP(filter(0.2)), &row, &[]), "what is typical depends on what is left");
    // And pairs that do commute, so that the test above could fail.
    assert!(commute(Processor::Deny(vec![3]), Processor::LogitBias(vec![(1, 0.5)]), &row, &[]));
}

#[test]
fn a_repeat_counts_once_for_the_repetition_penalty_and_every_time_for_the_frequency_penalty() {
    let history = [1, 1, 1, 2];
    let mut row = [1.0, 1.0, -1.0];
    apply(vec![Processor::RepetitionPenalty(penalty(2.0))], &mut row, &history, 0);
    assert_eq!(row, [1.0, 0.5, -2.0]);
    let mut row = [1.0, 1.0, -1.0];
    apply(vec![Processor::FrequencyPenalty(penalty(0.5))], &mut row, &history, 0);
    assert_eq!(row, [1.0, -0.5, -1.5]);
}

// ---- Second versions ------------------------------------------------------------------------------------------------

fn kept_of(processor: Processor, row: &[f64]) -> Vec<u32> {
    let mut row = row.to_vec();
    apply(vec![processor], &mut row, &[], 0);
    kept(&row)
}

/// Meister et al. 2023, Transformers' `TypicalLogitsWarper` and llama.cpp's `llama_sampler_typical`.
#[test]
fn typical_drops_the_best_token_where_it_is_not_typical() {
    let row = [0.46, 0.27, 0.27].map(ln);
    assert_eq!(kept_of(Processor::TypicalV2(filter(0.5)), &row), [1, 2]);
    assert_eq!(kept_of(Processor::Typical(filter(0.5)), &row), [0, 1, 2], "version 1 stays as it was");
    let row = [0.5, 0.3, 0.2].map(ln);
    assert_eq!(kept_of(Processor::TypicalV2(filter(0.0)), &row), [1]);
    // min_keep counts in the order of the rule: 1 is the most typical, then 0.
    assert_eq!(kept_of(Processor::TypicalV2(Filter { value: 0.0, min_keep: 2 }), &row), [0, 1]);
    assert_eq!(kept_of(Processor::TypicalV2(Filter { value: 0.0, min_keep: 9 }), &row), [0, 1, 2]);
    // 1 is off, also where the sum reaches 1 before the last.
    let row = [0.0, -50.0, -60.0];
    assert_eq!(kept_of(Processor::TypicalV2(filter(1.0)), &row), [0, 1, 2]);
    assert_eq!(kept_of(Processor::Typical(filter(1.0)), &row), [0], "version 1 stays as it was");
}

/// p-e-w's proposal and llama.cpp's `llama_sampler_dry_apply`.
#[test]
fn dry_leaves_alone_what_is_a_breaker_by_itself() {
    let penalties = |make: fn(Dry) -> Processor, breakers: Vec<Vec<u32>>| {
        let window = Window::default();
        let dry = Dry { multiplier: 1.0, base: 2.0, allowed_length: 1, window, breakers };
        let mut row = [0.0; 10];
        apply(vec![make(dry)], &mut row, &[5, 9, 4, 5], 0);
        (0u32..).zip(row).filter(|(_, logit)| *logit != 0.0).collect::<Vec<_>>()
    };
    assert_eq!(penalties(Processor::DryV2, vec![vec![9]]), []);
    assert_eq!(penalties(Processor::Dry, vec![vec![9]]), [(9, -1.0)], "version 1 stays as it was");
    // A token of a longer sequence is no breaker by itself.
    assert_eq!(penalties(Processor::DryV2, vec![vec![9, 9], vec![4, 9]]), [(9, -1.0)]);
    assert_eq!(penalties(Processor::DryV2, vec![vec![4]]), [(9, -1.0)]);
}

/// Step 5 of the contract, where two logits have one probability.
#[test]
fn top_p_keeps_what_step_5_keeps() {
    let row = [0.0, 1e-17];
    assert_eq!(distribution(&row, &Settings::new(1.0, 0, 0.0).unwrap()).unwrap().ids(), [0]);
    assert_eq!(kept_of(Processor::TopPV2(filter(0.0)), &row), [0]);
    assert_eq!(kept_of(Processor::TopP(filter(0.0)), &row), [0, 1], "version 1 stays as it was");
    assert_eq!(kept_of(Processor::TopPV2(Filter { value: 0.0, min_keep: 2 }), &[2.0, 0.0, 1.0]), [0, 2]);
}

/// Transformers' `ForcedEOSTokenLogitsProcessor`, with the length counted in emitted tokens.
#[test]
fn a_forced_end_is_the_last_token_of_its_length() {
    let row = [3.0, 2.0, 1.0, -4.0];
    for (length, end_tokens) in [(1, vec![3]), (4, vec![2, 3]), (4, vec![3, 3]), (u32::MAX, vec![3])] {
        let list = vec![Processor::ForcedEnd(Length { length, end_tokens: end_tokens.clone() })];
        // A prompt does not count.
        let greedy = Settings::new(0.0, 0, 1.0).unwrap();
        let mut run = Run::with_processors(vec![0; 9], 1, greedy, Processors::new(list).unwrap());
        let ending = length.min(7);
        for at in 1..=ending + 1 {
            let token = run.step_with(&row).unwrap();
            assert_eq!(end_tokens.contains(&token), at >= length, "token {at} of {length}");
        }
    }
    let banned = Processors::new(vec![Processor::ForcedEnd(Length { length: 1, end_tokens: vec![0] })]).unwrap();
    let mut run = Run::with_processors(vec![], 1, Settings::default(), banned);
    assert_eq!(run.step_with(&[f64::NEG_INFINITY, 0.0]).unwrap_err().code(), "processor_all_banned");
    // With min_length, whose last banned place is the one before, a run has exactly its length.
    let end_tokens = vec![0];
    let exactly = vec![
        Processor::MinLength(Length { length: 4, end_tokens: end_tokens.clone() }),
        Processor::ForcedEnd(Length { length: 5, end_tokens }),
    ];
    let mut run =
        Run::with_processors(vec![], 1, Settings::new(0.0, 0, 1.0).unwrap(), Processors::new(exactly).unwrap());
    let tokens: Vec<u32> = (0..5).map(|_| run.step_with(&row).unwrap()).collect();
    assert_eq!(tokens, [1, 1, 1, 1, 0]);
}

// ---- Ids outside the vocabulary -------------------------------------------------------------------------------------

/// Every list of ids there is among parameters, each with an id that is not below 4.
fn with_an_unknown_id() -> Vec<Processor> {
    let penalty = || Penalty { penalty: 1.1, window: Window::default(), exempt: vec![1, 4] };
    let dry = |breakers| Dry { multiplier: 1.0, base: 2.0, allowed_length: 1, window: Window::default(), breakers };
    vec![
        Processor::RepetitionPenalty(penalty()),
        Processor::FrequencyPenalty(penalty()),
        Processor::PresencePenalty(penalty()),
        Processor::Dry(dry(vec![vec![1], vec![4]])),
        Processor::Dry(dry(vec![vec![4, 1]])),
        Processor::DryV2(dry(vec![vec![1, 4, 1]])),
        Processor::BadWords(vec![vec![1], vec![1, 4]]),
        Processor::BadWords(vec![vec![4, 1]]),
        Processor::BadWords(vec![vec![1, 4, 1]]),
        Processor::LogitBias(vec![(0, 1.0), (4, 1.0)]),
        Processor::Allow(vec![0, 4]),
        Processor::Deny(vec![4]),
        Processor::ForcedPrefix(vec![4]),
        Processor::ForcedPrefix(vec![1, 4]),
        Processor::MinLength(Length { length: 0, end_tokens: vec![4] }),
        Processor::MinLength(Length { length: 2, end_tokens: vec![1, 4] }),
        Processor::ForcedEnd(Length { length: 99, end_tokens: vec![4] }),
        Processor::Xtc(Xtc { probability: 0.0, threshold: 0.1, exempt: vec![4] }),
    ]
}

#[test]
fn an_id_outside_the_vocabulary_is_refused_wherever_it_stands_and_whatever_the_step() {
    for processor in with_an_unknown_id() {
        let name = processor.name();
        let list = Processors::new(vec![Processor::TopK(2), processor]).unwrap();
        for vocabulary in [4, 5] {
            let refused =
                list.check_vocabulary(vocabulary).map_err(|error| (error.code(), error.index(), error.value()));
            let expected = if vocabulary == 4 { Err(("processor_token", Some(1), Some(4.0))) } else { Ok(()) };
            assert_eq!(refused, expected, "{name}");
            for tokens in [&[][..], &[1], &[1, 1, 1, 1]] {
                let mut row = vec![0.5; vocabulary as usize];
                let position = Position { prompt: &[1], tokens, seed: 0 };
                let applied = list.apply(&mut row, &position, &mut |_, _| ());
                // With one token more in the vocabulary, what a rule does with the id is its own matter.
                let refused = applied.err().filter(|error| error.code() == "processor_token");
                let refused = refused.map(|error| (error.code(), error.index(), error.value()));
                assert_eq!(refused, expected.err(), "{name} at step {}", tokens.len());
            }
        }
    }
}

#[test]
fn ids_are_looked_at_before_any_processor_acts() {
    let list = Processors::new(vec![Processor::Deny(vec![0, 1]), Processor::Allow(vec![9])]).unwrap();
    let (mut row, mut seen) = ([1.0, 2.0], 0);
    let position = Position { prompt: &[], tokens: &[], seed: 0 };
    let error = list.apply(&mut row, &position, &mut |_, _| seen += 1).unwrap_err();
    assert_eq!((error.code(), error.index(), error.value(), seen), ("processor_token", Some(1), Some(9.0), 0));
    assert_eq!(row, [1.0, 2.0]);
}

// ---- The work of a processor ----------------------------------------------------------------------------------------

/// Histories that are hard on algorithms for repetitions, and random ones.
fn histories() -> Vec<Vec<u32>> {
    let mut all = vec![vec![], vec![0], vec![1; 2], vec![0; 150], [0, 1].repeat(60), [0, 1, 2].repeat(41)];
    let (mut shorter, mut fibonacci) = (vec![0], vec![0, 1]);
    while fibonacci.len() < 140 {
        let next = [&fibonacci[..], &shorter].concat();
        (shorter, fibonacci) = (fibonacci, next);
    }
    all.push(fibonacci);
    all.push((0u32..128).map(|at| at.count_ones() % 2).collect());
    all.push([vec![0; 60], vec![1], vec![0; 60]].concat());
    for case in 0..120 {
        let alphabet = [1, 2, 3, 5][case as usize % 4];
        all.push((0..draw(case, 0, 1) % 90).map(|at| (draw(case, at, 2) % alphabet) as u32).collect());
    }
    all
}

/// The rule of `no_repeat_ngram` as it is written, in quadratic time.
fn obvious_ngram(row: &mut [f64], history: &[u32], size: usize) {
    for ngram in history.windows(size) {
        if history.ends_with(&ngram[..size - 1])
            && let Some(logit) = row.get_mut(ngram[size - 1] as usize)
        {
            *logit = f64::NEG_INFINITY;
        }
    }
}

/// The rule of `dry` as it is written, in cubic time.
fn obvious_dry(row: &mut [f64], history: &[u32], it: &Dry, second: bool) {
    let follows = |breaker: &[u32]| (0..=history.len()).rev().find(|end| history[..*end].ends_with(breaker));
    let reach = history.len() - it.breakers.iter().filter_map(|breaker| follows(breaker)).max().unwrap_or(0);
    let length =
        |j: usize| (0..j).take_while(|back| history[j - 1 - back] == history[history.len() - 1 - back]).count();
    for (id, logit) in (0u32..).zip(row) {
        let ends = (1..history.len()).filter(|j| history[*j] == id);
        let longest = ends.map(|j| length(j).min(reach)).max().unwrap_or(0);
        let exempt = second && it.breakers.iter().any(|breaker| breaker[..] == [id]);
        if longest >= it.allowed_length as usize && !exempt {
            let mut power = 1.0;
            for _ in 0..longest - it.allowed_length as usize {
                power *= if power < f64::from_bits((1023 + 100) << 52) { it.base } else { 1.0 };
            }
            *logit = *logit - it.multiplier * power + 0.0;
        }
    }
}

#[test]
fn the_linear_algorithms_give_what_the_rules_say() {
    let row: Vec<f64> = (0..5).map(|id| 0.3 * f64::from(id)).collect();
    let bits = |row: &[f64]| row.iter().map(|logit| logit.to_bits()).collect::<Vec<_>>();
    let mut compared = 0;
    for (case, history) in (0u64..).zip(histories()).step_by(one_in()) {
        for size in [1, 2, 3, 5, 20, 61, 149, 150, 151, 400] {
            // A token that never occurs stays allowed, so that no row is refused.
            let mut row = [&row[..], &[1.0]].concat();
            let mut expected = row.clone();
            obvious_ngram(&mut expected, &history, size as usize);
            apply(vec![Processor::NoRepeatNgram(Ngram { size, window: Window::default() })], &mut row, &history, 0);
            assert_eq!(bits(&row), bits(&expected), "{size}-gram of {history:?}");
            compared += 1;
        }
        for variant in 0..8 {
            let random = |at, below| draw(case * 8 + variant, at, 3) % below;
            let sequence =
                |at| (0..1 + random(at, 4)).map(|place| random(100 * at + place, 3) as u32).collect::<Vec<_>>();
            let dry = Dry {
                multiplier: 0.7,
                base: [1.0, 1.000_001, 1.75, 1e30][random(1, 4) as usize],
                allowed_length: 1 + random(2, 3) as u32,
                window: Window::default(),
                breakers: (10..10 + random(3, 5)).map(sequence).collect(),
            };
            for second in [false, true] {
                let (mut row, mut expected) = (row.clone(), row.clone());
                obvious_dry(&mut expected, &history, &dry, second);
                let make = if second { Processor::DryV2 } else { Processor::Dry };
                apply(vec![make(dry.clone())], &mut row, &history, 0);
                assert_eq!(bits(&row), bits(&expected), "{second} {dry:?} of {history:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 3000 / one_in(), "{compared}");
}

/// Sizes at which anything quadratic takes from half an hour to days; linear it is less than a second each.
#[test]
fn the_work_is_linear_in_history_and_parameters() {
    let part = one_in() as u32;
    let many = 1_000_000 / part;
    let equal = vec![0; 4 * many as usize];
    let window = Window::default();

    let mut row = [1.0, 2.0];
    apply(vec![Processor::NoRepeatNgram(Ngram { size: 2 * many, window })], &mut row, &equal, 0);
    assert_eq!(kept(&row), [1]);

    // Each breaker agrees with the history but for its last token, or but for its first; no one is found.
    let last_differs = (0..100_000 / part).map(|id| [vec![0; 40], vec![id + 1]].concat());
    let first_differs = (0..8000 / part).map(|id| [vec![id + 1], vec![0; 40]].concat());
    let breakers = last_differs.chain(first_differs).chain([[vec![1], vec![0; many as usize]].concat()]).collect();
    let dry = Dry { multiplier: 1.0, base: 1.0, allowed_length: 1, window, breakers };
    let mut row = vec![1.0; 100_001];
    apply(vec![Processor::DryV2(dry)], &mut row, &equal, 0);
    assert_eq!((row[0], row[1]), (0.0, 1.0));

    // Every token of the vocabulary in the history, and every one exempt.
    let (ids, halves): (Vec<u32>, Vec<f64>) = (0..many).map(|id| (id, 0.5)).unzip();
    let exempt = || ids.iter().rev().copied().collect::<Vec<_>>();
    let mut row = halves;
    let penalty = Penalty { penalty: 2.0, window, exempt: exempt() };
    let list = vec![
        Processor::RepetitionPenalty(penalty.clone()),
        Processor::FrequencyPenalty(penalty.clone()),
        Processor::PresencePenalty(penalty),
        Processor::Xtc(Xtc { probability: 1.0, threshold: 0.0, exempt: exempt() }),
        Processor::BadWords(ids.iter().map(|id| vec![*id, 0]).collect()),
    ];
    apply(list, &mut row, &ids, 0);
    assert_eq!(kept(&row), ids[1..]);
}

/// Every processor that looks at the history, biting.
fn with_history(window: Window) -> Vec<Processor> {
    let of = |penalty| Penalty { penalty, window, exempt: vec![] };
    vec![
        Processor::RepetitionPenalty(of(1.5)),
        Processor::FrequencyPenalty(of(0.3)),
        Processor::PresencePenalty(of(0.4)),
        Processor::DryV2(Dry { multiplier: 0.7, base: 1.75, allowed_length: 1, window, breakers: vec![] }),
        Processor::NoRepeatNgram(Ngram { size: 2, window }),
    ]
}

#[test]
fn without_a_history_nothing_is_held_back() {
    let row = [1.0, -2.0, 0.5];
    let mut same = row;
    apply(with_history(Window::default()), &mut same, &[], 0);
    assert_eq!(same, row);
}

#[test]
fn of_a_history_longer_than_the_window_only_the_window_counts() {
    let window = Window { last: Some(4), prompt: true };
    let row: Vec<f64> = (0..6).map(f64::from).collect();
    let recent = [1, 2, 1, 3];
    let long: Vec<u32> = [0, 4, 5, 4, 5, 0].repeat(50).into_iter().chain(recent).collect();
    for processor in with_history(window) {
        let (mut a, mut b) = (row.clone(), row.clone());
        apply(vec![processor.clone()], &mut a, &recent, 0);
        apply(vec![processor.clone()], &mut b, &long, 0);
        assert_eq!(a, b, "{}", processor.name());
        // A window larger than the history is all of it.
        let mut c = row.clone();
        let mut wide = with_history(Window { last: Some(1000), prompt: true });
        wide.retain(|other| other.name() == processor.name());
        apply(wide, &mut c, &recent, 0);
        assert_eq!(a, c, "{}", processor.name());
    }
}

#[test]
fn without_the_prompt_only_emitted_tokens_count() {
    for processor in with_history(Window { last: None, prompt: false }) {
        let row: Vec<f64> = (0..6).map(f64::from).collect();
        let list = Processors::new(vec![processor.clone()]).unwrap();
        let (mut a, mut b) = (row.clone(), row.clone());
        let tokens = [1, 2, 1];
        list.apply(&mut a, &Position { prompt: &[4, 5, 4], tokens: &tokens, seed: 0 }, &mut |_, _| ()).unwrap();
        list.apply(&mut b, &Position { prompt: &[], tokens: &tokens, seed: 0 }, &mut |_, _| ()).unwrap();
        assert_eq!(a, b, "{}", processor.name());
        assert_ne!(a, row, "{} bites", processor.name());
    }
}

#[test]
fn special_tokens_are_left_alone_where_they_are_exempt_and_not_otherwise() {
    // Each of the three makes a logit of 4 one of 2.
    for rule in [Processor::RepetitionPenalty, Processor::FrequencyPenalty, Processor::PresencePenalty] {
        let exempt = |exempt| rule(Penalty { penalty: 2.0, window: Window::default(), exempt });
        let (mut spared, mut lowered) = ([4.0, 4.0], [4.0, 4.0]);
        apply(vec![exempt(vec![0])], &mut spared, &[0, 1], 0);
        apply(vec![exempt(vec![])], &mut lowered, &[0, 1], 0);
        assert_eq!((spared, lowered), ([4.0, 2.0], [2.0, 2.0]), "{}", exempt(vec![]).name());
    }
    // XTC leaves out both top choices here; a newline may be kept.
    let xtc = |exempt| Processor::Xtc(Xtc { probability: 1.0, threshold: 0.2, exempt });
    let row = [0.4f64, 0.35, 0.25].map(ln);
    let (mut both, mut one) = (row, row);
    apply(vec![xtc(vec![])], &mut both, &[], 0);
    apply(vec![xtc(vec![1])], &mut one, &[], 0);
    assert_eq!((kept(&both), kept(&one)), (vec![2], vec![1, 2]));
}

#[test]
fn ids_of_the_history_outside_the_vocabulary_change_nothing_and_those_of_a_parameter_are_refused() {
    let mut row = [1.0, 2.0];
    apply(with_history(Window::default()), &mut row, &[7, 8, 7, 8, 7], 0);
    assert_eq!(row, [1.0, 2.0]);
    let list = Processors::new(vec![Processor::TopK(2), Processor::Deny(vec![2])]).unwrap();
    let position = Position { prompt: &[], tokens: &[], seed: 0 };
    let error = list.apply(&mut row, &position, &mut |_, _| ()).unwrap_err();
    assert_eq!((error.code(), error.index(), error.value()), ("processor_token", Some(1), Some(2.0)));
}

#[test]
fn a_refusal_costs_nothing_and_names_the_processor() {
    let list = vec![Processor::MinP(filter(0.1)), Processor::Deny(vec![0, 1])];
    let mut run = Run::with_processors(vec![], 5, Settings::default(), Processors::new(list).unwrap());
    run.step_with(&[0.0f32, 0.0, 9.0]).unwrap();
    let before = run.clone();
    for (row, code) in [
        ([9.0, 0.0, 0.0], "processor_all_banned"),
        ([f64::NEG_INFINITY; 3], "logits_all_banned"),
        ([0.0, f64::NAN, 0.0], "logits_nan"),
    ] {
        assert_eq!(run.step_with(&row).unwrap_err().code(), code);
        assert_eq!(run, before);
    }
    let error = run.step_with(&[9.0, 0.0, 0.0]).unwrap_err();
    assert_eq!(error.index(), Some(1));
    assert_eq!(error.to_string(), "processor 1, deny: no token is left");
}

#[test]
fn parameters_out_of_range_are_refused() {
    let list = |text: &str| {
        let state = format!(
            r#"{{"contract": "quillmate-v1", "format": 1, "seed": "1", "step": 0, "prompt": [], "tokens": [],
            "settings": {{"temperature": 1, "top_k": 0, "top_p": 1, "processors": {text}}}}}"#
        );
        match GeneratorState::from_json(&state) {
            Ok(state) => panic!("{:?} is accepted", state.processors),
            Err(error) => (error.code(), error.to_string()),
        }
    };
    let one = |rest: &str| list(&format!(r#"[{{"version": 1, {rest}}}]"#));
    for (rest, code) in [
        (r#""name": "repetition_penalty", "penalty": 0"#, "processor_parameter"),
        (r#""name": "repetition_penalty", "penalty": -1.5"#, "processor_parameter"),
        (r#""name": "repetition_penalty""#, "field_missing"),
        (r#""name": "repetition_penalty", "penalty": 1.1, "window": 0"#, "processor_parameter"),
        (r#""name": "repetition_penalty", "penalty": 1.1, "window": 1.5"#, "field_type"),
        (r#""name": "repetition_penalty", "penalty": 1.1, "prompt": 1"#, "field_type"),
        (r#""name": "repetition_penalty", "penalty": 1.1, "exempt": [1, -1]"#, "field_type"),
        (r#""name": "repetition_penalty", "penalty": 1.1, "strength": 2"#, "field_unknown"),
        (r#""name": "frequency_penalty", "penalty": "0.5""#, "field_type"),
        (r#""name": "dry", "multiplier": -1, "base": 1.75, "allowed_length": 2"#, "processor_parameter"),
        (r#""name": "dry", "multiplier": 1, "base": 0.5, "allowed_length": 2"#, "processor_parameter"),
        (r#""name": "dry", "multiplier": 1, "base": 1.75, "allowed_length": 0"#, "processor_parameter"),
        (r#""name": "dry", "multiplier": 1, "base": 2, "allowed_length": 2, "breakers": [[]]"#, "processor_empty"),
        (r#""name": "dry", "multiplier": 1, "base": 2, "allowed_length": 2, "breakers": [7]"#, "field_type"),
        (r#""name": "no_repeat_ngram", "size": 0"#, "processor_parameter"),
        (r#""name": "bad_words", "words": []"#, "processor_empty"),
        (r#""name": "bad_words", "words": [[1], []]"#, "processor_empty"),
        (r#""name": "logit_bias", "biases": []"#, "processor_empty"),
        (r#""name": "logit_bias", "biases": [[1, 0.5], [1, 0.7]]"#, "processor_token_repeated"),
        (r#""name": "logit_bias", "biases": [[1]]"#, "field_type"),
        (r#""name": "logit_bias", "biases": {"1": 2}"#, "field_type"),
        (r#""name": "allow", "tokens": []"#, "processor_empty"),
        (r#""name": "min_length", "length": 3, "end_tokens": []"#, "processor_empty"),
        (r#""name": "forced_end", "length": 3, "end_tokens": []"#, "processor_empty"),
        (r#""name": "forced_end", "length": 0, "end_tokens": [1]"#, "processor_parameter"),
        (r#""name": "forced_end", "length": 3"#, "field_missing"),
        (r#""name": "temperature", "temperature": 0"#, "processor_parameter"),
        (r#""name": "top_k", "k": 0"#, "processor_parameter"),
        (r#""name": "top_k", "k": -1"#, "field_type"),
        (r#""name": "top_p", "p": 1.5"#, "processor_parameter"),
        (r#""name": "min_p", "p": 2.0"#, "processor_parameter"),
        (r#""name": "min_p", "p": 0.1, "min_keep": 0"#, "processor_parameter"),
        (r#""name": "typical", "p": -0.1"#, "processor_parameter"),
        (r#""name": "epsilon", "cutoff": 0"#, "processor_parameter"),
        (r#""name": "eta", "cutoff": 1"#, "processor_parameter"),
        (r#""name": "top_n_sigma", "n": 0"#, "processor_parameter"),
        (r#""name": "xtc", "probability": 1.1, "threshold": 0.1"#, "processor_parameter"),
        (r#""name": "xtc", "probability": 1, "threshold": null"#, "field_type"),
        (r#""name": "mirostat", "tau": 5"#, "processor_unknown"),
    ] {
        assert_eq!(one(rest).0, code, "{rest}");
    }
    for (name, version) in [("min_p", 0), ("min_p", 2), ("typical", 0), ("typical", 3), ("typical", u64::MAX)] {
        let text = format!(r#"[{{"name": "{name}", "version": {version}, "p": 0.1}}]"#);
        assert_eq!(list(&text).0, "processor_version_unknown", "{text}");
    }
    for out_of_range in [
        r#"[{"name": "typical", "version": 2, "p": 1.5}]"#,
        r#"[{"name": "top_p", "version": 2, "p": 0.5, "min_keep": 0}]"#,
        r#"[{"name": "dry", "version": 2, "multiplier": 1, "base": 0.5, "allowed_length": 2}]"#,
    ] {
        assert_eq!(list(out_of_range).0, "processor_parameter", "{out_of_range}");
    }
    let both = r#"[{"name": "typical", "version": 1, "p": 0.5}, {"name": "typical", "version": 2, "p": 0.5}]"#;
    assert_eq!(list(both).0, "processor_repeated");
    assert_eq!(list(r#"[{"name": "min_p", "p": 0.1}]"#).0, "field_missing");
    assert_eq!(list(r#"["min_p"]"#).0, "field_type");
    assert_eq!(list(r#"{"name": "min_p"}"#).0, "field_type");
    let twice = r#"{"name": "top_k", "version": 1, "k": 2}"#;
    let (code, message) = list(&format!("[{twice}, {twice}]"));
    assert_eq!((code, message.as_str()), ("processor_repeated", "processor 1, top_k: it is in the list already"));
    let (_, message) = list(r#"[{"name": "top_k", "version": 1, "k": 2}, {"name": "min_p", "version": 1}]"#);
    assert_eq!(message, "field settings.processors[1].p is missing");
}

/// What a rule makes of −0 is 0, so that the order of equal logits stays that of their ids.
#[test]
fn no_processor_makes_a_negative_zero() {
    let penalty = Penalty { penalty: 1.5, window: Window::default(), exempt: vec![] };
    for list in [vec![Processor::RepetitionPenalty(penalty)], vec![Processor::Temperature(2.0)]] {
        let mut row = [-0.0, 1.0];
        apply(list, &mut row, &[0], 0);
        assert_eq!(row[0].to_bits(), 0);
    }
}

/// The power of DRY stops at 2^100, and one of a base next to 1 costs no more than the repetition is long.
#[test]
fn the_power_of_dry_has_an_end() {
    let two_to = |exponent: u64| f64::from_bits((1023 + exponent) << 52);
    for (base, repeated, expected) in [
        (2.0, 100, -two_to(98)),
        (2.0, 102, -two_to(100)),
        (2.0, 120, -two_to(100)),
        (1f64.next_up(), 40, -(1.0 + 38.0 * f64::EPSILON)),
    ] {
        let mut row = [0.0, 0.0];
        let it = Dry { multiplier: 1.0, base, allowed_length: 1, window: Window::default(), breakers: vec![] };
        apply(vec![Processor::DryV2(it)], &mut row, &vec![0; repeated], 0);
        assert_eq!(row, [expected, 0.0], "base {base}, {repeated} times the same token");
    }
}

/// Where all the probability is in a prefix, rounding may have it add up to 1 before the last token.
#[test]
fn top_p_of_1_keeps_all() {
    for version in [Processor::TopP, Processor::TopPV2] {
        let mut row = [0.0, -40.0, -41.0];
        apply(vec![version(Filter { value: 1.0, min_keep: 1 })], &mut row, &[], 0);
        assert_eq!(row, [0.0, -40.0, -41.0]);
    }
}

/// The sum of squared deviations as CONTRACT.md writes it: another form of it, equal on paper, rounds to another cut.
#[test]
fn top_n_sigma_squares_the_deviations() {
    for (logits, n, expected) in [
        ([8.4, 8.1, 11.3, 9.7], 2.294_893_505_921_898_2, vec![2, 3]),
        ([11.0, 8.0, 9.8, 10.9], 0.994_191_625_601_919_4, vec![0, 2, 3]),
    ] {
        let mut row = logits;
        apply(vec![Processor::TopNSigma(Filter { value: n, min_keep: 1 })], &mut row, &[], 0);
        assert_eq!(kept(&row), expected, "{logits:?}");
    }
}

#[test]
fn xtc_acts_where_its_draw_is_below_its_probability() {
    let row = [0.4f64, 0.3, 0.2, 0.1].map(ln);
    let u = uniform(7, 0, 4);
    for (probability, left) in [(u.next_down(), 4), (u, 4), (u.next_up(), 2)] {
        let mut changed = row;
        apply(vec![Processor::Xtc(Xtc { probability, threshold: 0.15, exempt: vec![] })], &mut changed, &[], 7);
        assert_eq!(kept(&changed).len(), left, "{probability}");
    }
}

#[test]
fn xtc_draws_from_a_stream_of_its_own() {
    let row = [0.4f64, 0.3, 0.2, 0.1].map(ln);
    let xtc = Xtc { probability: 0.5, threshold: 0.15, exempt: vec![] };
    let list = Processors::new(vec![Processor::Xtc(xtc)]).unwrap();
    let (mut acted, mut passed) = (0, 0);
    for seed in 0..200 {
        let mut changed = row;
        list.apply(&mut changed, &Position { prompt: &[], tokens: &[9, 9], seed }, &mut |_, _| ()).unwrap();
        let acts = uniform(seed, 2, 4) < 0.5;
        assert_eq!(kept(&changed), if acts { vec![2, 3] } else { vec![0, 1, 2, 3] }, "seed {seed}");
        if acts {
            acted += 1
        } else {
            passed += 1
        }
        // The token's own draw is the one it would have been.
        let run = Run::with_processors(vec![], seed, Settings::default(), list.clone());
        assert_eq!(run.uniform(), uniform(seed, 0, 0));
    }
    assert!(acted > 60 && passed > 60);
}

#[test]
fn a_sparse_frame_does_not_suffice_for_processors() {
    let settings = Settings::new(1.0, 2, 1.0).unwrap();
    let processors = Processors::new(vec![Processor::Deny(vec![0])]).unwrap();
    let mut run = Run::with_processors(vec![], 1, settings, processors);
    let row: Vec<f32> = (0..100).map(|id| 0.7 * id as f32).collect();
    let sparse = Frame::for_settings(0, &row, &settings).unwrap();
    let before = run.clone();
    assert_eq!(run.step_with_frame(&sparse).unwrap_err().code(), "frame_insufficient");
    assert_eq!(run, before);
    let whole = run.frame(0, &row).unwrap();
    let mut other = run.clone();
    assert_eq!(run.step_with_frame(&whole), Ok(other.step_with(&row).unwrap()));
}

/// Any processor with parameters in range, over a vocabulary of `v`.
fn any_processor(v: u32) -> impl Strategy<Value = Processor> {
    let window = (prop::option::of(1u32..20), any::<bool>()).prop_map(|(last, prompt)| Window { last, prompt });
    let ids = move || prop::collection::vec(0..v, 1..4);
    let keep = (0.0..=1.0f64, 1u32..4).prop_map(|(value, min_keep)| Filter { value, min_keep });
    let cut = (0.001..0.999f64, 1u32..4).prop_map(|(value, min_keep)| Filter { value, min_keep });
    let penalty =
        (0.1..3.0f64, window.clone(), ids()).prop_map(|(penalty, window, exempt)| Penalty { penalty, window, exempt });
    let dry = (0.0..2.0f64, 1.0..3.0f64, 1u32..4, window.clone(), prop::collection::vec(ids(), 0..2)).prop_map(
        |(multiplier, base, allowed_length, window, breakers)| Dry {
            multiplier,
            base,
            allowed_length,
            window,
            breakers,
        },
    );
    let xtc = (0.0..=1.0f64, 0.0..=0.5f64, ids()).prop_map(|(probability, threshold, exempt)| Xtc {
        probability,
        threshold,
        exempt,
    });
    prop_oneof![
        penalty.clone().prop_map(Processor::RepetitionPenalty),
        penalty.clone().prop_map(Processor::FrequencyPenalty),
        penalty.prop_map(Processor::PresencePenalty),
        dry.clone().prop_map(Processor::Dry),
        dry.prop_map(Processor::DryV2),
        (1u32..4, window).prop_map(|(size, window)| Processor::NoRepeatNgram(Ngram { size, window })),
        prop::collection::vec(ids(), 1..3).prop_map(Processor::BadWords),
        (0..v, -5.0..5.0f64).prop_map(|bias| Processor::LogitBias(vec![bias])),
        ids().prop_map(Processor::Allow),
        ids().prop_map(Processor::Deny),
        ids().prop_map(Processor::ForcedPrefix),
        (0u32..30, ids()).prop_map(|(length, end_tokens)| Processor::MinLength(Length { length, end_tokens })),
        (1u32..30, ids()).prop_map(|(length, end_tokens)| Processor::ForcedEnd(Length { length, end_tokens })),
        (0.2..3.0f64).prop_map(Processor::Temperature),
        (1..v).prop_map(Processor::TopK),
        keep.clone().prop_map(Processor::TopP),
        keep.clone().prop_map(Processor::TopPV2),
        keep.clone().prop_map(Processor::MinP),
        keep.clone().prop_map(Processor::Typical),
        keep.prop_map(Processor::TypicalV2),
        cut.clone().prop_map(Processor::Epsilon),
        cut.clone().prop_map(Processor::Eta),
        cut.prop_map(Processor::TopNSigma),
        xtc.prop_map(Processor::Xtc),
    ]
}

/// A list in which each name occurs once.
fn any_list(v: u32) -> impl Strategy<Value = Processors> {
    prop::collection::vec(any_processor(v), 0..6).prop_map(|mut list| {
        let mut names = Vec::new();
        list.retain(|it| {
            let new = !names.contains(&it.name());
            names.push(it.name());
            new
        });
        Processors::new(list).expect("in range")
    })
}

/// A row with ties and bans, a function of the context.
fn row(context: &[u32], v: u32) -> Vec<f32> {
    let seed = context.iter().fold(7u64, |hash, token| draw(hash ^ u64::from(*token), 0, 9));
    let one = |id| match draw(seed, u64::from(id), 9) {
        bits if bits % 13 == 0 => f32::NEG_INFINITY,
        bits => (bits % 16) as f32 / 2.0,
    };
    (0..v).map(|id| if id == 5 { 1.0 } else { one(id) }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Cut after every step and resumed through text, a run emits the same tokens, or the same refusals.
    #[test]
    fn a_run_with_processors_resumes_anywhere(
        processors in any_list(23), seed in any::<u64>(), prompt in prop::collection::vec(0u32..23, 0..9)
    ) {
        let settings = Settings::new(0.9, 0, 0.95).unwrap();
        let mut straight = Run::with_processors(prompt, seed, settings, processors);
        for _ in 0..12 {
            let stored = straight.state().to_json();
            let mut resumed = Run::from_state(GeneratorState::from_json(&stored).unwrap());
            prop_assert_eq!(&resumed, &straight, "every parameter survives the text");
            let logits = row(&straight.context(), 23);
            let (a, b) = (straight.step_with(&logits), resumed.step_with(&logits));
            prop_assert_eq!(a, b);
            prop_assert_eq!(&resumed, &straight);
            if a.is_err() {
                prop_assert_eq!(straight.state().to_json(), stored);
                break;
            }
        }
    }

    /// What was banned stays banned, what is left has finite logits, and at least one token is left or it is refused.
    #[test]
    fn a_processed_row_is_a_row(
        processors in any_list(23), seed in any::<u64>(), history in prop::collection::vec(0u32..23, 0..30)
    ) {
        let before = row(&history, 23);
        let mut after: Vec<f64> = before.iter().map(|logit| f64::from(*logit)).collect();
        let position = Position { prompt: &[], tokens: &history, seed };
        let mut stages = 0;
        if let Err(error) = processors.apply(&mut after, &position, &mut |_, _| stages += 1) {
            prop_assert_eq!(error.code(), "processor_all_banned");
            prop_assert_eq!(error.index(), Some(stages));
            return Ok(());
        }
        prop_assert_eq!(stages as usize, processors.len());
        for (before, after) in before.iter().zip(&after) {
            prop_assert!(after.is_finite() || *after == f64::NEG_INFINITY);
            prop_assert!(*before != f32::NEG_INFINITY || *after == f64::NEG_INFINITY);
        }
        prop_assert!(after.iter().any(|logit| logit.is_finite()));
    }

    /// Every list the reader takes is written as a state that the schema takes, and reads back the same.
    #[test]
    fn the_schema_takes_every_list(processors in any_list(23)) {
        let schema: Value = serde_json::from_str(quillmate_sampler::STATE_SCHEMA).unwrap();
        let run = Run::with_processors(vec![1], 3, Settings::default(), processors);
        let state = serde_json::to_value(run.state()).unwrap();
        prop_assert!(jsonschema::draft202012::is_valid(&schema, &state), "{}", state);
    }

    /// The least argument behind min-p: the same tokens as comparing the weights themselves.
    #[test]
    fn min_p_through_logits_is_min_p_through_weights(p in 0.0..=1.0f64, seed in any::<u64>()) {
        let logits: Vec<f64> = (0..40).map(|id| (draw(seed, id, 0) % 4000) as f64 / 300.0).collect();
        let highest = logits.iter().copied().fold(f64::NEG_INFINITY, |a, b| if b > a { b } else { a });
        // Thresholds that sit on a weight are the sharp ones.
        for p in [p, exp(logits[7] - highest), 0.0, 1.0] {
            let mut row = logits.clone();
            apply(vec![Processor::MinP(filter(p))], &mut row, &[], 0);
            let expected: Vec<u32> =
                (0..40).filter(|id| exp(logits[*id as usize] - highest) >= p).collect();
            prop_assert_eq!(kept(&row), expected);
        }
    }
}
