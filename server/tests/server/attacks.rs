//! No cheap client takes the server away from the others: each attack with its count, against a server under limits.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use tempfile::tempdir;

use crate::support::{Server, model_file, request};

/// Kilobytes of address space a server may have here: the stacks of its threads are most of it.
const MEMORY: &str = "ulimit -v 4000000";
/// Megabytes it may really use with the tiny model.
const RESIDENT: u64 = 300;
/// Deadlines short enough for a test.
const SOON: [&str; 6] = ["--header-timeout-ms", "1500", "--body-timeout-ms", "1500", "--write-timeout-ms", "1500"];

/// Tokens of a run whose frames are more than the system keeps for a client that does not read them.
const LONG: u32 = 2500;

fn address(server: &Server) -> SocketAddr {
    server.address.strip_prefix("http://").unwrap().parse().unwrap()
}

/// A connection that has said so much, and whose answers the system keeps little of.
fn connect(server: &Server, said: &str) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&address(server).into()).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(said.as_bytes()).unwrap();
    stream
}

fn get(server: &Server, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", address(server))
}

/// The most megabytes a process has used, as Linux counts them.
fn most_used(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Everything a server says until it closes the connection; `None` if it does not in good time.
fn until_closed(mut stream: TcpStream) -> Option<String> {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
        Err(_) => return None,
    }
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// A long run, finished.
fn long_run(server: &Server) -> (String, Vec<Vec<u8>>) {
    let mut asked = request("the sea", 1, LONG);
    // Whole frames, and no end before its length.
    asked["settings"]["processors"] = json!([{"name": "deny", "version": 1, "tokens": [0]}]);
    let id = server.begin(&asked);
    let (frames, end) = server.follow(&id, 0);
    assert_eq!(end["reason"], "length");
    assert!(frames.iter().map(Vec::len).sum::<usize>() > 1_000_000);
    (id, frames)
}

#[test]
fn three_hundred_sockets_that_stand_still_are_closed() {
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let server =
        Server::limited(data.path(), "tiny", MEMORY, &[&SOON[..], &["--max-connections", "400"]].concat(), &log);
    let host = address(&server);
    let half_a_body = format!(
        "POST /api/runs HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{{"
    );
    let mut sockets = Vec::new();
    for _ in 0..100 {
        sockets.push(connect(&server, ""));
        sockets.push(connect(&server, &format!("GET /api/health HTTP/1.1\r\nhost: {host}\r\nx: ")));
        sockets.push(connect(&server, &half_a_body));
    }
    assert_eq!(server.get("/api/health").0, 200);
    // One that asked and says nothing more is idle too.
    sockets.push(connect(&server, &get(&server, "/api/health")));
    let said: Vec<String> = sockets.into_iter().map(|socket| until_closed(socket).expect("it is closed")).collect();
    assert_eq!(
        said.iter().filter(|said| said.starts_with("HTTP/1.1 408") && said.contains("body_timeout")).count(),
        100
    );
    assert!(said.last().unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(server.get("/api/health").0, 200);
}

#[test]
fn idle_sockets_are_no_outage_where_few_files_may_be_open() {
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let limits = format!("{MEMORY}; ulimit -n 256");
    let flags = ["--header-timeout-ms", "4000", "--log", "warn"];
    let server = Server::limited(data.path(), "tiny", &limits, &flags, &log);
    let sockets: Vec<TcpStream> = (0..240).map(|_| connect(&server, "")).collect();
    // Whoever comes now is told so, and when to come again.
    let ask = || until_closed(connect(&server, &get(&server, "/api/health"))).expect("an answer");
    let mut told = String::new();
    server.until("one is told", || {
        told = ask();
        !told.is_empty()
    });
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("retry-after: 1\r\n"), "{told}");
    assert!(told.contains("\"code\":\"too_many_connections\""), "{told}");
    server.until("the idle ones are closed", || ask().starts_with("HTTP/1.1 200"));
    drop(sockets);
    let log = std::fs::read_to_string(&log).unwrap();
    assert!(log.contains("open files") && log.contains("more connections than there may be"), "{log}");
    assert!(!log.contains('\u{1b}'), "no colours in a file: {log:?}");
}

#[test]
fn connections_that_cannot_be_accepted_are_logged_and_tried_again() {
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let server = Server::limited(data.path(), "tiny", MEMORY, &[&SOON[..], &["--log", "warn"]].concat(), &log);
    // Fewer files than are open already, set from outside.
    let prlimit = |files: &str| {
        let pid = server.pid().to_string();
        let set =
            std::process::Command::new("prlimit").args(["--pid", &pid, &format!("--nofile={files}:1024")]).status();
        assert!(set.unwrap().success());
    };
    prlimit("4");
    let waiting = connect(&server, &get(&server, "/api/health"));
    server.until("the failure is logged", || {
        std::fs::read_to_string(&log).unwrap().contains("no connection can be accepted")
    });
    prlimit("1024");
    assert!(until_closed(waiting).unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!(std::fs::read_to_string(&log).unwrap().matches("no connection can be accepted").count(), 1);
}

#[test]
fn watchers_that_do_not_read_are_let_go_and_can_come_back() {
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let flags = ["--max-run-tokens", "2500", "--write-timeout-ms", "8000"];
    let server = Server::limited(data.path(), "tiny", MEMORY, &flags, &log);
    let (id, frames) = long_run(&server);
    let stream = format!("/api/runs/{id}/stream?from=0");
    let mut watchers: Vec<TcpStream> = Vec::new();
    server.until("all places are taken", || {
        // More come all the time: on a busy machine the first may be let go before the last is there.
        watchers.extend((0..8).map(|_| connect(&server, &get(&server, &stream))));
        let answer = server.raw(&stream, &[]);
        assert!(answer.status() == 200 || answer.headers()["retry-after"] == "1");
        answer.status() == 429
    });
    server.until("all are let go", || {
        let places: Vec<_> = (0..64).map(|_| server.raw(&stream, &[])).collect();
        places.iter().all(|answer| answer.status() == 200)
    });
    for watcher in watchers {
        // What is on the way still comes; it is not all.
        let got = until_closed(watcher).expect("it is closed");
        assert!(got.len() < 1_000_000);
    }
    // Each of them may come back, for what it has not seen.
    assert_eq!(server.follow(&id, 500).0, frames[500..]);
    assert_eq!(server.follow(&id, 0).0, frames);
}

#[test]
fn five_hundred_who_do_not_read_a_record_cost_little_and_hang_nobody() {
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let flags = [&SOON[..], &["--max-run-tokens", "2500", "--max-connections", "600"]].concat();
    let server = Server::limited(data.path(), "tiny", MEMORY, &flags, &log);
    let (id, frames) = long_run(&server);
    let record = format!("/api/runs/{id}/record");
    let sockets: Vec<TcpStream> = (0..520).map(|_| connect(&server, &get(&server, &record))).collect();
    // All of these use the store.
    assert_eq!(server.run(&id)["status"], "finished");
    let beside = server.begin(&request("a lamp", 1, 5));
    server.until("a run beside them is written", || server.run(&beside)["status"] == "finished");
    let mut told = 0;
    for socket in sockets {
        let said = until_closed(socket).expect("it is closed");
        told += usize::from(said.starts_with("HTTP/1.1 429"));
        // Whoever was cut off can tell; whoever was still waited for when it began to read has all of it.
        let whole = said.ends_with("\r\n0\r\n\r\n");
        assert!(
            !said.starts_with("HTTP/1.1 200") || whole == said.contains("\r\n]}\r\n"),
            "a part, taken for the whole"
        );
    }
    assert!(told >= 520 - 64 - 64, "{told} were told to come back");
    let used = most_used(&server);
    assert!(used < RESIDENT, "{used} MB");
    let whole = server.get(&record).1;
    assert_eq!(whole["frames"].as_array().unwrap().len(), frames.len());
}

/// Bodies as large as they may be, all at once: what came of each.
fn large_bodies(server: &Server, path: &str, body: &Value) -> Vec<(u16, Value)> {
    std::thread::scope(|scope| {
        let posts: Vec<_> = (0..24).map(|_| scope.spawn(|| server.post(path, body))).collect();
        posts.into_iter().map(|post| post.join().unwrap()).collect()
    })
}

#[test]
fn a_prompt_of_too_many_bytes_is_refused_before_its_tokens_are_looked_for() {
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let server = Server::limited(data.path(), "tiny", MEMORY, &[], &log);
    let body = request(&"the sea ".repeat(130_000), 1, 5);
    for (status, answer) in large_bodies(&server, "/api/runs", &body) {
        assert_eq!((status, &answer["error"]["code"]), (400, &json!("prompt_too_long")));
        // As many tokens as it has at the least: its longest token has eight bytes.
        assert_eq!(answer["error"]["value"], 130_000);
    }
    let used = most_used(&server);
    assert!(used < RESIDENT, "{used} MB");
}

#[test]
fn large_texts_do_not_fill_the_memory_of_a_real_tokenizer() {
    let Some(path) = model_file() else { return };
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let server = Server::limited(data.path(), path.to_str().unwrap(), MEMORY, &[], &log);
    let before = most_used(&server);
    for text in ["the sea ".repeat(130_000), "x".repeat(1_040_000), " \u{e9}".repeat(260_000)] {
        for (status, answer) in large_bodies(&server, "/api/runs", &request(&text, 1, 5)) {
            assert_eq!((status, &answer["error"]["code"]), (400, &json!("prompt_too_long")));
        }
    }
    let answers = large_bodies(&server, "/api/tokenize", &json!({"text": "the sea ".repeat(130_000)}));
    // Those whose turn did not come in time are told so.
    let (told, done): (Vec<_>, Vec<_>) = answers.iter().partition(|(status, _)| *status == 503);
    assert!(told.iter().all(|(_, answer)| answer["error"]["code"] == "tokenizer_busy"));
    assert!(done.len() >= 2, "{told:?}");
    for (status, answer) in &done {
        assert_eq!((*status, answer), (200, &done[0].1));
    }
    let used = most_used(&server) - before;
    eprintln!("24 bodies of 1 MB took {used} MB");
    assert!(used < 1000, "{used} MB");
}
