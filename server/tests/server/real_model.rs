//! The same promises with a real model. They need its file: QUILLMATE_MODEL says where it is.

use std::path::Path;

use quillmate_sampler::{GeneratorState, Run};
use quillmate_server::model::smollm2::{Progress, SHA256, SmolLm2};
use quillmate_server::model::{LanguageModel, Session};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Server, model_file, request, sample};

const STORY: &str = "The lighthouse keeper had not seen a ship in eleven days. On the twelfth, ";

fn load(path: &Path) -> SmolLm2 {
    SmolLm2::load(path, SHA256, &Progress::default()).unwrap()
}

fn bits(row: &[f32]) -> Vec<u32> {
    row.iter().map(|logit| logit.to_bits()).collect()
}

#[derive(Deserialize)]
struct Encodings {
    cases: Vec<Encoding>,
}

#[derive(Deserialize)]
struct Encoding {
    text: String,
    tokens: Vec<u32>,
}

#[test]
fn texts_become_the_tokens_the_model_was_trained_on() {
    let Some(path) = model_file() else { return };
    let model = load(&path);
    // Made by an implementation of its own; the file says how.
    let known: Encodings = serde_json::from_str(include_str!("vectors/tokenizer_smollm2.json")).unwrap();
    assert!(known.cases.len() >= 20);
    for case in known.cases {
        assert_eq!(model.encode(&case.text).unwrap(), case.tokens, "{:?}", case.text);
        assert_eq!(quillmate_server::text::text(model.tokens(), &case.tokens), case.text);
    }
    // Special tokens have no bytes and are not found in texts.
    assert_eq!(model.end_tokens(), [0, 2]);
    assert_eq!(model.tokens().get(2), b"");
    assert!(model.encode("<|im_end|>").unwrap().iter().all(|&id| id > 16));
    // The vocabulary lacks a few bytes; a text with one is refused by the character, not quietly shortened.
    let refusal = model.encode("before\u{4}after").unwrap_err();
    assert_eq!(refusal.code(), "text_not_encodable");
    assert!(refusal.to_string().contains("\\u{4}"), "{refusal}");
}

#[test]
fn a_session_gives_the_same_bits_however_it_came_to_be() {
    let Some(path) = model_file() else { return };
    let model = load(&path);
    let prompt = model.encode(STORY).unwrap();
    let fed = [665, 436, 253, 3261, 30];
    let straight = |session: &mut dyn Session| {
        let mut rows = vec![bits(&session.prefill(&prompt).unwrap())];
        rows.extend(fed.iter().map(|&token| bits(&session.feed(token).unwrap())));
        rows
    };
    let mut first = model.open();
    let rows = straight(&mut *first);
    // Once more in a used session: nothing of before is left.
    assert_eq!(straight(&mut *first), rows);
    // Read in pieces, as a server that has others to serve reads a prompt.
    for size in [1, 2, 5, 7] {
        let mut pieces = model.open();
        let read: Vec<Vec<f32>> = prompt.chunks(size).map(|piece| pieces.read(piece).unwrap()).collect();
        assert_eq!(bits(read.last().unwrap()), rows[0], "pieces of {size}");
    }
    // In a fork of a prefill, with another fork going elsewhere in between.
    let mut kept = model.open();
    kept.prefill(&prompt).unwrap();
    let (mut left, mut right) = (kept.fork(), kept.fork());
    for (at, &token) in fed.iter().enumerate() {
        right.feed(1000 + token).unwrap();
        assert_eq!(bits(&left.feed(token).unwrap()), rows[at + 1]);
    }
    // Another model loaded from the same file.
    assert_eq!(straight(&mut *load(&path).open()), rows);
    // In one pass, with all the rows and with the last alone.
    let together = [&prompt[..], &fed].concat();
    assert_eq!(bits(&model.open().prefill(&together).unwrap()), rows[fed.len()]);
    let all = model.open().extend(&together).unwrap();
    assert_eq!(all[prompt.len() - 1..].iter().map(|row| bits(row)).collect::<Vec<_>>(), rows);
    // Too long or empty is an error, never a panic.
    assert!(model.open().prefill(&[]).is_err());
    assert!(model.open().prefill(&[49_152]).is_err());
    assert!(model.open().prefill(&vec![1; 4097]).is_err());
}

#[derive(Deserialize)]
struct Golden {
    model: Value,
    runs: Vec<GoldenRun>,
}

#[derive(Deserialize)]
struct GoldenRun {
    prompt: String,
    prompt_ids: Vec<u32>,
    seed: String,
    settings: Value,
    tokens: Vec<u32>,
    text: String,
}

/// The token ids that were written down: three prompts, greedy and seeded, 40 tokens each. Of this implementation
/// (`examples/golden_run.rs`), so that a change of what it computes or chooses is noticed; the digest of a row stands beside, in
/// `llama.rs`.
#[test]
fn the_golden_runs_give_the_tokens_that_were_written_down() {
    let Some(path) = model_file() else { return };
    let golden: Golden = serde_json::from_str(include_str!("vectors/golden_run.json")).unwrap();
    let model = load(&path);
    assert_eq!(golden.model, json!(model.identity()));
    let mut prompts: Vec<&str> = golden.runs.iter().map(|run| run.prompt.as_str()).collect();
    prompts.dedup();
    let greedy = golden.runs.iter().filter(|run| run.settings["temperature"] == 0.0).count();
    assert_eq!((golden.runs.len(), prompts.len(), greedy), (6, 3, 3));
    for run in &golden.runs {
        assert_eq!(model.encode(&run.prompt).unwrap(), run.prompt_ids);
        let state = json!({"contract": "quillmate-v1", "format": 1, "seed": run.seed, "step": 0, "prompt": run.prompt_ids,
            "tokens": [], "settings": run.settings});
        let mut here = Run::from_state(GeneratorState::from_json(&state.to_string()).unwrap());
        let mut session = model.open();
        let mut row = session.prefill(&run.prompt_ids).unwrap();
        assert_eq!(run.tokens.len(), 40);
        for (step, &token) in run.tokens.iter().enumerate() {
            assert_eq!(
                here.step_with(&row).unwrap(),
                token,
                "step {step} after {:?} with {}",
                run.prompt,
                run.settings
            );
            row = session.feed(token).unwrap();
        }
        assert_eq!(quillmate_server::text::text(model.tokens(), &run.tokens), run.text);
    }
    // And by the server, which drafts.
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), path.to_str().unwrap(), &["--drafts", "4"]);
    for run in &golden.runs {
        let asked = json!({"prompt": run.prompt, "seed": run.seed, "settings": run.settings, "length": 40});
        let ids = server.write(&asked).tokens;
        // It ends where the model does.
        assert_eq!(ids, run.tokens[..ids.len()], "{:?} with {}", run.prompt, run.settings);
        assert!(ids.len() == 40 || model.end_tokens().contains(ids.last().unwrap()));
    }
}

#[test]
fn a_story_survives_sigkill_and_company() {
    let Some(path) = model_file() else { return };
    let path = path.to_str().unwrap();
    let asked = request(STORY, 41, 24);
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), path, &["--kept-prompts", "0", "--threads", "1"]);
    let alone = server.write(&asked);
    assert_eq!(server.write(&asked), alone, "without a kept context");
    drop(server);

    // From here on with two threads: how the work is divided must not be seen in the bits either.
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), path, &["--threads", "2"]);
    let id = server.begin(&asked);
    let beside = [server.begin(&request("Once upon a time", 1, 24)), server.begin(&asked)];
    let mut watching = server.watch(&id, 0);
    let shown: Vec<_> = (0..7).map(|_| watching.frame()).collect();
    server.kill();
    let server = Server::start(data.path(), path, &[]);
    assert!(server.tokens(&id).len() >= 7);
    assert_eq!(server.written(&id), alone, "killed and started again, beside two others");
    assert_eq!(server.written(&beside[1]), alone, "from a kept context");
    assert_eq!(shown, alone.frames[..7]);
    // Every token can be recomputed from what was sent.
    let here = sample(&server.run(&id)["start"], &alone.frames);
    assert_eq!(here.tokens(), alone.tokens);
    let claim = json!({"tokens": here.tokens(), "state": here.state()});
    assert_eq!(server.post(&format!("/api/runs/{id}/verify"), &claim).1["verdict"], "match");
}

#[test]
fn a_run_of_another_model_is_shown_and_left_alone() {
    let Some(path) = model_file() else { return };
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "20"]);
    let id = server.begin(&request("The sea", 3, 80));
    server.watch(&id, 0).frame();
    server.kill();
    let server = Server::start(data.path(), path.to_str().unwrap(), &[]);
    let run = server.run(&id);
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("model_mismatch")));
    // Its text is its own tokenizer's.
    assert!(!run["text"].as_str().unwrap().is_empty());
    assert_eq!(server.post_text(&format!("/api/runs/{id}/resume"), "", "").1["error"]["code"], "model_mismatch");
    drop(server);
    assert!(!Server::tiny(data.path(), &[]).written(&id).text.is_empty());
}
