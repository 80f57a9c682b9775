//! Speculation changes how long a text takes, and not the text.

use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Server, Written, model_file, request};

/// Stories that repeat themselves, so that drafts are right now and then.
const REPEATING: [&str; 2] = [
    "The sea was grey. The sea was cold. The sea was grey, and the keeper of the light said that the sea was",
    "Marta opened the letter. Jonas opened the window. Marta opened the window. Jonas opened the",
];

fn requests() -> Vec<Value> {
    let mut requests = Vec::new();
    for prompt in REPEATING {
        for (seed, temperature, top_k, top_p) in
            [(1, 0.0, 0, 1.0), (2, 0.8, 50, 0.95), (3, 1.0, 0, 0.9), (4, 0.4, 5, 1.0)]
        {
            let mut asked = request(prompt, seed, 40);
            asked["settings"] = json!({"temperature": temperature, "top_k": top_k, "top_p": top_p});
            requests.push(asked);
        }
    }
    requests
}

fn work(server: &Server, of: &str) -> u64 {
    server.get("/api/health").1["work"][of].as_u64().unwrap()
}

/// All requests at once, with so many drafts a pass.
fn written(model: &str, drafts: &str) -> (Vec<Written>, u64, u64, u64) {
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), model, &["--drafts", drafts]);
    let ids: Vec<String> = requests().iter().map(|asked| server.begin(asked)).collect();
    let written = ids.iter().map(|id| server.written(id)).collect();
    (written, work(&server, "passes"), work(&server, "tokens"), work(&server, "accepted"))
}

#[test]
fn the_texts_and_frames_are_the_same_with_and_without() {
    let (plain, passes, tokens, accepted) = written("tiny", "0");
    assert_eq!((passes, accepted), (tokens, 0), "switched off, a pass gives a token");
    for drafts in ["1", "4", "16"] {
        assert_eq!(written("tiny", drafts).0, plain, "{drafts} drafts");
    }
}

#[test]
fn a_real_model_writes_the_same_in_fewer_passes() {
    let Some(path) = model_file() else { return };
    let path = path.to_str().unwrap();
    let (plain, passes, tokens, _) = written(path, "0");
    assert_eq!(passes, tokens);
    let (drafted, passes, tokens, accepted) = written(path, "4");
    assert_eq!(drafted, plain);
    assert!(accepted > 0 && passes + accepted == tokens, "{passes} passes, {accepted} accepted, {tokens} tokens");
    assert!(passes < tokens);
}

#[test]
fn a_run_killed_between_passes_ends_in_the_same_text() {
    let Some(path) = model_file() else { return };
    let path = path.to_str().unwrap();
    let asked = &requests()[0];
    let data = tempdir().unwrap();
    let whole = Server::start(data.path(), path, &["--drafts", "0"]).write(asked);
    let data = tempdir().unwrap();
    let server = Server::start(data.path(), path, &["--step-delay-ms", "30"]);
    let id = server.begin(asked);
    let mut watching = server.watch(&id, 0);
    for _ in 0..7 {
        watching.frame();
    }
    server.kill();
    // Taken up without speculation, killed, and taken up with it.
    let server = Server::start(data.path(), path, &["--drafts", "0", "--step-delay-ms", "30"]);
    let mut watching = server.watch(&id, 0);
    for _ in 0..14 {
        watching.frame();
    }
    server.kill();
    assert_eq!(Server::start(data.path(), path, &[]).written(&id), whole);
}
