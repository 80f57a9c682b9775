//! Whatever instant it stops at: nothing that was shown is lost, and the run ends in the same text.

use std::time::Duration;

use quillmate_sampler::RecordFile;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Server, Written, refused, request, sample};

/// Long enough that no kill comes too late, however slow the machine.
const LENGTH: u32 = 300;

fn asked() -> Value {
    request("The light over the harbour was", 2026, LENGTH)
}

fn uninterrupted() -> Written {
    let data = tempdir().unwrap();
    let whole = Server::tiny(data.path(), &[]).write(&asked());
    assert!(whole.tokens.len() > 200, "a run too short to interrupt: {}", whole.text);
    whole
}

#[test]
fn a_run_survives_sigkill_again_and_again() {
    let whole = uninterrupted();
    let data = tempdir().unwrap();
    let slow = ["--step-delay-ms", "10"];
    let server = Server::tiny(data.path(), &slow);
    let id = server.begin(&asked());
    // Two beside it, so that it is not alone when it is killed nor when it comes back.
    let beside = [server.begin(&request("The sea", 1, LENGTH)), server.begin(&asked())];
    let mut server = Some(server);
    let mut shown = Vec::new();
    // Killed right after a step was shown, and at odd moments, until it is whole.
    for pause in [0, 3, 8, 12, 0, 17] {
        let running = server.take().unwrap();
        let mut watching = running.watch(&id, shown.len() as u64);
        for _ in 0..5 {
            shown.push(watching.frame());
        }
        std::thread::sleep(Duration::from_millis(pause));
        running.kill();
        let again = Server::tiny(data.path(), &slow);
        assert!(again.tokens(&id).len() >= shown.len(), "something that was shown is lost");
        server = Some(again);
    }
    let server = server.unwrap();
    assert_eq!(server.written(&id), whole);
    assert_eq!(shown, whole.frames[..shown.len()]);
    assert_eq!(server.written(&beside[1]), whole);
    let run = sample(&server.run(&id)["start"], &whole.frames);
    let claim = json!({"tokens": run.tokens(), "state": run.state()});
    assert_eq!(server.post(&format!("/api/runs/{id}/verify"), &claim).1["verdict"], "match");
}

#[test]
fn a_finished_run_is_the_same_after_sigkill_and_can_be_written_again() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let id = server.begin(&asked());
    let before = server.written(&id);
    server.kill();
    let server = Server::tiny(data.path(), &[]);
    assert_eq!(server.written(&id), before);
    assert_eq!(server.write(&asked()), before);
}

#[test]
fn sigterm_ends_in_order_and_the_run_goes_on_later() {
    let whole = uninterrupted();
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--step-delay-ms", "10"]);
    let id = server.begin(&asked());
    let mut watching = server.watch(&id, 0);
    assert_eq!(watching.frame(), whole.frames[0]);
    let status = server.terminate();
    assert!(status.success(), "{status}");
    let (frames, end) = watching.until_the_end();
    assert_eq!(end["error"]["code"], "shutting_down");
    assert_eq!(frames, whole.frames[1..=frames.len()]);
    assert_eq!(Server::tiny(data.path(), &[]).written(&id), whole);
}

fn change(data: &std::path::Path, sql: &str) {
    Connection::open(data.join("runs.sqlite")).unwrap().execute_batch(sql).unwrap();
}

/// A run that was interrupted: its data and its id.
fn interrupted(data: &std::path::Path) -> String {
    let server = Server::tiny(data, &["--step-delay-ms", "20"]);
    let id = server.begin(&asked());
    let mut watching = server.watch(&id, 0);
    for _ in 0..9 {
        watching.frame();
    }
    server.kill();
    id
}

#[test]
fn another_model_reads_and_verifies_a_run_and_does_not_go_on_with_it() {
    let whole = uninterrupted();
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    let real = "SELECT model_sha256 FROM runs";
    let digest: String =
        Connection::open(data.path().join("runs.sqlite")).unwrap().query_row(real, [], |row| row.get(0)).unwrap();
    change(data.path(), "UPDATE runs SET model_sha256 = 'other', model_name = 'another model'");
    let server = Server::tiny(data.path(), &[]);
    let run = server.run(&id);
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("model_mismatch")));
    assert_eq!(run["model"]["name"], "another model");
    let (frames, end) = server.follow(&id, 0);
    assert!(frames.len() >= 9);
    assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("model_mismatch")));
    assert_eq!(frames, whole.frames[..frames.len()]);
    let here = sample(&run["start"], &frames);
    let claim = json!({"tokens": here.tokens(), "state": here.state()});
    let verdict = server.post(&format!("/api/runs/{id}/verify"), &claim).1;
    assert_eq!(verdict, json!({"verdict": "match", "steps": frames.len()}));
    let record = server.get(&format!("/api/runs/{id}/record")).1;
    assert_eq!(record["frames"].as_array().unwrap().len(), frames.len());
    let (status, refusal) = server.post_text(&format!("/api/runs/{id}/resume"), "", "");
    assert_eq!((status, &refusal["error"]["code"]), (409, &json!("model_mismatch")));
    assert_eq!(refusal["error"]["run_model"]["name"], "another model");
    assert_eq!(refusal["error"]["loaded_model"]["name"], "tiny");
    drop(server);
    // Its own model takes it up again.
    change(data.path(), &format!("UPDATE runs SET model_sha256 = '{digest}', model_name = 'tiny'"));
    assert_eq!(Server::tiny(data.path(), &[]).written(&id), whole);
}

/// What an earlier release chose stays under its name; what nobody recorded stays unknown.
#[test]
fn a_record_names_every_release_that_chose_its_tokens() {
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    change(data.path(), "UPDATE releases SET crate_version = '0.0.9'");
    let server = Server::tiny(data.path(), &[]);
    server.written(&id);
    let record = || server.get(&format!("/api/runs/{id}/record")).1;
    assert_eq!(
        record()["identity"]["crate_version"],
        format!("0.0.9, then {}", quillmate_sampler::CRATE_VERSION).as_str()
    );
    assert_eq!(record()["identity"]["target"], quillmate_sampler::TARGET);
    change(data.path(), "DELETE FROM releases");
    let identity = &record()["identity"];
    assert_eq!((&identity["crate_version"], &identity["target"]), (&Value::Null, &Value::Null));
    assert_eq!(record()["stop"]["end_tokens"], Value::Null);
}

/// Threads and drafts change no bit: a run goes on whatever they are, and its record names all of them.
#[test]
fn a_record_names_all_circumstances_and_no_text_depends_on_them() {
    let whole = uninterrupted();
    let environment = |server: &Server, id: &str| {
        let record = server.get(&format!("/api/runs/{id}/record")).1;
        RecordFile::from_json(&record.to_string()).unwrap().identity.environment
    };
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    let server = Server::tiny(data.path(), &["--threads", "3", "--drafts", "0", "--step-delay-ms", "5"]);
    server.watch(&id, server.tokens(&id).len() as u64).frame();
    server.kill();
    let server = Server::tiny(data.path(), &["--threads", "1", "--drafts", "2"]);
    assert_eq!(server.written(&id), whole);
    let found = environment(&server, &id);
    let ended = |text: &Option<String>, end: &str| {
        assert!(text.as_deref().unwrap().ends_with(end), "{text:?} does not end with {end}");
    };
    ended(&found.threads, "3, then 1");
    ended(&found.drafts, "4, then 0, then 2");
    assert_eq!(found.build_features.as_deref(), Some(quillmate_sampler::BUILD_FEATURES));
    assert!(found.server.as_deref().unwrap().starts_with(env!("CARGO_PKG_VERSION")));
    assert_eq!((found.kernels.as_deref(), found.cpu_features.is_some()), (Some("plain"), true));
    drop(server);

    // A run of a release that did not record them, gone on with: of its first part they are not known.
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    change(data.path(), "DROP TABLE environments; ALTER TABLE runs DROP COLUMN asked_sha256; PRAGMA user_version = 4");
    let server = Server::tiny(data.path(), &["--threads", "3", "--step-delay-ms", "2"]);
    assert_eq!(server.written(&id), whole);
    assert_eq!(environment(&server, &id).threads.as_deref(), Some("not recorded, then 3"));
    change(data.path(), "DELETE FROM environments");
    assert_eq!(environment(&server, &id), quillmate_sampler::Environment::default());
}

#[test]
fn another_arithmetic_does_not_go_on_with_a_run_of_the_same_file() {
    let whole = uninterrupted();
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    // As an earlier release left it, which did not yet say what had computed the logits.
    change(
        data.path(),
        "ALTER TABLE runs DROP COLUMN arithmetic; ALTER TABLE runs DROP COLUMN constrained_by; \
         ALTER TABLE runs DROP COLUMN asked_sha256; DROP TABLE releases; DROP TABLE environments; PRAGMA user_version = 1",
    );
    let server = Server::tiny(data.path(), &[]);
    let run = server.run(&id);
    assert_eq!((&run["status"], &run["reason"]), (&json!("failed"), &json!("model_mismatch")));
    assert_eq!(run["model"]["arithmetic"], "candle-0.11");
    let (status, refusal) = server.post_text(&format!("/api/runs/{id}/resume"), "", "");
    assert_eq!((status, &refusal["error"]["code"]), (409, &json!("model_mismatch")));
    assert_eq!(refusal["error"]["loaded_model"]["arithmetic"], "tiny-2");
    drop(server);
    change(data.path(), "UPDATE runs SET arithmetic = 'tiny-2'");
    assert_eq!(Server::tiny(data.path(), &[]).written(&id), whole);
}

#[test]
fn a_run_of_a_release_before_constraints_goes_on() {
    let whole = uninterrupted();
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    change(
        data.path(),
        "ALTER TABLE runs DROP COLUMN constrained_by; ALTER TABLE runs DROP COLUMN asked_sha256; DROP TABLE releases; DROP TABLE environments; \
         PRAGMA user_version = 2",
    );
    let server = Server::tiny(data.path(), &[]);
    assert_eq!(server.written(&id), whole);
    assert_eq!(server.run(&id)["constraint"], json!(null));
}

#[test]
fn a_run_of_a_release_that_kept_no_digests_goes_on() {
    let whole = uninterrupted();
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    change(data.path(), "DROP TABLE environments; ALTER TABLE runs DROP COLUMN asked_sha256; PRAGMA user_version = 4");
    assert_eq!(Server::tiny(data.path(), &[]).written(&id), whole);
}

#[test]
fn logits_that_come_out_otherwise_are_noticed_before_a_token_is_written() {
    let whole = uninterrupted();
    let data = tempdir().unwrap();
    let id = interrupted(data.path());
    change(data.path(), "CREATE TABLE kept AS SELECT * FROM steps WHERE step = 3");
    change(data.path(), "UPDATE steps SET frame = (SELECT frame FROM steps WHERE step = 4) WHERE step = 3");
    let server = Server::tiny(data.path(), &[]);
    let (frames, end) = server.follow(&id, 0);
    assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("logits_differ")));
    let count = frames.len();
    drop(server);
    change(data.path(), "UPDATE steps SET frame = (SELECT frame FROM kept) WHERE step = 3");
    let server = Server::tiny(data.path(), &[]);
    assert!(count >= 9 && count < whole.frames.len());
    assert_eq!(server.written(&id), whole);
}

#[test]
fn one_folder_one_server_and_no_guess_at_another_form() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    assert!(refused(data.path(), "tiny", &[]).contains("another server is using"));
    drop(server);
    let store = Connection::open(data.path().join("runs.sqlite")).unwrap();
    store.pragma_update(None, "user_version", 9).unwrap();
    assert!(refused(data.path(), "tiny", &[]).contains("form 9"));
}

#[test]
fn another_file_than_the_one_asked_for_is_refused_by_name() {
    let data = tempdir().unwrap();
    assert!(refused(data.path(), "/nowhere/model.gguf", &[]).contains("/nowhere/model.gguf"));
    let file = data.path().join("other.gguf");
    std::fs::write(&file, "GGUF, but not really").unwrap();
    let said = refused(data.path(), file.to_str().unwrap(), &[]);
    assert!(said.contains("other.gguf") && said.contains(quillmate_server::model::smollm2::SHA256), "{said}");
    let found = quillmate_server::hex::hex(&<sha2::Sha256 as sha2::Digest>::digest("GGUF, but not really"));
    assert!(said.contains(&found), "{said}");
    // Named, it is looked into, and is no model.
    assert!(refused(data.path(), file.to_str().unwrap(), &["--model-sha256", &found]).contains("not a model"));
}
