//! Records, and where two of them first differ.

use proptest::prelude::*;
use quillmate_sampler::comparison::{Lacking, Missing, Outcome, RunPart};
use quillmate_sampler::{
    Comparison, Environment, Frame, GeneratorState, Identity, RECORD_SCHEMA, RecordFile, Refusal, Run, Settings,
    TARGET, first_divergence, verify,
};
use serde_json::{Value, json};

const STEPS: usize = 12;

fn row(context: &[u32]) -> Vec<f32> {
    let mut hash = 17u32;
    for id in context {
        hash = hash.wrapping_mul(31).wrapping_add(*id).wrapping_mul(2_654_435_761);
    }
    (0..60u32).map(|id| (hash.wrapping_mul(2 * id + 1) >> 16) as f32 / 16384.0).collect()
}

/// A run as it is recorded, with everything that can be.
fn record_of(mut run: Run, steps: usize) -> Value {
    let start = run.state().clone();
    let (mut frames, mut decisions) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        let logits = row(&run.context());
        let frame = if run.processors().is_empty() {
            Frame::for_settings(run.position(), &logits, run.settings())
        } else {
            Frame::dense(run.position(), &logits)
        };
        let frame = frame.unwrap();
        let (draw, index) = (run.uniform(), run.position());
        let token = run.step_with_frame(&frame).unwrap();
        decisions
            .push(json!({"token_id": token, "candidate_count": 5, "selected_probability": 0.25, "random_draw": draw,
            "draw_index": index, "algorithm_version": "quillmate-v1"}));
        frames.push(frame);
    }
    let record = RecordFile {
        identity: Identity { constraint: None, ..Identity::of_this_release() },
        tokens: run.tokens()[start.tokens.len()..].to_vec(),
        draws_used: Some(RecordFile::draws(&start, steps as u64)),
        start,
        frames: Some(frames.into_iter().map(Some).collect()),
        decisions: None,
        stop: quillmate_sampler::Stop {
            max_tokens: Some(steps as u64),
            end_tokens: Some(vec![0]),
            reason: Some("length".into()),
        },
    };
    let mut record: Value = serde_json::from_str(&record.to_json()).unwrap();
    record["identity"]["environment"] = json!({"build_features": "+sse2", "server": "0.1.0 grammar", "cpu_features": "avx2",
        "kernels": "avx2", "threads": "2", "drafts": "4"});
    record["identity"]["model"] =
        json!({"name": "m", "sha256": "aa", "arithmetic": "x-1", "tokenizer_sha256": "bb", "vocab": 60});
    record["decisions"] = decisions.into();
    record
}

fn run(seed: u64) -> Run {
    Run::new(vec![1, 2, 3], seed, Settings::new(0.9, 20, 0.95).unwrap())
}

fn good() -> Value {
    record_of(run(42), STEPS)
}

fn read(record: &Value) -> RecordFile {
    RecordFile::from_json(&record.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

fn compare(first: &Value, second: &Value) -> Comparison {
    first_divergence(&read(first), &read(second), false)
}

/// The record with a change; a `null` decision list goes with most changes, so that frames are the evidence.
fn changed(change: impl FnOnce(&mut Value)) -> Value {
    let mut record = good();
    change(&mut record);
    record
}

fn frame_text(frame: &Frame) -> Value {
    let record = RecordFile {
        identity: Identity::default(),
        start: GeneratorState { tokens: vec![0; frame.step() as usize], ..run(1).state().clone() },
        tokens: vec![0],
        draws_used: None,
        frames: Some(vec![Some(frame.clone())]),
        decisions: None,
        stop: quillmate_sampler::Stop::default(),
    };
    serde_json::from_str::<Value>(&record.to_json()).unwrap()["frames"][0].take()
}

/// The ids of a frame, likeliest first.
fn ranked(frame: &Frame) -> Vec<u32> {
    let mut entries: Vec<_> = frame.entries().collect();
    entries.sort_by(|a, b| b.1.total_cmp(&a.1));
    entries.into_iter().map(|(id, _)| id).collect()
}

/// The frame of a step with the logits of some of its likeliest tokens moved by the least there is.
fn nudged(record: &Value, step: usize, ranks: &[usize]) -> Value {
    let record = read(record);
    let frame = record.frames.unwrap()[step].clone().unwrap();
    let mut logits = frame.logits_for(&record.start.settings).unwrap();
    let ranked = ranked(&frame);
    for rank in ranks {
        let id = ranked[*rank] as usize;
        logits[id] = logits[id].next_up();
    }
    frame_text(&Frame::sparse(step as u64, &logits, 20).unwrap())
}

#[track_caller]
fn parts(comparison: &Comparison, what: RunPart, step: Option<u64>, at: &str) {
    assert_eq!(comparison.outcome, Outcome::Diverged, "{}", comparison.paragraph);
    let first = comparison.first.as_ref().unwrap();
    assert_eq!((first.what, first.step, first.at.as_str()), (what, step, at), "{}", comparison.paragraph);
    assert_eq!(first.values, None);
}

#[test]
fn a_record_against_itself_is_the_same() {
    let record = good();
    let comparison = compare(&record, &record);
    assert_eq!(comparison.outcome, Outcome::Same, "{}", comparison.paragraph);
    assert_eq!((comparison.steps, &comparison.first, comparison.first_token), (STEPS as u64, &None, None));
    assert!(comparison.release.is_empty() && comparison.missing.is_empty());
    assert!(comparison.paragraph.starts_with("The runs are the same: 12 steps"), "{}", comparison.paragraph);
    // Without decisions frames are evidence enough.
    let bare = changed(|record| record["decisions"] = Value::Null);
    assert_eq!(compare(&bare, &record).outcome, Outcome::Same);
}

#[test]
fn another_release_is_said_first_and_is_no_divergence() {
    for (name, field) in [("crate_version", "crate version"), ("target", "target")] {
        let other = changed(|record| record["identity"][name] = "other".into());
        let comparison = compare(&good(), &other);
        assert_eq!((comparison.outcome, comparison.release.len()), (Outcome::Same, 1));
        assert_eq!(comparison.release[0].field, field);
        assert_eq!(comparison.release[0].second.as_deref(), Some("other"));
        let mine = good()["identity"][name].as_str().unwrap().to_owned();
        let opening = format!(
            "The records were not made by the same release: {field} {mine} and other. The runs are the same: 12 steps"
        );
        assert!(comparison.paragraph.starts_with(&opening), "{}", comparison.paragraph);
    }
    for (name, field) in [("sha256", "model file"), ("arithmetic", "arithmetic"), ("tokenizer_sha256", "tokenizer")] {
        let other = changed(|record| record["identity"]["model"][name] = "other".into());
        assert_eq!(compare(&good(), &other).release[0].field, field);
    }
    let other = changed(|record| record["identity"]["model"]["vocab"] = 61.into());
    let comparison = compare(&good(), &other);
    assert_eq!((comparison.outcome, comparison.release.len()), (Outcome::Same, 1));
    assert!(comparison.paragraph.contains("vocabulary 60 and 61"), "{}", comparison.paragraph);
    let unsaid = changed(|record| record["identity"]["model"]["vocab"] = Value::Null);
    assert!(compare(&good(), &unsaid).paragraph.contains("not compared: vocabulary (the second)"));
    // Circumstances are reported by name, as something no replay depends on.
    for (name, field) in [
        ("build_features", "build features"),
        ("server", "server"),
        ("cpu_features", "processor features"),
        ("kernels", "kernels"),
        ("threads", "threads"),
        ("drafts", "drafts"),
    ] {
        let other = changed(|record| record["identity"]["environment"][name] = "other".into());
        let comparison = compare(&good(), &other);
        assert_eq!((comparison.outcome, comparison.release.len()), (Outcome::Same, 1));
        assert_eq!((comparison.release[0].field, comparison.release[0].circumstance), (field, true));
        let mine = good()["identity"]["environment"][name].as_str().unwrap().to_owned();
        let opening = format!(
            "They were made in other circumstances, on which no replay depends: {field} {mine} and other. The runs are the \
             same: 12 steps"
        );
        assert!(comparison.paragraph.starts_with(&opening), "{}", comparison.paragraph);
        let unsaid = changed(|record| record["identity"]["environment"][name] = Value::Null);
        let expected = format!("Not recorded, and so not compared: {field} (the first).");
        assert!(compare(&unsaid, &good()).paragraph.starts_with(&expected));
    }
    // What one does not say is not equal to what the other says, nor to nothing.
    let silent = changed(|record| record["identity"]["model"]["arithmetic"] = Value::Null);
    for (first, second, who) in
        [(&silent, &good(), "the first"), (&good(), &silent, "the second"), (&silent, &silent, "both")]
    {
        let comparison = compare(first, second);
        let expected = format!("Not recorded, and so not compared: arithmetic ({who}).");
        assert!(comparison.paragraph.starts_with(&expected), "{}", comparison.paragraph);
    }
    // The name is for people.
    let renamed = changed(|record| record["identity"]["model"]["name"] = "other".into());
    assert!(compare(&good(), &renamed).release.is_empty());
    assert_eq!(good()["identity"]["target"], TARGET);
}

#[test]
fn other_input_ids() {
    let other = changed(|record| record["start"]["prompt"][1] = 9.into());
    let comparison = compare(&good(), &other);
    parts(&comparison, RunPart::InputIds, None, "index 1");
    let paragraph = "The runs part before their first step, in the input ids: from id 1 on.";
    assert_eq!(comparison.paragraph, paragraph);
    let longer = record_of(Run::new(vec![1, 2, 3, 4], 42, Settings::new(0.9, 20, 0.95).unwrap()), STEPS);
    parts(&compare(&good(), &longer), RunPart::InputIds, None, "index 3");
}

#[test]
fn other_logits_are_told_by_digest_and_rank_and_may_change_no_token() {
    let first_of_two = (5, &[15, 3][..], "rank 4");
    for (step, ranks, at) in [(0, &[0][..], "rank 1"), (7, &[4], "rank 5"), (11, &[19], "rank 20"), first_of_two] {
        let mut other = good();
        other["frames"][step] = nudged(&good(), step, ranks);
        let comparison = compare(&good(), &other);
        parts(&comparison, RunPart::Logits, Some(step as u64), at);
        let digests = comparison.first.unwrap().digests.unwrap();
        assert_ne!(digests[0], digests[1]);
        assert!(comparison.paragraph.contains(&digests[1]), "{}", comparison.paragraph);
        assert_eq!(comparison.first_token, None);
        assert!(comparison.paragraph.contains("tokens are the same all the same"), "{}", comparison.paragraph);
        assert_eq!(comparison.steps, step as u64);
    }
}

#[test]
fn frames_that_hold_more_or_less_of_the_same_logits_do_not_differ() {
    let mut dense = changed(|record| record["decisions"] = Value::Null);
    let mut context = vec![1, 2, 3];
    for step in 0..STEPS {
        dense["frames"][step] = frame_text(&Frame::dense(step as u64, &row(&context)).unwrap());
        context.push(dense["tokens"][step].as_u64().unwrap() as u32);
    }
    assert_ne!(dense["frames"], good()["frames"]);
    for (first, second) in [(&good(), &dense), (&dense, &good())] {
        let comparison = compare(first, second);
        assert_eq!(comparison.outcome, Outcome::Same, "{}", comparison.paragraph);
        // Where one of two holds a part, a part was compared.
        assert!(comparison.paragraph.contains("logits (as far as their frames hold them"), "{}", comparison.paragraph);
    }
    // One that says it has all allowed tokens, and has fewer, does.
    let mut banned = dense.clone();
    let mut logits = row(&[1, 2, 3]);
    let best = ranked(&Frame::dense(0, &logits).unwrap());
    best[10..].iter().for_each(|id| logits[*id as usize] = f32::NEG_INFINITY);
    banned["frames"][0] = frame_text(&Frame::dense(0, &logits).unwrap());
    for other in [&dense, &good()] {
        parts(&compare(&banned, other), RunPart::Logits, Some(0), "rank 11");
        parts(&compare(other, &banned), RunPart::Logits, Some(0), "rank 11");
    }
}

#[test]
fn other_settings_and_processors() {
    for (name, value) in [("temperature", json!(0.8)), ("top_k", json!(19)), ("top_p", json!(0.9))] {
        let other = changed(|record| record["start"]["settings"][name] = value.clone());
        let comparison = compare(&good(), &other);
        parts(&comparison, RunPart::Settings, Some(0), name);
        assert!(comparison.paragraph.contains(name), "{}", comparison.paragraph);
    }
    let with = |list: Value| {
        changed(|record| {
            record["start"]["settings"]["processors"] = list;
            record["decisions"] = Value::Null;
        })
    };
    let min_p = |p: f64| json!({"name": "min_p", "version": 1, "p": p});
    let bias = json!({"name": "logit_bias", "version": 1, "biases": [[7, 1.5]]});
    let [one, other, both] = [json!([min_p(0.05)]), json!([bias]), json!([min_p(0.05), bias])].map(with);
    for (first, second, at, detail) in [
        (&good(), &one, "processors[0]", "processor 0 differs (none and min_p)"),
        (&one, &good(), "processors[0]", "processor 0 differs (min_p and none)"),
        (&one, &other, "processors[0]", "processor 0 differs (min_p and logit_bias)"),
        (&one, &both, "processors[1]", "processor 1 differs (none and logit_bias)"),
        // Of parameters nothing is told.
        (&one, &with(json!([min_p(0.06)])), "processors[0]", "processor 0 differs (min_p and min_p)"),
    ] {
        let comparison = compare(first, second);
        parts(&comparison, RunPart::Settings, Some(0), at);
        assert_eq!(comparison.first.unwrap().detail, detail);
        assert!(!comparison.paragraph.contains("0.06"), "{}", comparison.paragraph);
    }
    let constrained = changed(|record| record["identity"]["constraint"] = "json-ok-1".into());
    parts(&compare(&good(), &constrained), RunPart::Settings, Some(0), "constraint");
}

#[test]
fn other_candidates_and_other_recorded_draws() {
    let other = changed(|record| record["decisions"][4]["candidate_count"] = 6.into());
    parts(&compare(&good(), &other), RunPart::Candidates, Some(4), "count");
    let other = changed(|record| record["decisions"][5]["selected_probability"] = 0.250_000_000_000_000_1.into());
    parts(&compare(&good(), &other), RunPart::Candidates, Some(5), "probability");
    let other = changed(|record| record["decisions"][6]["draw_index"] = 7.into());
    parts(&compare(&good(), &other), RunPart::Draw, Some(6), "index");
    let other = changed(|record| record["decisions"][6]["random_draw"] = 0.5.into());
    parts(&compare(&good(), &other), RunPart::Draw, Some(6), "value");
}

#[test]
fn another_seed_and_another_place_in_the_stream() {
    let other = record_of(run(43), STEPS);
    let bare = |mut record: Value| {
        record["decisions"] = Value::Null;
        record
    };
    parts(&compare(&bare(good()), &bare(other)), RunPart::Draw, Some(0), "value");
    // The same ids before the first step, but of these one was emitted: another place in the stream.
    let later = GeneratorState { prompt: vec![1, 2], tokens: vec![3], ..run(42).state().clone() };
    let other = record_of(Run::from_state(later), STEPS);
    let comparison = compare(&bare(good()), &bare(other));
    parts(&comparison, RunPart::Draw, Some(0), "index");
    assert!(
        comparison.paragraph.contains("number 0 of the stream in the first record, number 1"),
        "{}",
        comparison.paragraph
    );
}

#[test]
fn another_token_from_equal_evidence() {
    let forged = |step: usize, by: u64| {
        changed(|record| {
            let wrong = (record["tokens"][step].as_u64().unwrap() + by) % 60;
            record["tokens"][step] = wrong.into();
            record["decisions"][step]["token_id"] = wrong.into();
        })
    };
    for step in 0..STEPS {
        for (first, second, whose) in [
            (&good(), &forged(step, 1), "the first record's"),
            (&forged(step, 1), &good(), "the second record's"),
            (&forged(step, 1), &forged(step, 2), "neither"),
        ] {
            let comparison = compare(first, second);
            parts(&comparison, RunPart::Token, Some(step as u64), "id");
            assert_eq!(comparison.first_token, Some(step as u64));
            let paragraph =
                format!("The runs part at step {step}, in the token: recomputed here, the step gives {whose}.");
            assert_eq!(comparison.paragraph, paragraph);
        }
    }
}

#[test]
fn another_stop() {
    let shorter = record_of(run(42), 9);
    let mut silent = shorter.clone();
    silent["stop"]["reason"] = Value::Null;
    for (first, second, first_goes_on, second_goes_on) in [
        (&good(), &shorter, "3 tokens from here (length)", "0 (length)"),
        (&shorter, &good(), "0 tokens from here (length)", "3 (length)"),
        (&good(), &silent, "3 tokens from here (length)", "0 (no reason recorded)"),
    ] {
        let comparison = compare(first, second);
        parts(&comparison, RunPart::Stop, Some(9), "tokens");
        let paragraph = format!(
            "The runs part at step 9, in the stop: the first goes on for {first_goes_on}, the second for {second_goes_on}."
        );
        assert_eq!(comparison.paragraph, paragraph);
    }
    for (name, value) in [("max_tokens", json!(40)), ("end_tokens", json!([0, 2])), ("reason", json!("stopped"))] {
        let other = changed(|record| record["stop"][name] = value.clone());
        parts(&compare(&good(), &other), RunPart::Stop, Some(STEPS as u64), name);
        let silent = changed(|record| record["stop"][name] = Value::Null);
        for (first, second, record) in
            [(&good(), &silent, Lacking::Second), (&silent, &good(), Lacking::First), (&silent, &silent, Lacking::Both)]
        {
            let comparison = compare(first, second);
            assert_eq!(comparison.outcome, Outcome::Insufficient, "{}", comparison.paragraph);
            assert_eq!(comparison.missing, [Missing { what: RunPart::Stop, record, step: None }]);
        }
    }
}

#[test]
fn missing_frames_are_missing_and_never_equal() {
    let bare = changed(|record| record["decisions"] = Value::Null);
    let without = |step: Option<usize>| {
        let mut record = bare.clone();
        match step {
            Some(step) => record["frames"][step] = Value::Null,
            None => record["frames"] = Value::Null,
        }
        record
    };
    for (first, second, record, step) in [
        (&bare, &without(None), Lacking::Second, 0),
        (&without(None), &bare, Lacking::First, 0),
        (&without(None), &without(None), Lacking::Both, 0),
        (&bare, &without(Some(5)), Lacking::Second, 5),
        (&without(Some(5)), &without(Some(5)), Lacking::Both, 5),
    ] {
        let comparison = compare(first, second);
        assert_eq!(comparison.outcome, Outcome::Insufficient, "{}", comparison.paragraph);
        assert_eq!(comparison.first, None);
        let lacks = |what| Missing { what, record, step: Some(step) };
        assert_eq!(comparison.missing, [lacks(RunPart::Logits), lacks(RunPart::Candidates)]);
        assert!(comparison.paragraph.contains("not enough to call the runs the same"), "{}", comparison.paragraph);
    }
    // A difference is reported even if something is missing, which is reported too.
    let mut other = without(None);
    other["tokens"][3] = ((other["tokens"][3].as_u64().unwrap() + 1) % 60).into();
    let comparison = compare(&bare, &other);
    parts(&comparison, RunPart::Token, Some(3), "id");
    assert!(
        comparison.paragraph.contains("Missing up to there: logits in the second record from step 0"),
        "{}",
        comparison.paragraph
    );
    // Frames too narrow for the settings leave the candidates open.
    let narrow = |record: &Value| {
        let mut record = record.clone();
        record["start"]["settings"]["top_k"] = 0.into();
        record
    };
    let comparison = compare(&narrow(&bare), &narrow(&bare));
    assert_eq!(comparison.missing, [Missing { what: RunPart::Candidates, record: Lacking::Both, step: Some(0) }]);
    // Records without a common step cannot be compared.
    let far = GeneratorState { prompt: vec![1, 2, 3], ..read(&bare).start };
    let mut tokens = read(&bare).tokens;
    tokens.extend([1; 5]);
    let far = Run::from_state(GeneratorState { tokens, ..far });
    for steps in [0, 2] {
        let far = record_of(far.clone(), steps);
        for (first, second, record) in [(&bare, &far, Lacking::First), (&far, &bare, Lacking::Second)] {
            let comparison = compare(first, second);
            assert_eq!(comparison.outcome, Outcome::Insufficient, "{}", comparison.paragraph);
            let lacks = Missing { what: RunPart::Token, record, step: Some(STEPS as u64) };
            assert_eq!(comparison.missing, [lacks], "{steps} steps");
        }
    }
}

#[test]
fn a_record_resumed_in_the_middle_is_the_rest_of_the_whole() {
    let whole = good();
    let mut middle = run(42);
    for _ in 0..5 {
        middle.step_with(&row(&middle.context())).unwrap();
    }
    let rest = record_of(middle, STEPS - 5);
    for (first, second) in [(&whole, &rest), (&rest, &whole)] {
        let comparison = compare(first, second);
        assert_eq!((comparison.outcome, comparison.steps), (Outcome::Same, 7), "{}", comparison.paragraph);
    }
    // A token the one emitted and the other was given is an input id.
    let mut other = rest.clone();
    other["start"]["tokens"][2] = 59.into();
    parts(&compare(&whole, &other), RunPart::InputIds, None, "index 5");
}

#[test]
fn raw_values_come_only_when_asked_for() {
    let mut other = good();
    other["frames"][7] = nudged(&good(), 7, &[0]);
    let [one, other] = [good(), other].map(|record| read(&record));
    let told = |values| serde_json::to_value(first_divergence(&one, &other, values)).unwrap();
    assert_eq!(told(false)["first"].get("values"), None);
    let values = &told(true)["first"]["values"];
    assert_eq!(values[0].as_array().unwrap().len(), 5);
    assert_eq!(values[0][0][0], values[1][0][0]);
    assert_ne!(values[0][0][1], values[1][0][1]);
    assert_eq!(told(true)["outcome"], "diverged");
    assert_eq!(told(true)["first"]["what"], "logits");
    // Without raw values the report has no seed, draw or id.
    let seeds = first_divergence(&one, &read(&record_of(run(987_654_321), STEPS)), false);
    assert!(!seeds.paragraph.contains("987654321") && !seeds.paragraph.contains("42,"), "{}", seeds.paragraph);
}

#[test]
fn a_record_reads_back_as_it_was_written_and_verifies() {
    let text = good().to_string();
    let record = RecordFile::from_json(&text).unwrap();
    assert_eq!(RecordFile::from_json(&record.to_json()).unwrap(), record);
    assert_eq!(serde_json::from_str::<Value>(&record.to_json()).unwrap(), good());
    let mut state = record.start.clone();
    state.tokens.extend(&record.tokens);
    let claim = quillmate_sampler::Claim { tokens: record.tokens.clone(), state, frame_checksums: None };
    let verdict = verify(&record.for_verification().unwrap(), &claim);
    assert_eq!(verdict, quillmate_sampler::Verdict::Match { steps: STEPS as u64 });
    let schema: Value = serde_json::from_str(RECORD_SCHEMA).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    assert!(schema.is_valid(&good()));
    assert!(!schema.is_valid(&changed(|record| record["stop"] = Value::Null)));
}

#[test]
fn form_2_is_read_and_its_circumstances_are_not_known() {
    let record = good();
    let mut old = record.clone();
    old["record"] = 2.into();
    // With the circumstances it is no record of form 2, and without them none of form 3.
    assert_eq!(RecordFile::from_json(&old.to_string()).unwrap_err().code(), "field_unknown");
    old["identity"].as_object_mut().unwrap().remove("environment");
    let read = RecordFile::from_json(&old.to_string()).unwrap();
    assert_eq!(read.identity.environment, Environment::default());
    let comparison = compare(&old, &record);
    assert_eq!(comparison.outcome, Outcome::Same, "{}", comparison.paragraph);
    assert!(
        comparison
            .paragraph
            .starts_with("Not recorded, and so not compared: environment (the first). The runs are the same"),
        "{}",
        comparison.paragraph
    );
    old["record"] = 3.into();
    assert_eq!(RecordFile::from_json(&old.to_string()).unwrap_err().code(), "field_missing");
}

/// Greedy runs draw nothing: another seed is no other run, nor are top-k and top-p, which greedy settings ignore.
#[test]
fn greedy_records_of_other_seeds_are_the_same_run() {
    let greedy =
        |seed, top_k, top_p| record_of(Run::new(vec![1, 2, 3], seed, Settings::new(0.0, top_k, top_p).unwrap()), STEPS);
    let bare = |mut record: Value| {
        record["decisions"] = Value::Null;
        record
    };
    let (one, other) = (bare(greedy(42, 0, 1.0)), bare(greedy(987_654_321, 0, 1.0)));
    assert_eq!(one["tokens"], other["tokens"]);
    let comparison = compare(&one, &other);
    assert_eq!((comparison.outcome, &comparison.first), (Outcome::Same, &None), "{}", comparison.paragraph);
    assert_eq!(comparison.beside.len(), 1);
    assert_eq!((comparison.beside[0].field, &comparison.beside[0].values), ("seed", &None));
    assert!(comparison.paragraph.contains("candidates and tokens (no draw took part), and the same stop."));
    assert!(
        comparison.paragraph.ends_with("Beside that, the seeds differ, and no draw took part."),
        "{}",
        comparison.paragraph
    );
    assert!(!comparison.paragraph.contains("987654321"));
    let told = first_divergence(&read(&one), &read(&other), true);
    assert!(told.paragraph.contains(r#"first "42", second "987654321""#), "{}", told.paragraph);
    let written = serde_json::to_value(&told).unwrap();
    assert_eq!(written["beside"][0]["values"], json!(["42", "987654321"]));

    let comparison = compare(&one, &bare(greedy(42, 7, 0.5)));
    let fields: Vec<_> = comparison.beside.iter().map(|beside| beside.field).collect();
    assert_eq!((comparison.outcome, fields), (Outcome::Same, vec!["top_k", "top_p"]), "{}", comparison.paragraph);
    // Where a draw takes part they are differences as before.
    parts(&compare(&bare(good()), &bare(record_of(run(43), STEPS))), RunPart::Draw, Some(0), "value");
    // XTC draws for greedy runs too, unless it acts always or never.
    let with_xtc = |seed, probability: f64| {
        let mut record = bare(greedy(seed, 0, 1.0));
        let xtc = json!([{"name": "xtc", "version": 1, "probability": probability, "threshold": 0.1, "exempt": []}]);
        record["start"]["settings"]["processors"] = xtc;
        record
    };
    parts(&compare(&with_xtc(42, 0.5), &with_xtc(43, 0.5)), RunPart::Draw, Some(0), "value");
    for probability in [0.0, 1.0] {
        let comparison = compare(&with_xtc(42, probability), &with_xtc(43, probability));
        assert_eq!((comparison.first, comparison.beside.len()), (None, 1));
    }
    // Nothing was drawn where nothing was emitted.
    let empty = |seed| record_of(run(seed), 0);
    let comparison = compare(&empty(42), &empty(43));
    assert_eq!((comparison.outcome, comparison.beside.len()), (Outcome::Same, 1), "{}", comparison.paragraph);
    assert!(comparison.paragraph.contains("tokens (no draw took part)"), "{}", comparison.paragraph);
    assert!(!comparison.paragraph.contains("draws"), "{}", comparison.paragraph);
}

/// The same ids, of which one record counts the last as emitted: greedy runs number their steps otherwise and are the same,
/// but where a processor tells prompt and emitted tokens apart.
#[test]
fn greedy_records_may_count_their_steps_from_other_places() {
    let greedy = |prompt: Vec<u32>, tokens: Vec<u32>, processors: Value| {
        let settings = Settings::new(0.0, 0, 1.0).unwrap();
        let state = GeneratorState { tokens, ..Run::new(prompt, 42, settings).state().clone() };
        let mut record = record_of(Run::from_state(state), STEPS);
        record["decisions"] = Value::Null;
        if processors != Value::Null {
            record["start"]["settings"]["processors"] = processors;
        }
        record
    };
    let pair = |processors: Value| {
        compare(&greedy(vec![1, 2, 3], vec![], processors.clone()), &greedy(vec![1, 2], vec![3], processors))
    };
    let comparison = pair(Value::Null);
    assert_eq!((comparison.outcome, comparison.beside[0].field), (Outcome::Same, "step"), "{}", comparison.paragraph);
    let comparison = pair(json!([{"name": "min_p", "version": 1, "p": 0.05}]));
    assert_eq!((&comparison.first, comparison.beside[0].field), (&None, "step"), "{}", comparison.paragraph);
    for always in [
        json!({"name": "min_length", "version": 1, "length": 4, "end_tokens": [0]}),
        json!({"name": "forced_end", "version": 1, "length": 40, "end_tokens": [0]}),
        json!({"name": "forced_prefix", "version": 1, "tokens": [7]}),
    ] {
        parts(&pair(json!([always])), RunPart::InputIds, None, "emitted");
    }
    // What looks back does unless it sees prompt and emitted tokens alike.
    for mut looks_back in [
        json!({"name": "repetition_penalty", "version": 1, "penalty": 1.1}),
        json!({"name": "frequency_penalty", "version": 1, "penalty": 1.0}),
        json!({"name": "presence_penalty", "version": 1, "penalty": 1.0}),
        json!({"name": "dry", "version": 1, "multiplier": 1.0, "base": 2.0, "allowed_length": 2}),
        json!({"name": "dry", "version": 2, "multiplier": 1.0, "base": 2.0, "allowed_length": 2}),
        json!({"name": "no_repeat_ngram", "version": 1, "size": 3}),
    ] {
        let comparison = pair(json!([looks_back]));
        assert_eq!((&comparison.first, comparison.beside[0].field), (&None, "step"), "{}", comparison.paragraph);
        looks_back["prompt"] = false.into();
        parts(&pair(json!([looks_back])), RunPart::InputIds, None, "emitted");
    }
}

#[test]
fn what_is_a_set_is_compared_as_a_set() {
    let stop = |tokens: Value| changed(|record| record["stop"]["end_tokens"] = tokens);
    let comparison = compare(&stop(json!([0, 2, 5])), &stop(json!([5, 0, 2, 0])));
    assert_eq!(comparison.outcome, Outcome::Same, "{}", comparison.paragraph);
    parts(&compare(&stop(json!([0, 2, 5])), &stop(json!([0, 2]))), RunPart::Stop, Some(STEPS as u64), "end_tokens");
    let with = |processor: &Value| {
        changed(|record| {
            record["start"]["settings"]["processors"] = json!([processor]);
            record["decisions"] = Value::Null;
        })
    };
    let penalty = |exempt: Value| json!({"name": "repetition_penalty", "version": 1, "penalty": 1.1, "exempt": exempt});
    let frequency =
        |exempt: Value| json!({"name": "frequency_penalty", "version": 1, "penalty": 1.1, "exempt": exempt});
    let presence = |exempt: Value| json!({"name": "presence_penalty", "version": 1, "penalty": 1.1, "exempt": exempt});
    let dry = |breakers: Value| json!({"name": "dry", "version": 2, "multiplier": 1.0, "base": 2.0, "allowed_length": 2, "breakers": breakers});
    let words = |words: Value| json!({"name": "bad_words", "version": 1, "words": words});
    let bias = |biases: Value| json!({"name": "logit_bias", "version": 1, "biases": biases});
    let list = |name: &str, tokens: Value| json!({"name": name, "version": 1, "tokens": tokens});
    let length = |tokens: Value| json!({"name": "min_length", "version": 1, "length": 2, "end_tokens": tokens});
    let end = |tokens: Value| json!({"name": "forced_end", "version": 1, "length": 2, "end_tokens": tokens});
    let xtc =
        |exempt: Value| json!({"name": "xtc", "version": 1, "probability": 0.5, "threshold": 0.1, "exempt": exempt});
    for (one, same, other) in [
        (penalty(json!([1, 2])), penalty(json!([2, 1, 2])), penalty(json!([1, 3]))),
        (frequency(json!([1, 2])), frequency(json!([2, 1])), frequency(json!([1]))),
        (presence(json!([1, 2])), presence(json!([2, 1])), presence(json!([1]))),
        (dry(json!([[1], [2, 3]])), dry(json!([[2, 3], [1]])), dry(json!([[3, 2], [1]]))),
        (words(json!([[1], [2, 3]])), words(json!([[2, 3], [1], [1]])), words(json!([[1]]))),
        (bias(json!([[1, 0.5], [2, 1.5]])), bias(json!([[2, 1.5], [1, 0.5]])), bias(json!([[2, 0.5], [1, 1.5]]))),
        (list("allow", json!([1, 2])), list("allow", json!([2, 1])), list("allow", json!([1]))),
        (list("deny", json!([1, 2])), list("deny", json!([2, 1])), list("deny", json!([1]))),
        (length(json!([1, 2])), length(json!([2, 1])), length(json!([1]))),
        (end(json!([1, 2])), end(json!([2, 1])), end(json!([1]))),
        (xtc(json!([1, 2])), xtc(json!([2, 1])), xtc(json!([1]))),
    ] {
        let comparison = compare(&with(&one), &with(&same));
        assert_eq!(comparison.first, None, "{one} and {same}: {}", comparison.paragraph);
        for (one, other) in [(&one, &other), (&other, &one)] {
            parts(&compare(&with(one), &with(other)), RunPart::Settings, Some(0), "processors[0]");
        }
    }
    // Another version of a rule is reported as another rule.
    let mut old = dry(json!([[1]]));
    old["version"] = 1.into();
    let comparison = compare(&with(&old), &with(&dry(json!([[1]]))));
    parts(&comparison, RunPart::Settings, Some(0), "processors[0]");
    assert!(comparison.paragraph.contains("(dry version 1 and dry version 2)"), "{}", comparison.paragraph);
    // A prefix is a sequence.
    let (forth, back) = (list("forced_prefix", json!([1, 2])), list("forced_prefix", json!([2, 1])));
    parts(&compare(&with(&forth), &with(&back)), RunPart::Settings, Some(0), "processors[0]");
}

#[test]
fn what_was_not_recorded_is_missing_and_neither_equal_nor_different() {
    let silent = changed(|record| record["draws_used"] = Value::Null);
    for (first, second, record) in
        [(&good(), &silent, Lacking::Second), (&silent, &good(), Lacking::First), (&silent, &silent, Lacking::Both)]
    {
        let comparison = compare(first, second);
        assert_eq!(comparison.outcome, Outcome::Insufficient, "{}", comparison.paragraph);
        assert_eq!(comparison.missing, [Missing { what: RunPart::Draw, record, step: None }]);
    }
    // A decision that leaves a number out contradicts nothing. Where the frame tells the candidates, nothing is missing.
    let untold = changed(|record| {
        for field in ["selected_probability", "random_draw", "draw_index"] {
            record["decisions"][4][field] = Value::Null;
        }
    });
    assert_eq!(compare(&good(), &untold).outcome, Outcome::Same, "{}", compare(&good(), &untold).paragraph);
    let without_frames = |mut record: Value| {
        record["frames"] = Value::Null;
        record
    };
    let comparison = compare(&without_frames(good()), &without_frames(untold));
    let lacks = |what, record, step| Missing { what, record, step: Some(step) };
    let expected = [lacks(RunPart::Logits, Lacking::Both, 0), lacks(RunPart::Candidates, Lacking::Second, 4)];
    assert_eq!((comparison.first, comparison.missing), (None, expected.to_vec()));
}

/// Frames that hold the best 20 say nothing of the others, and the paragraph does not claim it.
#[test]
fn the_paragraph_says_as_far_as_what_the_logits_are_equal() {
    let sparse = compare(&good(), &good()).paragraph;
    assert!(
        sparse.contains("logits (as far as their frames hold them, which is as far as these settings look)"),
        "{sparse}"
    );
    let dense = record_of(Run::new(vec![1, 2, 3], 42, Settings::new(0.9, 0, 1.0).unwrap()), STEPS);
    let dense = compare(&dense, &dense).paragraph;
    assert!(
        dense.contains("equal input ids, logits, settings and processors, candidates, draws and tokens"),
        "{dense}"
    );
}

#[test]
fn form_1_is_read_and_what_it_did_not_hold_is_not_known() {
    let record = good();
    let old = json!({"record": 1, "model": {"name": "m", "sha256": "aa", "tokenizer_sha256": "bb", "vocab": 60},
        "start": record["start"], "tokens": record["tokens"], "frames": record["frames"], "reason": "length"});
    assert_eq!(read(&old).stop.reason.as_deref(), Some("length"));
    let comparison = compare(&old, &record);
    assert_eq!(comparison.outcome, Outcome::Insufficient);
    let lacks = |what| Missing { what, record: Lacking::First, step: None };
    assert_eq!(comparison.missing, [lacks(RunPart::Draw), lacks(RunPart::Stop)]);
    let unsaid: Vec<_> = comparison.release.iter().map(|field| (field.field, field.first.is_none())).collect();
    assert_eq!(unsaid, [("crate version", true), ("target", true), ("arithmetic", true), ("environment", true)]);
}

#[test]
fn records_that_are_refused() {
    let code = |record: Value| RecordFile::from_json(&record.to_string()).unwrap_err().code();
    let refused = |change: &dyn Fn(&mut Value)| code(changed(change));
    assert_eq!(refused(&|record| record["record"] = 4.into()), "record_unknown");
    assert_eq!(
        refused(&|record| record["start"]["contract"] = "mosaic-splitmix64-top-k-top-p-v1".into()),
        "contract_unknown"
    );
    assert_eq!(refused(&|record| record["identity"]["model"]["sha256"] = 1.into()), "field_type");
    assert_eq!(refused(&|record| record["surplus"] = 1.into()), "field_unknown");
    assert_eq!(refused(&|record| record["stop"]["surplus"] = 1.into()), "field_unknown");
    assert_eq!(refused(&|record| record["draws_used"] = 11.into()), "draws_mismatch");
    assert_eq!(refused(&|record| drop(record["tokens"].as_array_mut().unwrap().pop())), "record_lengths");
    assert_eq!(refused(&|record| drop(record["decisions"].as_array_mut().unwrap().pop())), "record_lengths");
    assert_eq!(refused(&|record| record["frames"][2] = "!".into()), "frame_not_base64");
    assert_eq!(refused(&|record| record["frames"][2] = "AAAA".into()), "frame_truncated");
    assert_eq!(refused(&|record| record["frames"][2] = record["frames"][3].clone()), "frame_step_mismatch");
    assert_eq!(refused(&|record| record["decisions"][2]["token_id"] = 60.into()), "decision_mismatch");
    assert_eq!(refused(&|record| record["decisions"][2]["algorithm_version"] = "x".into()), "contract_unknown");
    for field in ["record", "identity", "start", "tokens", "draws_used", "frames", "decisions", "stop"] {
        let missing = changed(|record| drop(record.as_object_mut().unwrap().remove(field)));
        assert_eq!(code(missing), "field_missing", "{field}");
    }
    for field in ["crate_version", "target", "model", "constraint", "environment"] {
        let missing = changed(|record| drop(record["identity"].as_object_mut().unwrap().remove(field)));
        assert_eq!(code(missing), "field_missing", "{field}");
    }
    let greedy = record_of(Run::new(vec![1], 1, Settings::new(0.0, 0, 1.0).unwrap()), 3);
    assert_eq!(greedy["draws_used"], 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// One change at one place, and the comparison names that place, whichever record has it.
    #[test]
    fn one_change_at_one_place_is_named_exactly(step in 0..STEPS, rank in 0usize..20, kind in 0usize..5, seed in any::<u64>(), swap in any::<bool>()) {
        let mut record = record_of(run(seed), STEPS);
        record["decisions"] = Value::Null;
        let mut other = record.clone();
        let at = Some(step as u64);
        let expected = match kind {
            0 => {
                other["frames"][step] = nudged(&record, step, &[rank]);
                (RunPart::Logits, at)
            }
            1 => {
                other["tokens"][step] = ((record["tokens"][step].as_u64().unwrap() + 1 + rank as u64) % 60).into();
                (RunPart::Token, at)
            }
            2 => {
                other["start"]["prompt"][step % 3] = 50.into();
                (RunPart::InputIds, None)
            }
            3 => {
                other["start"]["seed"] = (seed ^ 1 << rank).to_string().into();
                (RunPart::Draw, Some(0))
            }
            _ => {
                other["start"]["settings"]["top_p"] = (rank as f64 / 30.0).into();
                (RunPart::Settings, Some(0))
            }
        };
        let comparison = if swap { compare(&other, &record) } else { compare(&record, &other) };
        let first = comparison.first.as_ref().unwrap();
        prop_assert_eq!((first.what, first.step), expected, "{}", &comparison.paragraph);
        prop_assert_eq!(compare(&other, &other).outcome, Outcome::Same);
    }
}

/// What a build says of itself, so that the record of a run tells what computed it.
#[test]
fn a_release_names_its_version_its_target_and_its_features() {
    let identity = Identity::of_this_release();
    assert_eq!(identity.crate_version.as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(identity.target.as_deref(), Some(quillmate_sampler::TARGET));
    let features = identity.environment.build_features.expect("a build knows its features");
    assert_eq!(features.split(' ').any(|feature| feature == "parallel"), cfg!(feature = "parallel"));
    assert!(features.split(' ').any(|feature| feature.starts_with('+')), "no instruction sets in {features}");
}
