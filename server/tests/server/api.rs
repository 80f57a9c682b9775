//! The calls of API.md, one by one.

use base64ct::{Base64, Encoding as _};
use quillmate_sampler::comparison::Outcome;
use quillmate_sampler::{Claim, Frame, Record, RecordFile, Verdict, first_divergence, verify};
use quillmate_server::model::TokenTable;
use quillmate_server::text::text;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Server, request, sample};

#[test]
fn a_run_from_its_beginning_to_its_verdict() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let model = server.get("/api/model").1;
    assert_eq!(model["name"], "tiny");
    assert_eq!(model["end_tokens"], json!([0]));
    assert_eq!(model["limits"]["prompt_tokens"], 2048);
    let mut table = server.raw("/api/model/tokens", &[]);
    let table = TokenTable::decode(&table.body_mut().read_to_vec().unwrap()).unwrap();
    assert_eq!(table.sha256(), model["tokenizer_sha256"].as_str().unwrap());
    assert_eq!(table.len() as u64, model["vocab"].as_u64().unwrap());

    let prompt = "The lamp over the café";
    let tokens = server.post("/api/tokenize", &json!({"text": prompt})).1["tokens"].clone();
    let (status, begun) = server.post("/api/runs", &request(prompt, 42, 40));
    assert_eq!(status, 201);
    assert_eq!(begun["start"]["prompt"], tokens);
    assert_eq!(begun["start"]["seed"], "42");
    assert_eq!(begun["length"], 40);
    let id = begun["id"].as_str().unwrap();

    let (frames, end) = server.follow(id, 0);
    assert_eq!(end["status"], "finished");
    assert_eq!(end["step"], frames.len());
    let run = server.run(id);
    assert_eq!(run["status"], "finished");
    assert_eq!(run["reason"], end["reason"]);
    assert_eq!(run["start"], begun["start"]);

    // Sampled here, from what was sent, every token is the server's.
    let here = sample(&run["start"], &frames);
    assert_eq!(run["tokens"], json!(here.tokens()));
    assert_eq!(run["text"], text(&table, here.tokens()));
    for (step, frame) in frames.iter().enumerate() {
        assert_eq!(Frame::decode(frame).unwrap().step(), step as u64);
    }

    let claim = json!({"tokens": here.tokens(), "state": here.state()});
    let verdict = server.post(&format!("/api/runs/{id}/verify"), &claim);
    assert_eq!(verdict, (200, json!({"verdict": "match", "steps": frames.len()})));

    let record = server.get(&format!("/api/runs/{id}/record")).1;
    let encoded: Vec<String> = frames.iter().map(|frame| Base64::encode_string(frame)).collect();
    assert_eq!(record["record"], 3);
    assert_eq!(record["frames"], json!(encoded));
    assert_eq!(record["tokens"], run["tokens"]);
    assert_eq!(record["start"], run["start"]);
    let identity = json!({"crate_version": quillmate_sampler::CRATE_VERSION, "target": quillmate_sampler::TARGET,
        "model": run["model"], "constraint": null, "environment": record["identity"]["environment"]});
    assert_eq!(record["identity"], identity);
    for circumstance in ["build_features", "server", "cpu_features", "kernels", "threads", "drafts"] {
        assert!(record["identity"]["environment"][circumstance].is_string(), "{circumstance}");
    }
    assert_eq!(record["stop"], json!({"max_tokens": 40, "end_tokens": [0], "reason": run["reason"]}));
    assert_eq!(record["draws_used"], frames.len());
    // The package reads it, and finds every part of every step in it.
    let file = RecordFile::from_json(&record.to_string()).unwrap();
    assert_eq!(serde_json::to_value(&file).unwrap(), record);
    let comparison = first_divergence(&file, &file, false);
    assert_eq!(comparison.outcome, Outcome::Same, "{}", comparison.paragraph);
    assert!(comparison.release.is_empty());
}

#[test]
fn a_stream_starts_at_any_step() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "2"]);
    let id = server.begin(&request("a lamp", 3, 40));
    let (frames, end) = server.follow(&id, 0);
    let count = frames.len() as u64;
    for from in [0, 1, 7, count] {
        assert_eq!(server.follow(&id, from), (frames[from as usize..].to_vec(), end.clone()));
    }
    // From a step that is still to come, and by two at once.
    let id = server.begin(&request("a lamp", 3, 40));
    let mut early = server.watch(&id, 0);
    let (late, _) = server.follow(&id, 20);
    assert_eq!(late, frames[20..]);
    assert_eq!(early.frame(), frames[0]);
    assert_eq!(early.until_the_end().0, frames[1..]);
}

#[test]
fn what_a_client_says_is_checked_and_what_differs_is_named() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let id = server.begin(&request("she was under the light", 9, 20));
    let (frames, _) = server.follow(&id, 0);
    let run = server.run(&id);
    let here = sample(&run["start"], &frames);
    let honest = json!({"tokens": here.tokens(), "state": here.state()});
    let ask = |claim: &Value| {
        let (status, verdict) = server.post(&format!("/api/runs/{id}/verify"), claim);
        assert_eq!(status, 200, "{verdict}");
        // The server says what the package says.
        let start = quillmate_sampler::GeneratorState::from_json(&run["start"].to_string()).unwrap();
        let record = Record { start, frames: frames.clone() };
        let package = verify(&record, &Claim::from_json(&claim.to_string()).unwrap());
        assert_eq!(verdict, json!(package));
        verdict
    };
    assert_eq!(ask(&honest)["verdict"], "match");

    let mut tampered = honest.clone();
    let other = 1 + here.tokens()[12] % 200;
    tampered["tokens"][12] = json!(other);
    tampered["state"]["tokens"][12] = json!(other);
    let verdict = ask(&tampered);
    assert_eq!(verdict["verdict"], "diverged");
    assert_eq!(verdict["step"], 12);
    assert_eq!(verdict["expected_token"], here.tokens()[12]);
    assert_eq!(verdict["claimed_token"], other);
    assert_eq!(verdict["why"], "token");

    let mut other_seed = honest.clone();
    other_seed["state"]["seed"] = json!("10");
    assert_eq!(ask(&other_seed)["why"], "draw");

    let mut other_logits = honest.clone();
    let mut sums: Vec<String> =
        frames.iter().map(|f| format!("{:08x}", Frame::decode(f).unwrap().checksum())).collect();
    other_logits["frame_checksums"] = json!(sums);
    assert_eq!(ask(&other_logits)["verdict"], "match");
    sums[4] = "00000000".into();
    other_logits["frame_checksums"] = json!(sums);
    let verdict = ask(&other_logits);
    assert_eq!((&verdict["why"], &verdict["step"]), (&json!("logits"), &json!(4)));

    // A claim of the first seven tokens is judged by the first seven frames.
    let seven = sample(&run["start"], &frames[..7]);
    let verdict = ask(&json!({"tokens": seven.tokens(), "state": seven.state()}));
    assert_eq!(verdict, json!({"verdict": "match", "steps": 7}));
    // More than there is a record of is nobody's to confirm.
    let mut more = honest.clone();
    for at in 0..5 {
        more["tokens"].as_array_mut().unwrap().push(json!(at));
        more["state"]["tokens"].as_array_mut().unwrap().push(json!(at));
    }
    more["state"]["step"] = json!(here.tokens().len() + 5);
    assert_ne!(ask(&more)["verdict"], json!(Verdict::Match { steps: 0 })["verdict"]);
}

#[test]
fn the_same_request_gives_the_same_run_whoever_else_is_writing() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let asked = request("The sea, the sea, the sea, the sea, the sea, the sea, the sea, the sea. ", 7, 120);
    let alone = server.write(&asked);
    let again = server.write(&asked);
    assert_eq!(alone, again);
    let other =
        server.write(&request("The sea, the sea, the sea, the sea, the sea, the sea, the sea, the sea. ", 8, 120));
    assert_ne!(alone.tokens, other.tokens);
    // Beside others: two with the same prompt, whose context is shared up to here, and one with another.
    let mut beside = asked.clone();
    beside["seed"] = json!("123");
    let ids: Vec<String> =
        [&beside, &asked, &request("harbour", 1, 120), &asked].iter().map(|asked| server.begin(asked)).collect();
    assert_eq!(server.written(&ids[1]), alone);
    assert_eq!(server.written(&ids[3]), alone);
    drop(server);
    // Without any context kept.
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--kept-prompts", "0"]);
    assert_eq!(server.write(&asked), alone);
}

#[test]
fn a_run_goes_on_from_a_state_on_the_same_schedule() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let whole = server.write(&request("in the harbour a lamp", 5, 30));
    let id = server.begin(&request("in the harbour a lamp", 5, 30));
    server.written(&id);
    let after = sample(&server.run(&id)["start"], &whole.frames[..7]);
    let rest = whole.tokens.len() - 7;
    let id = server.begin(&json!({"start": after.state(), "length": rest}));
    let (frames, end) = server.follow(&id, 7);
    assert_eq!(end["step"], whole.tokens.len());
    assert_eq!(frames, whole.frames[7..]);
    assert_eq!(server.tokens(&id), whole.tokens[7..]);
    let run = sample(&server.run(&id)["start"], &frames);
    let claim = json!({"tokens": &run.tokens()[7..], "state": run.state()});
    let verdict = server.post(&format!("/api/runs/{id}/verify"), &claim).1;
    assert_eq!(verdict, json!({"verdict": "match", "steps": rest}));
}

#[test]
fn a_stopped_run_keeps_what_it_has_and_can_be_resumed() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "20"]);
    let asked = request("he was over the sea", 11, 60);
    let whole = server.write(&asked);
    let id = server.begin(&asked);
    let mut watching = server.watch(&id, 0);
    for frame in &whole.frames[..5] {
        assert_eq!(watching.frame(), *frame);
    }
    let (status, stopped) = server.post_text(&format!("/api/runs/{id}/stop"), "text/plain", "");
    assert_eq!(status, 200);
    assert_eq!((&stopped["status"], &stopped["reason"]), (&json!("stopped"), &json!("stopped")));
    let (_, end) = watching.until_the_end();
    assert_eq!(end["status"], "stopped");
    assert_eq!(end["step"], stopped["tokens"].as_array().unwrap().len());
    // Once more changes nothing.
    assert_eq!(server.post_text(&format!("/api/runs/{id}/stop"), "", "").1, stopped);
    let (status, resumed) = server.post_text(&format!("/api/runs/{id}/resume"), "", "");
    assert_eq!((status, &resumed["status"]), (200, &json!("running")));
    assert_eq!(server.written(&id), whole);
    let (status, refusal) = server.post_text(&format!("/api/runs/{id}/resume"), "", "");
    assert_eq!((status, &refusal["error"]["code"]), (409, &json!("run_finished")));
    // A whole run stays whole.
    assert_eq!(server.post_text(&format!("/api/runs/{id}/stop"), "", "").1["status"], "finished");
}

#[test]
fn token_tables_are_kept_by_digest() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let digest = server.get("/api/model").1["tokenizer_sha256"].as_str().unwrap().to_owned();
    let tag = format!("\"{digest}\"");
    let fresh = server.raw("/api/model/tokens", &[]);
    assert_eq!(fresh.headers()["etag"], tag);
    assert_eq!(fresh.headers()["cache-control"], "no-cache");
    assert_eq!(server.raw("/api/model/tokens", &[("if-none-match", &tag)]).status(), 304);
    let kept = server.raw(&format!("/api/model/tokens?sha256={digest}"), &[]);
    assert_eq!(kept.status(), 200);
    assert!(kept.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    let unknown = server.get("/api/model/tokens?sha256=00");
    assert_eq!((unknown.0, &unknown.1["error"]["code"]), (404, &json!("tokenizer_not_found")));
}

#[test]
fn whatever_is_wrong_is_refused_by_name() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let id = server.begin(&request("a", 1, 5));
    server.written(&id);
    let good = request("a lamp", 1, 5);
    let with = |path: &[&str], value: Value| {
        let mut bad = good.clone();
        let mut at = &mut bad;
        for name in path {
            at = &mut at[*name];
        }
        *at = value;
        bad
    };
    let without = |name: &str| {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(name);
        bad
    };
    let mut no_top_p = good.clone();
    no_top_p["settings"].as_object_mut().unwrap().remove("top_p");
    let start = server.run(&id)["start"].clone();
    let started = |path: &str, value: Value| {
        let mut start = start.clone();
        start[path] = value;
        json!({"start": start, "length": 5})
    };
    for (body, code) in [
        (json!([1]), "json_syntax"),
        (json!({}), "field_missing"),
        (without("prompt"), "field_missing"),
        (without("seed"), "field_missing"),
        (without("settings"), "field_missing"),
        (without("length"), "field_missing"),
        (no_top_p, "field_missing"),
        (with(&["surprise"], json!(1)), "field_unknown"),
        (with(&["settings", "topK"], json!(1)), "field_unknown"),
        (with(&["prompt"], json!(7)), "field_type"),
        (with(&["prompt"], json!("")), "prompt_empty"),
        (with(&["seed"], json!(42)), "seed_not_string"),
        (with(&["seed"], json!("-1")), "seed_malformed"),
        (with(&["seed"], json!("")), "seed_malformed"),
        (with(&["seed"], json!("18446744073709551616")), "seed_malformed"),
        (with(&["settings", "temperature"], json!(-0.5)), "temperature_out_of_range"),
        (with(&["settings", "temperature"], json!("hot")), "field_type"),
        (with(&["settings", "temperature"], Value::Null), "field_type"),
        (with(&["settings", "top_k"], json!(1.5)), "top_k_out_of_range"),
        (with(&["settings", "top_k"], json!(-1)), "top_k_out_of_range"),
        (with(&["settings", "top_p"], json!(1.01)), "top_p_out_of_range"),
        (with(&["length"], json!(0)), "length_out_of_range"),
        (with(&["length"], json!(513)), "length_out_of_range"),
        (with(&["length"], json!(1e15)), "length_out_of_range"),
        (with(&["length"], json!(-1)), "field_type"),
        (with(&["length"], json!("5")), "field_type"),
        (started("contract", json!("quillmate-v2")), "contract_unknown"),
        (started("format", json!(2)), "format_unknown"),
        (started("step", json!(3)), "step_mismatch"),
        (started("prompt", json!([])), "prompt_empty"),
        (started("prompt", json!([5, 100_000])), "token_out_of_range"),
        (started("prompt", json!([-5])), "field_type"),
    ] {
        let (status, answer) = server.post("/api/runs", &body);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{body} gave {answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
    }
    for (text, code) in [
        ("", "json_syntax"),
        ("{", "json_syntax"),
        ("{\"prompt\":\"a\",\"prompt\":\"b\"}", "field_repeated"),
        ("{\"prompt\": 1e999}", "json_syntax"),
        (&"[".repeat(100_000), "json_syntax"),
    ] {
        let (status, answer) = server.post_text("/api/runs", "application/json", text);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{answer}");
    }
    let (status, answer) = server.post_text("/api/runs", "text/plain", &good.to_string());
    assert_eq!((status, &answer["error"]["code"]), (415, &json!("body_not_json")));

    let verify = format!("/api/runs/{id}/verify");
    for (body, code) in [
        (json!({}), "field_missing"),
        (json!({"tokens": [1], "state": 4}), "field_type"),
        (json!({"tokens": [4_294_967_296_u64], "state": start}), "field_type"),
        (json!({"tokens": [1], "state": start, "frame_checksums": ["xyz"]}), "field_type"),
    ] {
        let (status, answer) = server.post(&verify, &body);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{body} gave {answer}");
    }
    let stream = format!("/api/runs/{id}/stream");
    for (query, code) in [
        ("", "field_missing"),
        ("?from=", "from_out_of_range"),
        ("?from=-1", "from_out_of_range"),
        ("?from=+1", "from_out_of_range"),
        ("?from=6", "from_out_of_range"),
        ("?from=1.0", "from_out_of_range"),
        ("?from=99999999999999999999", "from_out_of_range"),
        ("?from=1&from=2", "field_repeated"),
        ("?from=1&to=2", "field_unknown"),
    ] {
        let (status, answer) = server.get(&format!("{stream}{query}"));
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(code)), "{query} gave {answer}");
    }
    for path in ["/api/runs/nope", "/api/runs/nope/record", "/api/runs/nope/stream?from=0", "/api/runs/%00"] {
        let (status, answer) = server.get(path);
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("run_not_found")), "{path}");
    }
    let (status, answer) = server.get("/api/nothing/here");
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("not_found")));
    let (status, answer) = server.get("/api/tokenize");
    assert_eq!((status, &answer["error"]["code"]), (405, &json!("method_not_allowed")));
    // What is no text is nobody's id, wherever it stands.
    for path in ["/api/runs/%ff", "/api/runs/%ff/record", "/api/runs/%ff/stream?from=0"] {
        let (status, answer) = server.get(path);
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("run_not_found")), "{path}: {answer}");
    }
    for path in ["/api/runs/%ff/stop", "/api/runs/%ff/resume"] {
        let (status, answer) = server.post_text(path, "", "");
        assert_eq!((status, &answer["error"]["code"]), (404, &json!("run_not_found")), "{path}: {answer}");
    }
    let (status, answer) = server.delete("/api/runs/%ff");
    assert_eq!((status, &answer["error"]["code"]), (404, &json!("run_not_found")), "{answer}");
    // Valid as JSON goes, and too deep to be looked into.
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    let (status, answer) = server.post_text("/api/runs", "application/json", &deep);
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("json_too_deep")), "{answer}");
}

#[test]
fn a_text_ends_where_the_model_ends_it() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    // Hot and unfiltered, the end comes up sooner or later.
    let ended = (0..20).find_map(|seed| {
        let mut asked = request("again", seed, 500);
        asked["settings"] = json!({"temperature": 4.0, "top_k": 0, "top_p": 1.0});
        let id = server.begin(&asked);
        let written = server.written(&id);
        (server.run(&id)["reason"] == "end_token").then_some((id, written))
    });
    let (id, written) = ended.expect("one of them ends");
    assert!(written.tokens.len() < 500);
    assert_eq!(written.tokens.iter().position(|&id| id == 0), Some(written.tokens.len() - 1));
    let here = sample(&server.run(&id)["start"], &written.frames);
    assert_eq!(here.tokens(), written.tokens);
    let claim = json!({"tokens": here.tokens(), "state": here.state()});
    assert_eq!(server.post(&format!("/api/runs/{id}/verify"), &claim).1["verdict"], "match");
}

#[test]
fn half_a_character_at_the_end_of_a_finished_run_is_shown_as_such() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "20"]);
    let forced = |tokens: Value, length: u32| {
        let mut asked = request("a", 1, length);
        asked["settings"]["processors"] = json!([{"name": "forced_prefix", "version": 1, "tokens": tokens}]);
        asked
    };
    // An "a" and the first byte of an é.
    let written = server.write(&forced(json!([98, 279]), 2));
    assert_eq!((&written.tokens[..], &*written.text), (&[98, 279][..], "a\u{fffd}"));
    assert_eq!(server.write(&forced(json!([98, 279, 170]), 3)).text, "a\u{e9}");
    // While more may come it waits.
    let id = server.begin(&forced(json!([98, 279, 170, 98, 98, 98, 98, 98]), 100));
    let mut watching = server.watch(&id, 0);
    (0..2).for_each(|_| drop(watching.frame()));
    let (_, run) = server.post_text(&format!("/api/runs/{id}/stop"), "", "");
    let count = run["tokens"].as_array().unwrap().len();
    assert!(!run["text"].as_str().unwrap().contains('\u{fffd}'), "{count} tokens: {run}");
}

#[test]
fn a_record_that_cannot_be_read_breaks_off_and_is_not_taken_for_whole() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let id = server.begin(&request("a lamp", 3, 60));
    server.written(&id);
    let store = rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap();
    for damage in [
        "UPDATE steps SET frame = x'00' WHERE step = 33",
        "UPDATE steps SET frame = (SELECT frame FROM steps WHERE step = 5) WHERE step = 33",
    ] {
        store.execute_batch(damage).unwrap();
        let mut answer = server.raw(&format!("/api/runs/{id}/record"), &[]);
        assert_eq!(answer.status(), 200);
        let read = answer.body_mut().read_to_string();
        assert!(read.is_err(), "{damage}: {read:?}");
    }
    assert_eq!(server.get("/api/health").0, 200);
}
