//! Clients that hang up in the middle of a call: what they asked for goes on, and holds its place until it is through.
//!
//! And calls that wait for a place do not wait for ever.
//!
//! Here the router is called without sockets, on a runtime with one thread for slow work. So a test can hold that thread
//! before any piece of a call's slow work, and drop the call there, as hyper does when the client is gone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use quillmate_sampler::{GeneratorState, Settings};
use quillmate_server::app::{App, blocking};
use quillmate_server::engine::{self, Handle, Options, Shared};
use quillmate_server::limits::Limits;
use quillmate_server::model::LanguageModel;
use quillmate_server::model::tiny::Tiny;
use quillmate_server::routes;
use quillmate_server::store::{Admission, Room, Status, Store};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::support::request;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a client may take for a piece of a stream or record.
const PIECE: Duration = Duration::from_millis(50);
const ROOM: Room = Room { runs: 8, frame_bytes: 1 << 30 };

/// A server without its sockets.
struct Desk {
    app: Arc<App>,
    router: Router,
    engine: Handle,
    thread: Option<std::thread::JoinHandle<()>>,
    _running: watch::Sender<bool>,
}

impl Desk {
    fn new(data: &Path) -> Self {
        let shared = Shared {
            store: Arc::new(Store::open(data).unwrap()),
            hub: Arc::default(),
            model: Arc::default(),
            constraints: Arc::default(),
        };
        let options = Options { room: ROOM, prefills: 0, drafts: 0, delay: Duration::ZERO };
        let (failed, _failure) = oneshot::channel();
        let load = || Ok(Arc::new(Tiny::new()?) as Arc<dyn LanguageModel>);
        let (engine, thread) = engine::spawn(options, shared.clone(), load, failed).unwrap();
        let began = Instant::now();
        while shared.model.get().is_none() {
            assert!(began.elapsed() < PATIENCE);
            std::thread::yield_now();
        }
        let limits = Limits {
            body_bytes: 1 << 20,
            prompt_tokens: 2048,
            run_tokens: 512,
            constraint_bytes: 1 << 16,
            runs: ROOM.runs,
            streams: 4,
            frame_bytes: ROOM.frame_bytes,
        };
        let (running, stopping) = watch::channel(false);
        let app = App::new(shared, engine.clone(), Arc::default(), limits, PATIENCE, PIECE, stopping);
        let app = Arc::new(app);
        let router = routes::api(Arc::clone(&app), None);
        Self { app, router, engine, thread: Some(thread), _running: running }
    }

    /// Makes a call on a task of its own.
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> JoinHandle<Response<Body>> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.body(body.map_or(Body::empty(), |body| Body::from(body.to_string()))).unwrap();
        let service = TowerToHyperService::new(self.router.clone());
        tokio::spawn(async move { service.call(request).await.unwrap() })
    }

    /// Makes a call, and hangs up when so many pieces of its slow work are done and the next one waits for the thread,
    /// which is held until the gate is dropped.
    async fn hang_up(&self, path: &str, body: Option<&Value>, done: usize) -> Gate {
        let mut gate = Gate::queued();
        gate.closed().await;
        let call = self.call("POST", path, body);
        for _ in 0..done {
            settle().await;
            let mut next = Gate::queued();
            drop(gate);
            next.closed().await;
            gate = next;
        }
        settle().await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled(), "the call was over before its client hung up");
        gate
    }

    /// A run of these tokens, stored and not known to the engine.
    fn stored(&self, seed: u64, length: u32) -> String {
        let model = self.app.model.get().unwrap().identity().clone();
        match self.app.store.create(&state(seed), length, &model, None, 1000, ROOM).unwrap() {
            Admission::Admitted(id) => id,
            other => panic!("{other:?}"),
        }
    }

    /// Begins a run and waits until it is whole. One that began to move before it, and is shorter, is whole then too.
    async fn write(&self, seed: u64, length: u32) -> String {
        let id = self.stored(seed, length);
        self.engine.start(&id);
        let began = Instant::now();
        while self.status(&id) == Status::Running {
            assert!(began.elapsed() < PATIENCE, "run {id} does not end");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        id
    }

    fn status(&self, id: &str) -> Status {
        self.app.store.run(id).unwrap().unwrap().status
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.engine.quit();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Holds the thread for slow work, once it is its turn, until it is dropped.
struct Gate {
    _open: std::sync::mpsc::Sender<()>,
    closed: Option<oneshot::Receiver<()>>,
}

impl Gate {
    fn queued() -> Self {
        let (open, opened) = std::sync::mpsc::channel();
        let (told, closed) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            let _ = told.send(());
            let _ = opened.recv();
        });
        Self { _open: open, closed: Some(closed) }
    }

    /// Waits until it holds the thread: what was queued before it is done.
    async fn closed(&mut self) {
        if let Some(closed) = self.closed.take() {
            closed.await.unwrap();
        }
    }
}

/// Lets all other tasks go as far as they can.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// One thread for tasks, and one for slow work.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap()
}

fn state(seed: u64) -> GeneratorState {
    GeneratorState {
        seed,
        prompt: vec![98, 99, 100],
        tokens: Vec::new(),
        // Never over before its length: the token that ends a text is never among the best four.
        settings: Settings::new(1.0, 4, 1.0).unwrap(),
        processors: Default::default(),
    }
}

fn start(seed: u64) -> Value {
    serde_json::from_str(&state(seed).to_json()).unwrap()
}

#[test]
fn a_run_is_written_though_its_client_hung_up_while_it_was_stored() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path());
    runtime().block_on(async {
        drop(desk.hang_up("/api/runs", Some(&json!({"start": start(1), "length": 5})), 0).await);
        blocking(|| ()).await.unwrap();
        let running = rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap();
        let id: String = running.query_row("SELECT id FROM runs", [], |row| row.get(0)).expect("the run is stored");
        desk.write(2, 50).await;
        assert_eq!(desk.status(&id), Status::Finished);
    });
}

#[test]
fn a_run_is_resumed_though_its_client_hung_up() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path());
    runtime().block_on(async {
        let id = desk.stored(1, 5);
        desk.app.store.set_status(&id, Status::Stopped, Some("stopped")).unwrap();
        assert_eq!(desk.status(&id), Status::Stopped);
        drop(desk.hang_up(&format!("/api/runs/{id}/resume"), None, 1).await);
        blocking(|| ()).await.unwrap();
        assert_ne!(desk.status(&id), Status::Stopped, "it is stored as running");
        desk.write(2, 50).await;
        assert_eq!(desk.status(&id), Status::Finished);
    });
}

#[test]
fn a_verification_keeps_its_place_until_it_is_through() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path());
    runtime().block_on(async {
        let id = desk.write(1, 5).await;
        let free = || desk.app.verifications.available_permits();
        let all = free();
        let claim = json!({"tokens": [], "state": start(1)});
        let gate = desk.hang_up(&format!("/api/runs/{id}/verify"), Some(&claim), 1).await;
        settle().await;
        assert_eq!(free(), all - 1, "its work goes on");
        drop(gate);
        blocking(|| ()).await.unwrap();
        settle().await;
        assert_eq!(free(), all);
    });
}

#[test]
fn a_text_that_gets_no_turn_is_refused_and_holds_up_no_prompt() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path());
    runtime().block_on(async {
        // All the texts there may be, and they do not end.
        let app = &desk.app;
        let all = u32::try_from(app.texts.available_permits()).unwrap();
        let texts = app.texts.acquire_many(all).await.unwrap();
        let waiting = desk.call("POST", "/api/tokenize", Some(&json!({"text": "a lamp"})));
        settle().await;
        let written = desk.call("POST", "/api/runs", Some(&request("a lamp", 1, 5))).await.unwrap();
        assert_eq!(written.status(), 201, "a prompt has places of its own");
        let refused = waiting.await.unwrap();
        assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (503, &"1".parse().unwrap()));
        let body = axum::body::to_bytes(refused.into_body(), usize::MAX).await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body["error"]["code"], "tokenizer_busy");
        drop(texts);
        let again = desk.call("POST", "/api/tokenize", Some(&json!({"text": "a lamp"}))).await.unwrap();
        assert_eq!(again.status(), 200);
        // So it is with prompts.
        let _prompts = app.prompts.acquire_many(all).await.unwrap();
        assert_eq!(desk.call("POST", "/api/runs", Some(&request("a lamp", 1, 5))).await.unwrap().status(), 503);
    });
}

#[test]
fn a_client_that_takes_no_piece_gives_its_place_back() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path());
    runtime().block_on(async {
        let id = desk.write(1, 500).await;
        let all = desk.app.streams.available_permits();
        for path in [format!("/api/runs/{id}/stream?from=0"), format!("/api/runs/{id}/record")] {
            let answer = desk.call("GET", &path, None).await.unwrap();
            assert_eq!((answer.status().as_u16(), desk.app.streams.available_permits()), (200, all - 1));
            // Nothing is taken; no byte of it is read.
            let began = Instant::now();
            while desk.app.streams.available_permits() < all {
                assert!(began.elapsed() < PATIENCE, "{path} keeps its place");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            // Whoever reads on can tell that it is not all.
            let rest = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            if path.ends_with("record") {
                assert!(rest.is_err(), "a part, taken for the whole");
            } else {
                let rest = rest.unwrap();
                assert_eq!(rest[0], 1, "a frame");
                let length = u32::from_le_bytes(rest[1..5].try_into().unwrap()) as usize;
                assert_eq!(rest.len(), 5 + length, "and no message of an end");
            }
        }
    });
}
