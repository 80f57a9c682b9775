//! Beyond each limit there is a clear no, and below it there is room for all that was promised.

use serde_json::json;
use tempfile::tempdir;

use crate::support::{Server, request};

#[test]
fn too_much_of_anything_is_refused_by_name() {
    let data = tempdir().unwrap();
    let flags = ["--max-body-bytes", "2000", "--max-prompt-tokens", "20", "--max-run-tokens", "30"];
    let server = Server::tiny(data.path(), &flags);
    let limits = server.get("/api/model").1["limits"].clone();
    assert_eq!(limits["body_bytes"], 2000);
    let code =
        |(status, answer): (u16, serde_json::Value)| (status, answer["error"]["code"].as_str().unwrap().to_owned());
    let long = server.post("/api/runs", &request(&"x".repeat(21), 1, 5));
    assert_eq!((&long.1["error"]["value"], &long.1["error"]["limit"]), (&json!(21), &json!(20)));
    assert_eq!(code(long), (400, "prompt_too_long".into()));
    assert_eq!(code(server.post("/api/runs", &request("x", 1, 31))), (400, "length_out_of_range".into()));
    assert_eq!(code(server.post("/api/runs", &request(&"x".repeat(3000), 1, 5))), (413, "body_too_large".into()));
    // It still answers.
    assert!(!server.write(&request(&"x".repeat(20), 1, 30)).tokens.is_empty());
}

#[test]
fn a_context_longer_than_the_model_sees_is_refused() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--max-prompt-tokens", "9999"]);
    let (status, answer) = server.post("/api/runs", &request(&"x".repeat(4095), 1, 5));
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("context_too_long")));
    assert_eq!(answer["error"]["limit"], 4096);
}

#[test]
fn so_many_runs_at_once_and_no_more() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--max-runs", "2", "--step-delay-ms", "20"]);
    let first = server.begin(&request("a", 1, 400));
    server.begin(&request("a", 2, 400));
    let (status, answer) = server.post("/api/runs", &request("a", 3, 400));
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("too_many_runs")));
    assert_eq!(server.delete(&format!("/api/runs/{first}")).0, 409);
    server.post_text(&format!("/api/runs/{first}/stop"), "", "");
    server.begin(&request("a", 3, 400));
    // Nor does a stopped one come back while there is no room for it.
    let (status, answer) = server.post_text(&format!("/api/runs/{first}/resume"), "", "");
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("too_many_runs")));
}

#[test]
fn so_many_streams_at_once_and_no_more() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--max-streams", "1", "--step-delay-ms", "20"]);
    let id = server.begin(&request("a", 1, 400));
    let mut watching = server.watch(&id, 0);
    watching.frame();
    let (status, answer) = server.get(&format!("/api/runs/{id}/stream?from=0"));
    assert_eq!((status, &answer["error"]["code"]), (429, &json!("too_many_streams")));
    // Whoever leaves makes room.
    drop(watching);
    server.until("there is room again", || server.raw(&format!("/api/runs/{id}/stream?from=0"), &[]).status() == 200);
}

#[test]
fn frames_have_room_set_aside_and_nothing_is_ever_pruned() {
    let data = tempdir().unwrap();
    // 20 dense frames of 285 logits may need 24 kB and turn out to need 12, so there is room for two such runs and not
    // for a third.
    let server = Server::tiny(data.path(), &["--max-frame-bytes", "45000"]);
    let mut dense = request("a lamp", 4, 20);
    dense["settings"]["top_k"] = json!(0);
    let first = server.begin(&dense);
    let kept = server.written(&first);
    dense["seed"] = json!("5");
    let second = server.begin(&dense);
    server.written(&second);
    let (status, answer) = server.post("/api/runs", &dense);
    assert_eq!((status, &answer["error"]["code"]), (507, &json!("store_full")), "{answer}");
    assert!(answer["error"]["used"].as_u64().unwrap() > 0);
    assert_eq!(server.written(&first), kept);
    // Room is made by whoever says what may go.
    assert_eq!(server.delete(&format!("/api/runs/{second}")).0, 204);
    assert_eq!(server.get(&format!("/api/runs/{second}")).0, 404);
    server.begin(&dense);
}
