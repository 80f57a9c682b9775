//! When the room is gone: on the disk, or among the frames that may be kept.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::{TempDir, tempdir};

use crate::support::{Server, request};

/// A disk of so many megabytes, for as long as this lives.
pub struct Disk(TempDir);

impl Disk {
    /// `None`, said aloud, where no file system can be mounted.
    pub fn new(megabytes: u32) -> Option<Self> {
        let folder = tempdir().unwrap();
        let size = format!("size={megabytes}m");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(folder.path()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(folder));
        }
        let required = std::env::var_os("CI").is_some();
        assert!(!required, "a disk must be mounted here: run as root");
        eprintln!("not tried: no file system can be mounted");
        None
    }

    pub fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// Takes all the room that is left.
    pub fn fill(&self) -> PathBuf {
        let path = self.0.path().join("filler");
        let mut file = File::create(&path).unwrap();
        for block in [vec![0; 1 << 20], vec![0; 1 << 12], vec![0; 1]] {
            while file.write_all(&block).is_ok() {}
        }
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Whole frames, 600 bytes each, and no end before the length.
fn large(seed: u64, length: u32) -> Value {
    let mut asked = request("the sea", seed, length);
    asked["settings"]["processors"] = json!([{"name": "deny", "version": 1, "tokens": [0]}]);
    asked
}

fn code(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["error"]["code"].as_str().unwrap_or_default())
}

fn problems(server: &Server) -> Vec<String> {
    let (status, answer) = server.get("/api/ready");
    if status == 200 {
        assert_eq!(answer, json!({"ready": true}));
        return Vec::new();
    }
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("not_ready")));
    let problems = answer["error"]["problems"].as_array().unwrap();
    problems.iter().map(|problem| problem["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn on_a_full_disk_runs_are_refused_before_they_are_promised_and_can_be_deleted() {
    let Some(disk) = Disk::new(64) else { return };
    let server = Server::tiny(&disk.data(), &[]);
    let kept = server.begin(&large(1, 500));
    let written = server.written(&kept);
    let other = server.begin(&large(2, 500));
    server.written(&other);
    assert!(problems(&server).is_empty());
    let filler = disk.fill();
    let answer = server.post("/api/runs", &large(3, 500));
    assert_eq!(code(&answer), (507, "disk_full"), "{answer:?}");
    assert_eq!(problems(&server), ["disk_full"]);
    // What there is can be read, and what is not wanted makes room.
    assert_eq!(server.written(&kept), written);
    assert_eq!(server.delete(&format!("/api/runs/{other}")).0, 204);
    assert_eq!(server.get(&format!("/api/runs/{other}")).0, 404);
    let small = server.begin(&request("a lamp", 4, 20));
    assert!(!server.written(&small).text.is_empty(), "the room a deleted run had is room for another");
    // Again, and after a restart on the full disk.
    disk.fill();
    server.kill();
    let server = Server::tiny(&disk.data(), &[]);
    assert_eq!(server.delete(&format!("/api/runs/{small}")).0, 204);
    assert_eq!(server.written(&kept), written);
    std::fs::remove_file(filler).unwrap();
    server.until("there is room again", || problems(&server).is_empty());
    assert_eq!(server.write(&large(1, 500)), written);
}

#[test]
fn a_run_whose_disk_fills_up_fails_by_name_and_goes_on_later() {
    let Some(disk) = Disk::new(64) else { return };
    let server = Server::tiny(&disk.data(), &["--step-delay-ms", "2", "--max-run-tokens", "4000"]);
    let whole = Server::tiny(tempdir().unwrap().path(), &["--max-run-tokens", "4000"]).write(&large(5, 3000));
    let id = server.begin(&large(5, 3000));
    server.watch(&id, 0).frame();
    let filler = disk.fill();
    let (frames, end) = server.follow(&id, 0);
    assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("disk_full")));
    assert_eq!(frames, whole.frames[..frames.len()]);
    assert!(frames.len() < 3000);
    assert_eq!(code(&server.post_text(&format!("/api/runs/{id}/resume"), "", "")), (507, "disk_full"));
    std::fs::remove_file(filler).unwrap();
    assert_eq!(server.post_text(&format!("/api/runs/{id}/resume"), "", "").0, 200);
    assert_eq!(server.written(&id), whole);
}

#[test]
fn a_deletion_that_was_interrupted_is_finished() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &[]);
    let (gone, kept) = (server.begin(&large(1, 50)), server.begin(&large(2, 50)));
    server.written(&gone);
    let written = server.written(&kept);
    server.kill();
    let change = |sql: &str| {
        rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap().execute_batch(sql).unwrap();
    };
    change(&format!("UPDATE runs SET status = 'stopped', reason = 'deleting' WHERE id = '{gone}'"));
    change(&format!("DELETE FROM steps WHERE run = '{gone}' AND step < 20"));
    let server = Server::tiny(data.path(), &[]);
    assert_eq!(server.get(&format!("/api/runs/{gone}")).0, 404);
    assert_eq!(server.written(&kept), written);
    let store = rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap();
    let count =
        |of: &str| store.query_row(&format!("SELECT COUNT(*) FROM {of}"), [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!((count("runs"), count("steps")), (1, 50));
}

#[test]
fn a_deletion_that_failed_keeps_no_server_from_starting_and_can_be_asked_for_again() {
    let data = tempdir().unwrap();
    let log = data.path().join("log");
    let server = Server::tiny(data.path(), &[]);
    let (gone, other) = (server.begin(&large(1, 50)), server.begin(&large(2, 50)));
    server.written(&gone);
    let written = server.written(&other);
    let change = |sql: &str| {
        rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap().execute_batch(sql).unwrap();
    };
    // Stands for whatever keeps frames from being deleted.
    change(&format!(
        "CREATE TRIGGER held BEFORE DELETE ON steps WHEN old.run = '{gone}' BEGIN SELECT RAISE(ABORT, 'held'); END"
    ));
    let path = format!("/api/runs/{gone}");
    assert_eq!(code(&server.delete(&path)), (500, "internal"));
    assert_eq!(code(&server.get(&path)), (404, "run_not_found"));
    assert_eq!(code(&server.delete(&path)), (500, "internal"), "it is not gone, only not shown");
    server.kill();
    let server = Server::limited(data.path(), "tiny", "true", &["--log", "error"], &log);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("a deletion could not be finished") && said.contains(&gone), "{said}");
    assert_eq!(code(&server.get(&path)), (404, "run_not_found"));
    assert_eq!(code(&server.delete(&path)), (500, "internal"));
    change("DROP TRIGGER held");
    assert_eq!(server.delete(&path).0, 204);
    assert_eq!(code(&server.delete(&path)), (404, "run_not_found"));
    assert_eq!(server.written(&other), written);
    let store = rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap();
    let count =
        |of: &str| store.query_row(&format!("SELECT COUNT(*) FROM {of}"), [], |row| row.get::<_, u32>(0)).unwrap();
    assert_eq!((count("runs"), count("steps")), (1, 50));
}

/// The third step of such a run has no token left to choose.
fn doomed(seed: u64) -> Value {
    let mut asked = request("a", seed, 512);
    asked["settings"]["processors"] = json!([
        {"name": "allow", "version": 1, "tokens": [5]},
        {"name": "deny", "version": 1, "tokens": [5]},
    ]);
    asked
}

#[test]
fn failed_runs_hold_no_room_and_are_not_tried_again_in_vain() {
    let data = tempdir().unwrap();
    // Room for what two of them may need.
    let server = Server::tiny(data.path(), &["--max-frame-bytes", "1500000"]);
    let mut failed = Vec::new();
    for seed in 0..21 {
        let id = server.begin(&doomed(seed));
        let end = server.follow(&id, 0).1;
        assert_eq!((&end["status"], &end["reason"]), (&json!("failed"), &json!("processor_all_banned")));
        failed.push(id);
    }
    assert!(problems(&server).is_empty());
    assert!(server.terminate().success());
    let server = Server::tiny(data.path(), &["--step-delay-ms", "50", "--max-frame-bytes", "1500000"]);
    for id in &failed {
        assert_eq!(server.run(id)["reason"], "processor_all_banned");
    }
    // Whoever asks for it gets it tried all the same.
    let resumed = server.post_text(&format!("/api/runs/{}/resume", failed[0]), "", "");
    assert_eq!((resumed.0, &resumed.1["status"]), (200, &json!("running")));
    assert_eq!(server.follow(&failed[0], 0).1["reason"], "processor_all_banned");
}

#[test]
fn a_server_says_what_it_lacks() {
    let data = tempdir().unwrap();
    let server = Server::tiny(data.path(), &["--max-frame-bytes", "30000"]);
    assert!(problems(&server).is_empty());
    let id = server.begin(&large(1, 20));
    server.written(&id);
    drop(server);
    let server = Server::tiny(data.path(), &["--max-frame-bytes", "10000"]);
    assert_eq!(problems(&server), ["store_full"]);
    assert_eq!(code(&server.post("/api/runs", &request("a", 1, 2))), (507, "store_full"));
    assert_eq!(server.delete(&format!("/api/runs/{id}")).0, 204);
    assert!(problems(&server).is_empty());
    assert!(data.path().join("reserve").metadata().unwrap().len() > 0, "a full disk is prepared for");
}
