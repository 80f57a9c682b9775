//! Runs with processors: refused before anything is stored, sampled the same in the client, with drafts, and after a kill.

use quillmate_sampler::{Frame, Layout};
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Server, model_file, request, sample};

/// What a writer turns on: a look at the history, a filter, and a draw of its own.
fn processors() -> Value {
    json!([
        {"name": "repetition_penalty", "version": 1, "penalty": 1.15, "window": 64},
        {"name": "dry", "version": 2, "multiplier": 0.8, "base": 1.75, "allowed_length": 2, "breakers": [[198]]},
        {"name": "min_p", "version": 1, "p": 0.02},
        {"name": "xtc", "version": 1, "probability": 0.3, "threshold": 0.1},
    ])
}

fn asked(seed: u64, length: u32) -> Value {
    let mut asked =
        request("The sea was grey. The sea was cold. The keeper of the light said that the sea was", seed, length);
    asked["settings"] = json!({"temperature": 0.9, "top_k": 0, "top_p": 0.98, "processors": processors()});
    asked
}

#[test]
fn the_client_samples_the_same_from_whole_frames() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let id = server.begin(&asked(5, 40));
    let (frames, _) = server.follow(&id, 0);
    let run = server.run(&id);
    assert_eq!(run["start"]["settings"]["processors"], processors());
    for frame in &frames {
        let frame = Frame::decode(frame).unwrap();
        assert!(frame.layout() == Layout::Dense || frame.max_top_k().is_none());
    }
    let here = sample(&run["start"], &frames);
    assert_eq!(run["tokens"], json!(here.tokens()));
    let claim = json!({"tokens": here.tokens(), "state": here.state()});
    let verify = |claim: &Value| server.post(&format!("/api/runs/{id}/verify"), claim).1;
    assert_eq!(verify(&claim)["verdict"], "match");
    // Another parameter is another run, and named.
    let mut other = claim.clone();
    other["state"]["settings"]["processors"][2]["p"] = json!(0.03);
    let verdict = verify(&other);
    assert_eq!((&verdict["verdict"], &verdict["why"]), (&json!("diverged"), &json!("settings")));
    assert_eq!(verdict["expected"]["processors"], processors());
    // Without them the text is another.
    let mut plain = asked(5, 40);
    plain["settings"]["processors"] = json!([]);
    assert_ne!(server.write(&plain).tokens, server.written(&id).tokens);
}

#[test]
fn a_wrong_list_is_refused_and_stores_nothing() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let far = 4_000_000;
    let dry = |breakers: Value| json!({"name": "dry", "version": 2, "multiplier": 1, "base": 2, "allowed_length": 2, "breakers": breakers});
    for (list, code) in [
        (json!([{"name": "mirostat", "version": 1}]), "processor_unknown"),
        (json!([{"name": "min_p", "version": 7, "p": 0.1}]), "processor_version_unknown"),
        (json!([{"name": "min_p", "version": 1, "p": 2}]), "processor_parameter"),
        (json!([{"name": "deny", "version": 1, "tokens": [4_000_000]}]), "processor_token"),
        // Every list of ids, also where it would not be looked at for long, or no more.
        (json!([{"name": "repetition_penalty", "version": 1, "penalty": 1.1, "exempt": [far]}]), "processor_token"),
        (json!([dry(json!([[far]]))]), "processor_token"),
        (json!([dry(json!([[1], [far, 1]]))]), "processor_token"),
        (json!([{"name": "bad_words", "version": 1, "words": [[1, far]]}]), "processor_token"),
        (json!([{"name": "bad_words", "version": 1, "words": [[far, 1]]}]), "processor_token"),
        (json!([{"name": "logit_bias", "version": 1, "biases": [[1, 0.5], [far, 0.5]]}]), "processor_token"),
        (json!([{"name": "allow", "version": 1, "tokens": [1, far]}]), "processor_token"),
        (json!([{"name": "forced_prefix", "version": 1, "tokens": [1, 2, 3, 4, 5, far]}]), "processor_token"),
        (json!([{"name": "min_length", "version": 1, "length": 0, "end_tokens": [far]}]), "processor_token"),
        (json!([{"name": "forced_end", "version": 1, "length": 99, "end_tokens": [far]}]), "processor_token"),
        (
            json!([{"name": "xtc", "version": 1, "probability": 0, "threshold": 0.1, "exempt": [far]}]),
            "processor_token",
        ),
        (json!([{"name": "min_p", "version": 1}]), "field_missing"),
        (json!("min_p"), "field_type"),
    ] {
        let mut wrong = asked(1, 4);
        wrong["settings"]["processors"] = list.clone();
        let (status, answer) = server.post("/api/runs", &wrong);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{list}");
    }
    assert_eq!(server.get("/api/health").1["work"]["tokens"], 0);
}

#[test]
fn a_row_without_a_token_left_stops_the_run_by_name_and_loses_nothing() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let mut dead = asked(1, 10);
    // Two tokens are forced; the third step forces one that is denied.
    dead["settings"]["processors"] = json!([
        {"name": "deny", "version": 1, "tokens": [9]},
        {"name": "forced_prefix", "version": 1, "tokens": [7, 8, 9]},
    ]);
    let id = server.begin(&dead);
    let (frames, end) = server.follow(&id, 0);
    assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("processor_all_banned")));
    assert_eq!(frames.len(), 2);
    assert_eq!(server.tokens(&id), [7, 8]);
}

#[test]
fn a_real_model_writes_the_same_with_drafts_without_and_after_a_kill() {
    let Some(path) = model_file() else { return };
    let path = path.to_str().unwrap();
    let data = tempdir().unwrap();
    let plain = Server::start(data.path(), path, &["--drafts", "0"]).write(&asked(11, 24));
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), path, &["--drafts", "4", "--step-delay-ms", "30"]);
    let id = server.begin(&asked(11, 24));
    let mut watching = server.watch(&id, 0);
    for _ in 0..7 {
        watching.frame();
    }
    server.kill();
    let server = Server::start(data.path(), path, &["--drafts", "4"]);
    assert_eq!(server.written(&id), plain);
}
