//! verify: a true claim matches, and each kind of fault is found at its first step and named.

use quillmate_sampler::comparison::RunPart;
use quillmate_sampler::{
    Claim, Filter, Frame, Identity, Processor, Processors, Record, RecordFile, Run, RunSettings, Settings, Stop,
    Verdict, Why, first_divergence, verify,
};

const STEPS: u64 = 12;

fn rows() -> Vec<Vec<f32>> {
    let bytes = include_bytes!("../vectors/golden_run.f32");
    let logits: Vec<f32> = bytes.as_chunks().0.iter().map(|logit| f32::from_le_bytes(*logit)).collect();
    logits.chunks(512).map(<[f32]>::to_vec).collect()
}

/// A record that starts at step `start`, and the true claim.
fn run_from(start: u64) -> (Record, Claim) {
    let settings = Settings::new(0.8, 50, 0.95).unwrap();
    let mut run = Run::new(vec![1, 403, 407], 41, settings);
    let rows = rows();
    let mut record = Record { start: run.state().clone(), frames: Vec::new() };
    let mut checksums = Vec::new();
    for step in 0..STEPS {
        if step == start {
            record = Record { start: run.state().clone(), frames: Vec::new() };
            checksums.clear();
        }
        let frame = Frame::for_settings(step, &rows[step as usize], &settings).unwrap();
        run.step_with_frame(&frame).unwrap();
        record.frames.push(frame.encode());
        checksums.push(frame.checksum());
    }
    let tokens = run.tokens()[start as usize..].to_vec();
    (record, Claim { tokens, state: run.state().clone(), frame_checksums: Some(checksums) })
}

/// Changes a token in both places a claim has it.
fn tamper(claim: &mut Claim, step: usize, token: u32) {
    let offset = claim.state.tokens.len() - claim.tokens.len();
    claim.tokens[step - offset] = token;
    claim.state.tokens[step] = token;
}

fn divergence(record: &Record, claim: &Claim) -> (u64, Option<u32>, Option<u32>, Why) {
    match verify(record, claim) {
        Verdict::Diverged(found) => (found.step, found.expected_token, found.claimed_token, found.why),
        other => panic!("{other:?}"),
    }
}

fn refusal(record: &Record, claim: &Claim) -> (&'static str, String) {
    match verify(record, claim) {
        Verdict::Refused { code, message } => (code, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_true_claim_matches_from_any_start_and_for_any_length() {
    for start in [0, 5, STEPS - 1] {
        let (record, claim) = run_from(start);
        assert_eq!(verify(&record, &claim), Verdict::Match { steps: STEPS - start });
    }
    let (record, mut claim) = run_from(0);
    claim.tokens.truncate(7);
    claim.state.tokens.truncate(7);
    claim.frame_checksums = None;
    assert_eq!(verify(&record, &claim), Verdict::Match { steps: 7 });
}

#[test]
fn the_first_tampered_token_is_named_wherever_it_is() {
    for start in [0, 5] {
        for step in start as usize..STEPS as usize {
            let (record, mut claim) = run_from(start);
            let truth = claim.state.tokens[step];
            tamper(&mut claim, step, truth ^ 1);
            if step + 2 < STEPS as usize {
                tamper(&mut claim, step + 2, 0);
            }
            assert_eq!(divergence(&record, &claim), (step as u64, Some(truth), Some(truth ^ 1), Why::Token));
        }
    }
}

#[test]
fn a_state_that_tells_another_story_than_the_tokens_is_named() {
    let (record, mut claim) = run_from(0);
    let truth = claim.state.tokens[4];
    claim.state.tokens[4] = 9;
    assert_eq!(divergence(&record, &claim), (4, Some(truth), Some(9), Why::Token));

    let (record, mut claim) = run_from(5);
    let truth = claim.state.tokens[2];
    claim.state.tokens[2] = truth + 1;
    assert_eq!(divergence(&record, &claim), (2, Some(truth), Some(truth + 1), Why::Token));

    // The state ends before the record begins.
    let (record, mut claim) = run_from(5);
    let truth = claim.state.tokens[3];
    claim.state.tokens.truncate(3);
    assert_eq!(divergence(&record, &claim), (3, Some(truth), None, Why::Token));

    let (record, mut claim) = run_from(0);
    let truth = claim.state.tokens.pop().unwrap();
    assert_eq!(divergence(&record, &claim), (STEPS - 1, Some(truth), None, Why::Token));
}

#[test]
fn other_settings_seeds_prompts_and_logits_are_told_apart() {
    let (record, claim) = run_from(0);
    let first = claim.tokens[0];

    let mut other = claim.clone();
    other.state.settings = Settings::new(0.8, 50, 0.95f64.next_up()).unwrap();
    let (step, expected, claimed, why) = divergence(&record, &other);
    assert_eq!((step, expected, claimed), (0, Some(first), Some(first)));
    assert!(matches!(why, Why::Settings { .. }));

    let mut other = claim.clone();
    other.state.seed = 42;
    let (_, _, _, why) = divergence(&record, &other);
    let Why::Draw { expected, claimed } = why else { panic!("{why:?}") };
    assert_eq!((expected.seed.as_str(), claimed.seed.as_str()), ("41", "42"));
    assert_eq!(claimed.uniform, 0.7415648787718233);

    for (prompt, index, expected, claimed) in [
        (&[1, 404, 407][..], 1, Some(403), Some(404)),
        (&[1, 403], 2, Some(407), None),
        (&[1, 403, 407, 9], 3, None, Some(9)),
    ] {
        let mut other = claim.clone();
        other.state.prompt = prompt.to_vec();
        let (_, _, _, why) = divergence(&record, &other);
        assert_eq!(why, Why::Prompt { index, expected, claimed });
    }

    let mut other = claim.clone();
    other.frame_checksums.as_mut().unwrap()[6] ^= 1;
    let (step, expected, claimed, why) = divergence(&record, &other);
    assert_eq!((step, expected, claimed), (6, Some(claim.tokens[6]), Some(claim.tokens[6])));
    assert!(matches!(why, Why::Logits { .. }));
}

/// A claim whose state differs in nothing but its processors: none where there are some, others, another parameter, another
/// order. All tokens and frames are the record's.
#[test]
fn other_processors_in_the_state_are_other_settings() {
    let min_p = |value| Processor::MinP(Filter { value, min_keep: 1 });
    // Not one of them changes a token of this run, so that nothing but the state tells them apart.
    let of = |list: &[Processor]| Processors::new(list.to_vec()).unwrap();
    let (one, other) = (of(&[min_p(1e-12)]), Processor::Deny(vec![511]));
    let settings = Settings::new(0.8, 50, 0.95).unwrap();
    let mut run = Run::with_processors(vec![1, 403, 407], 41, settings, one.clone());
    let mut record = Record { start: run.state().clone(), frames: Vec::new() };
    for (step, row) in rows().iter().take(4).enumerate() {
        let frame = Frame::dense(step as u64, row).unwrap();
        run.step_with_frame(&frame).unwrap();
        record.frames.push(frame.encode());
    }
    let claim = Claim { tokens: run.tokens().to_vec(), state: run.state().clone(), frame_checksums: None };
    assert_eq!(verify(&record, &claim), Verdict::Match { steps: 4 });
    for processors in
        [of(&[]), of(&[min_p(2e-12)]), of(std::slice::from_ref(&other)), of(&[min_p(1e-12), other.clone()])]
    {
        let mut claim = claim.clone();
        claim.state.processors = processors.clone();
        let why = Why::Settings {
            expected: RunSettings { settings, processors: one.clone() },
            claimed: RunSettings { settings, processors },
        };
        let first = claim.tokens[0];
        assert_eq!(divergence(&record, &claim), (0, Some(first), Some(first), why));
    }
    // The order is part of the rule.
    let (forth, back) = (of(&[min_p(1e-12), other.clone()]), of(&[other, min_p(1e-12)]));
    record.start.processors = forth;
    let mut claim = claim;
    claim.state.processors = back;
    assert!(matches!(divergence(&record, &claim).3, Why::Settings { .. }));
}

#[test]
fn what_cannot_be_judged_is_refused() {
    let (record, claim) = run_from(0);

    let mut empty = claim.clone();
    empty.tokens.clear();
    assert_eq!(refusal(&record, &empty).0, "claim_empty");

    let mut longer = claim.clone();
    longer.tokens.push(1);
    longer.state.tokens.push(1);
    longer.frame_checksums = None;
    let (code, message) = refusal(&record, &longer);
    assert_eq!((code, message.as_str()), ("frames_missing", "the record has no frame for step 12"));

    let mut fewer = claim.clone();
    fewer.frame_checksums.as_mut().unwrap().pop();
    assert_eq!(refusal(&record, &fewer).0, "claim_malformed");

    let mut shorter = claim.clone();
    shorter.tokens.pop();
    shorter.frame_checksums = None;
    assert_eq!(refusal(&record, &shorter).0, "claim_malformed");

    let mut damaged = record.clone();
    damaged.frames[3][40] ^= 4;
    let (code, message) = refusal(&damaged, &claim);
    assert_eq!(code, "frame_damaged");
    assert!(message.starts_with("the record's frame for step 3: "), "{message}");

    let mut swapped = record.clone();
    swapped.frames.swap(1, 2);
    assert_eq!(refusal(&swapped, &claim).0, "frame_step_mismatch");
}

#[test]
fn verdicts_are_the_json_the_types_declare() {
    let (record, mut claim) = run_from(0);
    assert_eq!(serde_json::to_string(&verify(&record, &claim)).unwrap(), r#"{"verdict":"match","steps":12}"#);
    let truth = claim.tokens[3];
    tamper(&mut claim, 3, 9);
    let json: serde_json::Value = serde_json::to_value(verify(&record, &claim)).unwrap();
    assert_eq!(json["verdict"], "diverged");
    assert_eq!(json["why"], "token");
    assert_eq!((&json["step"], &json["expected_token"], &json["claimed_token"]), (&3.into(), &truth.into(), &9.into()));
    let message =
        format!("step 3: the record gives token {truth}, the claim token 9; logits, settings and draw are the same");
    assert_eq!(json["message"], message);
}

#[test]
fn claims_are_read_strictly() {
    let (_, claim) = run_from(0);
    let state = claim.state.to_json();
    let text = |checksums: &str| format!(r#"{{"tokens": {:?}, "state": {state}{checksums}}}"#, claim.tokens);
    assert_eq!(Claim::from_json(&text("")).unwrap().tokens, claim.tokens);
    let read = Claim::from_json(&text(r#", "frame_checksums": ["0000002a"]"#)).unwrap();
    assert_eq!(read.frame_checksums, Some(vec![42]));
    for (extra, path) in [
        (r#", "frame_checksums": ["2a"]"#, "frame_checksums[0]"),
        (r#", "frame_checksums": ["+000002a"]"#, "frame_checksums[0]"),
        (r#", "note": 1"#, "field note"),
    ] {
        let error = Claim::from_json(&text(extra)).unwrap_err().to_string();
        assert!(error.starts_with(path), "{error}");
    }
    let inner = text("").replace("\"42\"", "42").replace(r#""seed":"41""#, r#""seed":41"#);
    assert!(Claim::from_json(&inner).unwrap_err().to_string().starts_with("the seed must be a string"));
}

/// A run's record and a second account of it, once as a record and once as a claim.
#[derive(Clone)]
struct Accounts {
    first: RecordFile,
    second: RecordFile,
}

impl Accounts {
    /// Steps 5 to 11 of the run.
    fn equal() -> Self {
        let (record, claim) = run_from(5);
        let frames = record.frames.iter().map(|frame| Some(Frame::decode(frame).unwrap())).collect();
        let first = RecordFile {
            identity: Identity::default(),
            start: record.start,
            tokens: claim.tokens,
            draws_used: None,
            frames: Some(frames),
            decisions: None,
            stop: Stop::default(),
        };
        Self { second: first.clone(), first }
    }

    fn verified(&self) -> (Option<RunPart>, Option<u64>) {
        let second = &self.second;
        let mut state = second.start.clone();
        state.tokens.extend(&second.tokens);
        let checksum = |frame: &Option<Frame>| frame.as_ref().unwrap().checksum();
        let frame_checksums = second.frames.as_ref().map(|frames| frames.iter().map(checksum).collect());
        let claim = Claim { tokens: second.tokens.clone(), state, frame_checksums };
        match verify(&self.first.for_verification().unwrap(), &claim) {
            Verdict::Match { .. } => (None, None),
            Verdict::Refused { code, message } => panic!("{code}: {message}"),
            Verdict::Diverged(found) => match found.why {
                Why::Prompt { .. } => (Some(RunPart::InputIds), None),
                Why::Token if found.step < 5 => (Some(RunPart::InputIds), None),
                Why::Settings { .. } => (Some(RunPart::Settings), Some(found.step)),
                Why::Draw { .. } => (Some(RunPart::Draw), Some(found.step)),
                Why::Logits { .. } => (Some(RunPart::Logits), Some(found.step)),
                Why::Token => (Some(RunPart::Token), Some(found.step)),
            },
        }
    }

    fn compared(&self) -> (Option<RunPart>, Option<u64>) {
        let first = first_divergence(&self.first, &self.second, false).first;
        (first.as_ref().map(|found| found.what), first.and_then(|found| found.step))
    }
}

#[test]
fn a_verdict_and_a_comparison_name_the_same_difference() {
    type Change = (&'static str, fn(&mut RecordFile));
    fn other_logits(record: &mut RecordFile, step: u64) {
        let frame = Frame::for_settings(step, &rows()[0], &record.start.settings).unwrap();
        record.frames.as_mut().unwrap()[step as usize - 5] = Some(frame);
    }
    let changes: [Change; 9] = [
        ("prompt", |it| it.start.prompt[1] = 404),
        ("earlier token", |it| it.start.tokens[2] ^= 1),
        ("first logits", |it| other_logits(it, 5)),
        ("later logits", |it| other_logits(it, 8)),
        ("temperature", |it| it.start.settings = Settings::new(0.9, 50, 0.95).unwrap()),
        ("processors", |it| it.start.processors = Processors::new(vec![Processor::Deny(vec![511])]).unwrap()),
        ("seed", |it| it.start.seed = 42),
        ("first token", |it| it.tokens[0] ^= 1),
        ("later token", |it| it.tokens[4] ^= 1),
    ];
    let equal = Accounts::equal();
    assert_eq!((equal.verified(), equal.compared()), ((None, None), (None, None)));
    for (at, (one, change)) in changes.iter().enumerate() {
        for (other, also) in &changes[at..] {
            let mut accounts = equal.clone();
            change(&mut accounts.second);
            if other != one {
                also(&mut accounts.second);
            }
            let found = accounts.verified();
            assert!(found.0.is_some(), "{one} and {other}");
            assert_eq!(found, accounts.compared(), "{one} and {other}");
        }
    }
}

/// A comparison asks where the runs part; a check, whether the claim is one of this record.
#[test]
fn a_claim_must_have_the_settings_and_the_seed_even_where_they_have_no_effect() {
    type Change = (fn(&mut RecordFile), RunPart, &'static str);
    let changes: [Change; 2] = [
        (|it| it.start.settings = Settings::new(0.0, 49, 0.95).unwrap(), RunPart::Settings, "top_k"),
        (|it| it.start.seed = 42, RunPart::Draw, "seed"),
    ];
    for (change, part, field) in changes {
        let mut accounts = Accounts::equal();
        accounts.first.start.settings = Settings::new(0.0, 50, 0.95).unwrap();
        let mut run = Run::from_state(accounts.first.start.clone());
        let frames = accounts.first.frames.as_ref().unwrap().iter().flatten();
        accounts.first.tokens = frames.map(|frame| run.step_with_frame(frame).unwrap()).collect();
        accounts.second = accounts.first.clone();
        assert_eq!(accounts.verified(), (None, None));
        change(&mut accounts.second);
        assert_eq!(accounts.verified(), (Some(part), Some(5)));
        let comparison = first_divergence(&accounts.first, &accounts.second, false);
        assert_eq!((comparison.first, comparison.beside[0].field), (None, field));
    }
}
