//! Who may read what is kept, what is left of what was deleted, and whether what is there is what was written.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Server, command, refused, request};

const TOKEN: &str = "correct-horse-battery-staple";

fn change(data: &Path, sql: &str) {
    Connection::open(data.join("runs.sqlite")).unwrap().execute_batch(sql).unwrap();
}

/// The files that hold some bytes.
fn holding(data: &Path, wanted: &[u8]) -> Vec<String> {
    let files = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| std::fs::read(path).unwrap().windows(wanted.len()).any(|bytes| bytes == wanted))
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[test]
fn nothing_is_left_of_a_deleted_run() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    // One prompt that fits on a page of the file, and one that does not.
    for prompt in ["a secret".to_owned(), "another secret that is long ".repeat(60)] {
        let mut asked = request(&prompt, 77, 60);
        asked["settings"]["top_k"] = json!(0);
        let id = server.begin(&asked);
        let written = server.written(&id);
        let prompt = server.run(&id)["start"]["prompt"].to_string();
        let prompt = &prompt[1..prompt.len().min(2000) - 1];
        let frame = &written.frames[40][8..200];
        let beside = server.begin(&request("beside it", 1, 400));
        assert!(!holding(data.path(), prompt.as_bytes()).is_empty());
        assert!(!holding(data.path(), frame).is_empty());
        assert_eq!(server.delete(&format!("/api/runs/{id}")).0, 204);
        server.written(&beside);
        assert_eq!(holding(data.path(), prompt.as_bytes()), Vec::<String>::new());
        assert_eq!(holding(data.path(), frame), Vec::<String>::new());
    }
    assert!(server.terminate().success());
}

#[test]
fn only_their_owner_may_read_the_files() {
    let data = tempdir().unwrap();
    let folder = data.path().join("runs");
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for open_to_all in [false, true] {
        if open_to_all {
            // As an earlier release left it.
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
            for entry in std::fs::read_dir(&folder).unwrap() {
                std::fs::set_permissions(entry.unwrap().path(), std::fs::Permissions::from_mode(0o644)).unwrap();
            }
        }
        let server = Server::tiny(&folder, &[]);
        server.write(&request("a lamp", 1, 5));
        assert_eq!(mode(&folder), 0o700);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
        assert!(names.contains(&"runs.sqlite-wal".to_owned()), "{names:?}");
        server.kill();
    }
}

#[test]
fn a_folder_that_is_not_only_ours_keeps_its_permissions() {
    let data = tempdir().unwrap();
    let folder = data.path().join("shared");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("another file"), "of somebody else").unwrap();
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    set(&folder, 0o755);
    set(&folder.join("another file"), 0o644);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let log = data.path().join("log");
    // Again, when the runs are in it already.
    for _ in 0..2 {
        let server = Server::limited(&folder, "tiny", "true", &["--log", "warn"], &log);
        server.write(&request("a lamp", 1, 5));
        assert_eq!(mode(&folder), 0o755);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let expected = if path.ends_with("another file") { 0o644 } else { 0o600 };
            assert_eq!(mode(&path), expected, "{}", path.display());
        }
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(said.contains("others may look into the data folder"), "{said}");
        server.kill();
    }
    // An empty one is taken as it would be made.
    let empty = data.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    set(&empty, 0o755);
    drop(Server::tiny(&empty, &[]));
    assert_eq!(mode(&empty), 0o700);
}

#[test]
fn a_server_that_others_can_reach_needs_a_token() {
    let data = tempdir().unwrap();
    for bind in ["0.0.0.0", "::", "192.0.2.1", "::ffff:192.0.2.1"] {
        let said = refused(data.path(), "tiny", &["--bind", bind]);
        assert!(said.contains("--token-file") && said.contains(bind), "{said}");
    }
    assert!(refused(data.path(), "tiny", &["--bind", "0.0.0.0", "--token", "short"]).contains("16"));
    assert!(refused(data.path(), "tiny", &["--token-file", "/nowhere/token"]).contains("/nowhere/token"));
    let file = data.path().join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    let in_file = ["--token-file", file.to_str().unwrap()];
    // Where it does not need one it asks for it all the same.
    for flags in [&in_file[..], &["--token", TOKEN], &["--bind", "0.0.0.0", "--token", TOKEN]] {
        let (server, address) = with_token(&mut command(&data.path().join("runs"), "tiny", flags));
        calls_need_the_token(&address);
        drop(server);
    }
    let mut from_environment = command(&data.path().join("runs"), "tiny", &[]);
    let (server, address) = with_token(from_environment.env("QUILLMATE_TOKEN", TOKEN));
    calls_need_the_token(&address);
    drop(server);
}

/// Ends the process when it is dropped.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn with_token(command: &mut Command) -> (Running, String) {
    use std::io::BufRead as _;
    let mut child = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    std::io::BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.trim().rsplit(':').next().unwrap().to_owned();
    (child, format!("http://127.0.0.1:{port}"))
}

fn calls_need_the_token(address: &str) {
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    let get = |path: &str, token: Option<&str>| {
        let mut request = agent.get(format!("{address}{path}"));
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut answer = request.call().unwrap();
        let asked = answer.headers().contains_key("www-authenticate");
        let text = answer.body_mut().read_to_string().unwrap();
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        (answer.status().as_u16(), body["error"]["code"].as_str().unwrap_or_default().to_owned(), asked)
    };
    for path in ["/api/health", "/api/ready", "/api/model", "/api/runs/x", "/api/runs/x/record", "/api/nothing"] {
        assert_eq!(get(path, None), (401, "token_missing".into(), true), "{path}");
        assert_eq!(get(path, Some("correct-horse-battery-stable")), (401, "token_wrong".into(), true), "{path}");
        assert_ne!(get(path, Some(TOKEN)).0, 401, "{path}");
    }
    assert_eq!(get("/api/health", Some(TOKEN)).0, 200);
    for path in ["/api/runs", "/api/runs/x/stop", "/api/tokenize"] {
        assert_eq!(agent.post(format!("{address}{path}")).send("{}").unwrap().status(), 401);
    }
    assert_eq!(agent.delete(format!("{address}/api/runs/x")).call().unwrap().status(), 401);
    // The page itself is no secret: it asks for the token.
    assert_eq!(get("/", None).0, 404);
}

/// A run that was stopped on its way, its store and what it would have been.
fn stopped(data: &Path) -> (String, usize) {
    let server = Server::tiny(data, &["--step-delay-ms", "10"]);
    let id = server.begin(&request("The light over the harbour was", 2026, 200));
    let mut watching = server.watch(&id, 0);
    for _ in 0..9 {
        watching.frame();
    }
    assert_eq!(server.post_text(&format!("/api/runs/{id}/stop"), "", "").0, 200);
    let count = server.tokens(&id).len();
    assert!(server.terminate().success());
    (id, count)
}

#[test]
fn what_was_altered_in_the_store_is_not_gone_on_with() {
    let whole = {
        let data = tempdir().unwrap();
        Server::tiny(data.path(), &[]).write(&request("The light over the harbour was", 2026, 200))
    };
    let data = tempdir().unwrap();
    let (id, count) = stopped(data.path());
    let last = whole.tokens[count - 1];
    let other = if last == 98 { 99 } else { 98 };
    let step = count - 1;
    // Each with what takes it back, and whether the digest of what was asked for tells.
    let alterations = [
        (
            format!("UPDATE steps SET token = {other} WHERE step = {step}"),
            format!("UPDATE steps SET token = {last} WHERE step = {step}"),
            false,
        ),
        (
            "UPDATE runs SET start = replace(start, '\"seed\":\"2026\"', '\"seed\":\"2027\"')".into(),
            "UPDATE runs SET start = replace(start, '\"seed\":\"2027\"', '\"seed\":\"2026\"')".into(),
            true,
        ),
        (
            "UPDATE runs SET start = replace(start, '\"temperature\":0.8', '\"temperature\":0.8000001')".into(),
            "UPDATE runs SET start = replace(start, '\"temperature\":0.8000001', '\"temperature\":0.8')".into(),
            true,
        ),
        ("UPDATE runs SET length = 250".into(), "UPDATE runs SET length = 200".into(), true),
    ];
    for (alter, restore, asked) in alterations {
        let before: String = dump(data.path());
        change(data.path(), &alter);
        assert_ne!(dump(data.path()), before, "{alter}");
        let log = data.path().join("log");
        let server = Server::limited(data.path(), "tiny", "true", &["--log", "warn"], &log);
        let (status, answer) = server.post_text(&format!("/api/runs/{id}/resume"), "", "");
        if asked {
            assert_eq!((status, &answer["error"]["code"]), (409, &json!("store_altered")), "{alter}");
            let claim = json!({"tokens": [], "state": server.run(&id)["start"]});
            let verdict = server.post(&format!("/api/runs/{id}/verify"), &claim);
            assert_eq!((verdict.0, &verdict.1["error"]["code"]), (409, &json!("store_altered")), "{alter}");
            // Nor does the engine, where nobody asked.
            drop(server);
            change(data.path(), "UPDATE runs SET status = 'running', reason = NULL");
            let server = Server::limited(data.path(), "tiny", "true", &["--log", "warn"], &log);
            assert_eq!(server.follow(&id, 0).1["reason"], "store_altered", "{alter}");
        } else {
            assert_eq!(status, 200, "{answer}");
            let (frames, end) = server.follow(&id, 0);
            assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("store_altered")), "{alter}");
            assert_eq!(frames.len(), count, "nothing was added");
        }
        let said = std::fs::read_to_string(&log).unwrap();
        assert!(said.contains("store_altered"), "{alter}: {said}");
        change(data.path(), &format!("{restore}; UPDATE runs SET status = 'stopped', reason = 'stopped'"));
    }
    let server = Server::tiny(data.path(), &[]);
    assert_eq!(server.post_text(&format!("/api/runs/{id}/resume"), "", "").0, 200);
    assert_eq!(server.written(&id), whole);
}

/// What was asked for and emitted, as it is stored.
fn dump(data: &Path) -> String {
    let store = Connection::open(data.join("runs.sqlite")).unwrap();
    let run: String = store.query_row("SELECT start || length FROM runs", [], |row| row.get(0)).unwrap();
    let tokens: String = store.query_row("SELECT group_concat(token) FROM steps", [], |row| row.get(0)).unwrap();
    run + &tokens
}

#[test]
fn a_clean_stop_leaves_nothing_to_the_log() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let id = server.begin(&request("a lamp", 3, 40));
    let written = server.written(&id);
    let log = data.path().join("runs.sqlite-wal");
    assert!(log.metadata().unwrap().len() > 0);
    assert!(server.terminate().success());
    assert!(log.metadata().map_or(0, |log| log.len()) == 0, "the log is empty");
    let _ = std::fs::remove_file(&log);
    assert_eq!(Server::tiny(data.path(), &[]).written(&id), written);
}

#[test]
fn a_log_that_ends_in_a_bad_frame_is_reported() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    for seed in 0..5 {
        server.write(&request("a lamp", seed, 10));
    }
    server.kill();
    let log = data.path().join("runs.sqlite-wal");
    let whole = std::fs::read(&log).unwrap();
    let said = |bytes: &[u8]| {
        let copy = tempdir().unwrap();
        // The log beside the folder: nothing else is in that.
        let (folder, log) = (copy.path().join("data"), copy.path().join("log"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::copy(data.path().join("runs.sqlite"), folder.join("runs.sqlite")).unwrap();
        std::fs::write(folder.join("runs.sqlite-wal"), bytes).unwrap();
        drop(Server::limited(&folder, "tiny", "true", &["--log", "warn"], &log));
        std::fs::read_to_string(&log).unwrap()
    };
    assert_eq!(said(&whole), "");
    for place in [3, 40, whole.len() / 3, whole.len() / 2, whole.len() - 5000] {
        let mut flipped = whole.clone();
        flipped[place] ^= 16;
        assert!(said(&flipped).contains("the end of the store's log cannot be read"), "byte {place}");
    }
}
