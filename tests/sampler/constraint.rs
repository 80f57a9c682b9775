//! Constraints: the text fits, fitting text need not be true, and a run resumes from its tokens alone.

use proptest::prelude::*;
use quillmate_sampler::constraint::{Allowed, Constraint, ConstraintError, FiniteLanguage, OK, constrain};
use quillmate_sampler::{Frame, GeneratorState, LogitsError, Refusal, Run, Settings, draw};
use serde_json::Value;

/// Pieces that overlap in every way, some that fit nowhere, special tokens without bytes, and two ends.
const VOCABULARY: [&[u8]; 30] = [
    b"",
    b"{",
    b"\"",
    b"o",
    b"k",
    b"ok",
    b"{\"",
    b"\"ok\"",
    b"{\"ok\":",
    b"\":",
    b":",
    b"t",
    b"tr",
    b"ue",
    b"true",
    b"r",
    b"u",
    b"e",
    b"f",
    b"alse",
    b"false",
    b"false}",
    b"}",
    b"e}",
    b" ",
    b"null",
    b"}}",
    b"",
    b"<end>",
    b"yes",
];
const ENDS: [u32; 2] = [28, 0];

fn ok() -> FiniteLanguage {
    FiniteLanguage::new(&OK, &VOCABULARY, &ENDS).unwrap()
}

fn bytes(tokens: &[u32]) -> Vec<u8> {
    tokens.iter().filter(|id| !ENDS.contains(id)).flat_map(|&id| VOCABULARY[id as usize]).copied().collect()
}

/// The truth value of a text that must be JSON.
fn said(text: &[u8]) -> bool {
    let value: Value = serde_json::from_slice(text).unwrap();
    let object = value.as_object().unwrap();
    assert_eq!(object.len(), 1);
    object["ok"].as_bool().unwrap()
}

/// Every sequence the constraint lets through, up to its end token.
fn paths(constraint: &mut FiniteLanguage, tokens: &mut Vec<u32>, found: &mut Vec<Vec<u32>>) {
    let allowed: Vec<u32> = constraint.allowed(tokens).unwrap().iter().collect();
    assert!(!allowed.is_empty(), "a dead end after {tokens:?}");
    for id in allowed {
        tokens.push(id);
        if ENDS.contains(&id) {
            found.push(tokens.clone())
        } else {
            paths(constraint, tokens, found)
        }
        tokens.pop();
    }
}

/// In how many ways a text can be cut into tokens: a sum over its prefixes, which knows nothing of automata.
fn cuts(text: &[u8]) -> usize {
    let mut ways = vec![0; text.len() + 1];
    ways[0] = 1;
    for end in 1..=text.len() {
        for (id, token) in (0u32..).zip(VOCABULARY) {
            if !token.is_empty() && !ENDS.contains(&id) && text[..end].ends_with(token) {
                ways[end] += ways[end - token.len()];
            }
        }
    }
    ways[text.len()]
}

#[test]
fn every_sequence_that_can_be_emitted_parses() {
    let mut found = Vec::new();
    paths(&mut ok(), &mut Vec::new(), &mut found);
    let mut counts = [0, 0];
    for path in &found {
        counts[usize::from(said(&bytes(path)))] += 1;
    }
    // All of them, and no other: each way to cut a text, with each end.
    assert_eq!(counts, [2 * cuts(OK[1]), 2 * cuts(OK[0])]);
    assert!(counts.iter().all(|&count| count >= 60), "{counts:?}");
}

/// Logits that know nothing of JSON, some of them banned: a function of context and seed.
fn noise(tokens: &[u32], seed: u64) -> Vec<f32> {
    let at = tokens.iter().fold(seed, |at, &id| at.wrapping_mul(31).wrapping_add(u64::from(id) + 1));
    (0..VOCABULARY.len() as u64).map(|id| (draw(at, id, 9) >> 40) as f32 / (1 << 20) as f32 - 8.0).collect()
}

#[test]
fn whatever_the_logits_seeds_and_settings_it_parses() {
    let all = [(0.0, 0, 1.0), (0.8, 3, 0.9), (1.0, 0, 1.0), (5.0, 1, 0.5), (100.0, 0, 0.99)];
    let mut seen = [0, 0];
    for seed in 0..2000 {
        let (temperature, top_k, top_p) = all[seed as usize % all.len()];
        let mut run = Run::new(vec![7, 7], seed, Settings::new(temperature, top_k, top_p).unwrap());
        let mut constraint = ok();
        while !run.tokens().last().is_some_and(|token| ENDS.contains(token)) {
            let row = constrain(&noise(run.tokens(), seed), &mut constraint, run.tokens()).unwrap();
            run.step_with(&row).unwrap();
        }
        seen[usize::from(said(&bytes(run.tokens())))] += 1;
    }
    assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
}

/// What a run says of a question whose answer the model believes with probability 0.9.
fn answer(believed: bool, seed: u64) -> bool {
    let vocabulary = [&b"{\"ok\":"[..], b"true", b"false", b"}", b"<end>"];
    let mut constraint = FiniteLanguage::new(&OK, &vocabulary, &[4]).unwrap();
    let mut run = Run::new(vec![], seed, Settings::new(1.0, 0, 1.0).unwrap());
    while run.tokens().last() != Some(&4) {
        // ln 9 = 2.1972245773362196: nine to one.
        let belief = |value: bool| if value == believed { 2.197_224_6f32 } else { 0.0 };
        let logits = [0.0, belief(true), belief(false), 0.0, 0.0];
        run.step_with(&constrain(&logits, &mut constraint, run.tokens()).unwrap()).unwrap();
    }
    let text: Vec<u8> = run.tokens()[..3].iter().flat_map(|&id| vocabulary[id as usize]).copied().collect();
    said(&text)
}

#[test]
fn valid_syntax_can_still_be_untrue() {
    let truth = false;
    // A model that knows better says the untrue thing now and then, in perfect JSON…
    let untrue = (0..1000).filter(|&seed| answer(truth, seed) != truth).count();
    assert!((70..130).contains(&untrue), "{untrue} of 1000");
    // …and one that believes the wrong thing says it nine times in ten; the constraint does not mind.
    let untrue = (0..1000).filter(|&seed| answer(!truth, seed) != truth).count();
    assert!((870..930).contains(&untrue), "{untrue} of 1000");
}

#[test]
fn a_run_resumes_with_its_tokens_alone_and_replays_without_the_constraint() {
    for seed in 0..50 {
        let start = Run::new(vec![1], seed, Settings::new(2.0, 0, 0.95).unwrap());
        let (mut run, mut kept) = (start.clone(), ok());
        let (mut states, mut frames) = (vec![run.state().to_json()], Vec::new());
        while !run.tokens().last().is_some_and(|token| ENDS.contains(token)) {
            let row = constrain(&noise(run.tokens(), seed), &mut kept, run.tokens()).unwrap();
            frames.push(Frame::for_settings(run.position(), &row, run.settings()).unwrap().encode());
            run.step_with(&row).unwrap();
            states.push(run.state().to_json());
        }
        for state in &states {
            let mut resumed = Run::from_state(GeneratorState::from_json(state).unwrap());
            while resumed.position() < run.position() {
                // A constraint made anew each time.
                let row = constrain(&noise(resumed.tokens(), seed), &mut ok(), resumed.tokens()).unwrap();
                resumed.step_with(&row).unwrap();
            }
            assert_eq!(resumed, run);
        }
        let mut replayed = start;
        for frame in &frames {
            replayed.step_with_frame(&Frame::decode(frame).unwrap()).unwrap();
        }
        assert_eq!(replayed, run);
    }
}

#[test]
fn the_ban_comes_before_everything_else() {
    let mut logits = vec![0.0f32; VOCABULARY.len()];
    logits[29] = 100.0;
    logits[6] = 1.0;
    let row = constrain(&logits, &mut ok(), &[]).unwrap();
    for (temperature, top_k, top_p) in [(0.0, 0, 1.0), (1.0, 1, 1.0), (1.0, 0, 0.0), (0.01, 0, 1.0)] {
        let mut run = Run::new(vec![], 1, Settings::new(temperature, top_k, top_p).unwrap());
        assert_eq!(run.step_with(&row), Ok(6));
    }
    // What is allowed keeps its bits, what is not is -inf.
    for (id, (&before, &after)) in (0u32..).zip(logits.iter().zip(&row)) {
        let expected = if [1, 6, 8].contains(&id) { before } else { f32::NEG_INFINITY };
        assert_eq!(after.to_bits(), expected.to_bits(), "{id}");
    }
}

#[test]
fn a_dead_end_is_an_error_and_not_a_token() {
    // The model bans the only tokens that are allowed.
    let mut logits = vec![0.5f64; VOCABULARY.len()];
    for id in [14, 20, 21, 12, 11, 18] {
        logits[id] = f64::NEG_INFINITY;
    }
    let error = constrain(&logits, &mut ok(), &[8]).unwrap_err();
    assert_eq!(error, ConstraintError::DeadEnd { step: 1 });
    assert_eq!((error.code(), error.index()), ("constraint_dead_end", Some(1)));
    assert!(constrain(&logits, &mut ok(), &[]).is_ok());
    // A vocabulary that can write neither text: nothing is ever begun that cannot be finished.
    let mut short = FiniteLanguage::new(&OK, &[&b"{\"ok\":"[..], b"true", b"false", b"<end>"], &[3]).unwrap();
    assert_eq!(short.allowed(&[]).unwrap(), Allowed::none(4));
    assert_eq!(constrain(&[0.0f32; 4], &mut short, &[]), Err(ConstraintError::DeadEnd { step: 0 }));
    // One that can write one of the two is led there.
    let mut half = FiniteLanguage::new(&OK, &[&b"{\"ok\":"[..], b"true}", b"false", b"<end>"], &[3]).unwrap();
    assert!(half.allowed(&[0]).unwrap().iter().eq([1]));
}

#[test]
fn tokens_that_were_never_allowed_are_named() {
    for (tokens, index) in [
        (&[8, 14, 24][..], 2),
        (&[29], 0),
        (&[0], 0),
        (&[8, 27], 1),
        (&[8, 14, 22, 22], 3),
        (&[8, 14, 22, 28, 8], 4),
        (&[8, 1000], 1),
        (&[8, u32::MAX, 29], 1),
    ] {
        let error = ok().allowed(tokens).unwrap_err();
        let token = tokens[index];
        assert_eq!(error, ConstraintError::Violated { index: index as u64, token }, "{tokens:?}");
        let shown = (error.code(), error.index(), error.value());
        assert_eq!(shown, ("constraint_violated", Some(index as u64), Some(f64::from(token))));
    }
}

#[test]
fn after_the_end_there_is_only_the_end() {
    for tokens in [&[8, 14, 22][..], &[8, 21], &[8, 21, 28], &[8, 21, 0, 28, 0]] {
        assert!(ok().allowed(tokens).unwrap().iter().eq([0, 28]), "{tokens:?}");
    }
    // One text may begin another, and then both may end.
    let mut nested = FiniteLanguage::new(&["", "a", "ab"], &["a", "b", "ab", "$"], &[3, 3]).unwrap();
    for (tokens, allowed) in [(&[][..], &[0, 2, 3][..]), (&[0], &[1, 3]), (&[2], &[3]), (&[3], &[3])] {
        assert!(nested.allowed(tokens).unwrap().iter().eq(allowed.iter().copied()), "{tokens:?}");
    }
}

#[test]
fn what_cannot_be_a_constraint_is_refused() {
    let none: [&[u8]; 0] = [];
    assert_eq!(FiniteLanguage::new(&none, &VOCABULARY, &ENDS).unwrap_err().code(), "constraint_empty");
    assert_eq!(FiniteLanguage::new(&OK, &VOCABULARY, &[]).unwrap_err().code(), "constraint_empty");
    let outside = FiniteLanguage::new(&OK, &VOCABULARY, &[30]).unwrap_err();
    assert_eq!((outside.code(), outside.value()), ("constraint_vocabulary", Some(30.0)));
    let longer = constrain(&[0.0f32; 31], &mut ok(), &[]).unwrap_err();
    assert_eq!((longer.code(), longer.value()), ("constraint_vocabulary", Some(31.0)));
}

#[test]
fn a_row_is_refused_as_it_is_without_a_constraint() {
    let row = |id: usize, logit| {
        let mut row = vec![0.0f32; VOCABULARY.len()];
        row[id] = logit;
        row
    };
    // At a place that is banned and at one that is not.
    for id in [1, 29] {
        let refused = constrain(&row(id, f32::NAN), &mut ok(), &[]);
        assert_eq!(refused, Err(LogitsError::NotANumber(id as u32).into()));
        let refused = constrain(&row(id, f32::INFINITY), &mut ok(), &[]);
        assert_eq!(refused, Err(LogitsError::PositiveInfinity(id as u32).into()));
    }
    let banned = [f32::NEG_INFINITY; 30];
    assert_eq!(constrain(&banned, &mut ok(), &[]).unwrap_err().code(), "logits_all_banned");
    assert_eq!(constrain::<f32>(&[], &mut ok(), &[]).unwrap_err().code(), "logits_empty");
}

#[test]
fn a_set_holds_what_was_put_in() {
    let mut set = Allowed::none(130);
    let ids = [0, 1, 63, 64, 65, 127, 128, 129];
    assert!(ids.iter().all(|&id| set.allow(id)));
    assert!(!set.allow(130) && !set.allow(u32::MAX));
    assert!(set.iter().eq(ids));
    assert!((0..200).all(|id| set.contains(id) == ids.contains(&id)));
    assert_eq!(Allowed::none(0).iter().count(), 0);
    // The vocabulary ends where a word of bits does.
    assert!(!Allowed::none(64).contains(64));
}

/// Whether a beginning can still become one of the texts, in these tokens: by trying.
fn finishable(texts: &[String], vocabulary: &[String], begun: &str) -> bool {
    texts.iter().any(|text| text == begun)
        || vocabulary.iter().filter(|token| !token.is_empty()).any(|token| {
            let next = format!("{begun}{token}");
            texts.iter().any(|text| text.starts_with(&next)) && finishable(texts, vocabulary, &next)
        })
}

proptest! {
    #[test]
    fn the_table_allows_what_can_be_finished_and_nothing_else(
        texts in prop::collection::vec("[ab]{0,6}", 1..5),
        vocabulary in prop::collection::vec("[ab]{0,3}", 1..8),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 8),
    ) {
        let end = vocabulary.len() as u32;
        let with_end: Vec<String> = vocabulary.iter().cloned().chain(["end".into()]).collect();
        let mut constraint = FiniteLanguage::new(&texts, &with_end, &[end]).unwrap();
        let (mut tokens, mut begun) = (Vec::new(), String::new());
        for pick in picks {
            let allowed: Vec<u32> = constraint.allowed(&tokens).unwrap().iter().collect();
            let mut expected: Vec<u32> = (0u32..)
                .zip(&vocabulary)
                .filter(|(_, token)| {
                    let next = format!("{begun}{token}");
                    !token.is_empty() && texts.iter().any(|text| text.starts_with(&next))
                        && finishable(&texts, &vocabulary, &next)
                })
                .map(|(id, _)| id)
                .collect();
            if texts.contains(&begun) {
                expected.push(end);
            }
            prop_assert_eq!(&allowed, &expected);
            let on: Vec<u32> = allowed.into_iter().filter(|&id| id != end).collect();
            if on.is_empty() {
                break;
            }
            let id = on[pick.index(on.len())];
            tokens.push(id);
            begun += &vocabulary[id as usize];
        }
    }
}
