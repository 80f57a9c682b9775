//! Nobody starves: between two turns of a run every other run has one at the most, counted on the passes themselves.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use quillmate_sampler::{GeneratorState, Run, Settings};
use quillmate_server::engine::{self, Handle, Options, ROUND_READS, Shared};
use quillmate_server::model::tiny::Tiny;
use quillmate_server::model::{Identity, LanguageModel, ModelError, Session, TokenTable};
use quillmate_server::store::{Admission, Room, Status, Store};
use tempfile::tempdir;
use tokio::sync::oneshot;

use crate::support::nobody;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(120);
const ROOM: Room = Room { runs: 10_000, frame_bytes: 1 << 40 };

/// A pass through the model: whose, and over how many tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pass {
    session: usize,
    tokens: usize,
}

/// What is done at every pass, before it.
type Hook = Box<dyn Fn(usize) + Send + Sync>;

#[derive(Default)]
struct Log {
    passes: Mutex<Vec<Pass>>,
    sessions: Mutex<usize>,
    moved: Condvar,
    hook: OnceLock<Hook>,
}

impl Log {
    fn open(&self) -> usize {
        let mut sessions = self.sessions.lock().unwrap();
        *sessions += 1;
        *sessions - 1
    }

    fn pass(&self, session: usize, tokens: usize) {
        let count = {
            let mut passes = self.passes.lock().unwrap();
            passes.push(Pass { session, tokens });
            passes.len()
        };
        self.moved.notify_all();
        if let Some(hook) = self.hook.get() {
            hook(count);
        }
    }

    /// Waits until there were so many passes; whether there were in time.
    fn wait(&self, count: usize, patience: Duration) -> bool {
        let passes = self.passes.lock().unwrap();
        !self.moved.wait_timeout_while(passes, patience, |passes| passes.len() < count).unwrap().1.timed_out()
    }
}

/// The tiny model, with a log of its passes and a gate before its vocabulary.
struct Watched {
    tiny: Tiny,
    identity: Identity,
    log: Arc<Log>,
    gate: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Watched {
    fn new(tokenizer: &str) -> Arc<Self> {
        let tiny = Tiny::new().unwrap();
        let identity = Identity { tokenizer_sha256: tokenizer.into(), ..tiny.identity().clone() };
        Arc::new(Self { tiny, identity, log: Arc::default(), gate: OnceLock::new() })
    }
}

impl LanguageModel for Watched {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn context(&self) -> usize {
        self.tiny.context()
    }

    fn end_tokens(&self) -> &[u32] {
        self.tiny.end_tokens()
    }

    fn tokens(&self) -> &TokenTable {
        if let Some(gate) = self.gate.get() {
            gate();
        }
        self.tiny.tokens()
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>, ModelError> {
        self.tiny.encode(text)
    }

    fn open(&self) -> Box<dyn Session> {
        Box::new(Context { inner: self.tiny.open(), session: self.log.open(), log: Arc::clone(&self.log) })
    }
}

struct Context {
    inner: Box<dyn Session>,
    session: usize,
    log: Arc<Log>,
}

impl Session for Context {
    fn read(&mut self, tokens: &[u32]) -> Result<Vec<f32>, ModelError> {
        self.log.pass(self.session, tokens.len());
        self.inner.read(tokens)
    }

    fn extend(&mut self, tokens: &[u32]) -> Result<Vec<Vec<f32>>, ModelError> {
        self.log.pass(self.session, tokens.len());
        self.inner.extend(tokens)
    }

    fn truncate(&mut self, len: usize) {
        self.inner.truncate(len);
    }

    fn fork(&self) -> Box<dyn Session> {
        Box::new(Self { inner: self.inner.fork(), session: self.log.open(), log: Arc::clone(&self.log) })
    }
}

/// An engine over a model that is watched.
struct Desk {
    store: Arc<Store>,
    model: Arc<Watched>,
    engine: Handle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Desk {
    fn new(data: &Path, model: Arc<Watched>) -> Self {
        Self::with_places(8, data, model)
    }

    fn with_places(places: u32, data: &Path, model: Arc<Watched>) -> Self {
        let options = Options { room: Room { runs: places, ..ROOM }, prefills: 0, drafts: 0, delay: Duration::ZERO };
        Self::with_options(options, data, model)
    }

    fn with_options(options: Options, data: &Path, model: Arc<Watched>) -> Self {
        let shared = Shared {
            store: Arc::new(Store::open(data).unwrap()),
            hub: Arc::default(),
            model: Arc::default(),
            constraints: Arc::default(),
        };
        let (failed, _failure) = oneshot::channel();
        let loaded: Arc<dyn LanguageModel> = Arc::clone(&model) as _;
        let (engine, thread) = engine::spawn(options, shared.clone(), move || Ok(loaded), failed).unwrap();
        let began = Instant::now();
        while shared.model.get().is_none() {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
        Self { store: shared.store, model, engine, thread: Some(thread) }
    }

    fn begin(&self, prompt: usize, seed: u64, length: u32, constraint: Option<&str>) -> String {
        let id = begin(&self.store, &self.model.identity, prompt, seed, length, constraint);
        self.engine.start(&id);
        id
    }

    /// Orders a run that has no token yet to stop, does what comes then, and sees that the run stays without a token.
    fn stop(&self, id: &str, then: impl FnOnce()) {
        let mut stopping = std::pin::pin!(self.engine.stop(id));
        // The first look at the answer gives the order.
        let answer = stopping.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop()));
        then();
        let stopped = match answer {
            Poll::Ready(stopped) => stopped,
            Poll::Pending => tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(stopping),
        };
        stopped.expect("the engine is there").unwrap();
        let run = self.store.run(id).unwrap().unwrap();
        assert_eq!((run.status, run.tokens.len()), (Status::Stopped, 0));
    }

    /// Waits until a run is whole.
    fn finished(&self, id: &str) -> Vec<u32> {
        let began = Instant::now();
        loop {
            let run = self.store.run(id).unwrap().unwrap();
            if run.status != Status::Running {
                assert_eq!(run.status, Status::Finished, "{:?}", run.reason);
                return run.tokens;
            }
            assert!(began.elapsed() < PATIENCE, "run {id} starves");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn passes(&self) -> Vec<Pass> {
        self.model.log.passes.lock().unwrap().clone()
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

/// Any prompt of so many tokens.
fn prompt(tokens: usize) -> Vec<u32> {
    (0..tokens).map(|at| 98 + (at * at % 26) as u32).collect()
}

fn begin(
    store: &Store,
    model: &Identity,
    prompt_tokens: usize,
    seed: u64,
    length: u32,
    constraint: Option<&str>,
) -> String {
    // Never over before its length: the token that ends a text is never among the best four.
    let settings = Settings::new(1.0, 4, 1.0).unwrap();
    let state = GeneratorState {
        seed,
        prompt: prompt(prompt_tokens),
        tokens: Vec::new(),
        settings,
        processors: Default::default(),
    };
    let kept = constraint.map(|regex| {
        let text = serde_json::json!({"engine": quillmate_server::constraint::ENGINE, "regex": regex}).to_string();
        quillmate_server::constraint::StoredConstraint::from_json(&text).unwrap()
    });
    match store.create(&state, length, model, kept.as_ref(), 1000, ROOM).unwrap() {
        Admission::Admitted(id) => id,
        other => panic!("{other:?}"),
    }
}

/// The longest gap of a session, in rounds of the others: what passed between two of its passes, most of one session.
fn longest_gap(passes: &[Pass], session: usize) -> usize {
    let mut longest = 0;
    let mut others: HashMap<usize, usize> = HashMap::new();
    let first = passes.iter().position(|pass| pass.session == session).unwrap();
    let last = passes.iter().rposition(|pass| pass.session == session).unwrap();
    for pass in &passes[first..=last] {
        if pass.session == session {
            others.clear();
        } else {
            let count = others.entry(pass.session).or_default();
            *count += 1;
            longest = longest.max(*count);
        }
    }
    longest
}

#[test]
fn new_runs_do_not_starve_a_running_one() {
    let data = tempdir().unwrap();
    let model = Watched::new("watched for posts");
    let desk = Desk::new(data.path(), Arc::clone(&model));
    // Two clients: whenever a pass is made, for 400 passes, there are two more runs of one token.
    let (store, engine, identity) = (Arc::clone(&desk.store), desk.engine.clone(), model.identity.clone());
    model
        .log
        .hook
        .set(Box::new(move |count| {
            if count <= 400 {
                for client in 0..2 {
                    engine.start(&begin(&store, &identity, 3, (2 * count + client) as u64, 1, None));
                }
            }
        }))
        .ok()
        .unwrap();
    let id = desk.begin(5, 1, 40, None);
    assert_eq!(desk.finished(&id).len(), 40);
    let passes = desk.passes();
    assert_eq!(longest_gap(&passes, 0), 1, "{passes:?}");
    // Others moved in between, and no more of them than there are places.
    let places: Vec<usize> =
        passes.iter().enumerate().filter(|(_, pass)| pass.session == 0).map(|(at, _)| at).collect();
    assert_eq!(places.len(), 40);
    let widest = places.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert_eq!(widest, 8, "as many turns as there are places");
}

#[test]
fn long_prompts_are_read_in_pieces_between_the_others() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path(), Watched::new("watched for prompts"));
    let beside = desk.begin(5, 1, 200, None);
    assert!(desk.model.log.wait(5, PATIENCE));
    let long = [desk.begin(1701, 2, 3, None), desk.begin(1000, 3, 3, None), desk.begin(300, 4, 3, None)];
    let written: Vec<Vec<u32>> = long.iter().map(|id| desk.finished(id)).collect();
    desk.finished(&beside);
    let passes = desk.passes();
    for session in 0..4 {
        assert_eq!(longest_gap(&passes, session), 1);
    }
    // Between two tokens of the run beside them, that is in a round.
    let mut read = 0;
    for pass in &passes {
        if pass.session == 0 {
            read = 0;
        } else if pass.tokens > 1 {
            read += pass.tokens;
            assert!(read <= ROUND_READS, "{read} tokens in a round");
        }
    }
    let pieces: Vec<usize> =
        passes.iter().filter(|pass| pass.session == 1 && pass.tokens > 1).map(|pass| pass.tokens).collect();
    assert_eq!(pieces.iter().sum::<usize>(), 1701);
    assert!(pieces.len() >= 1701 / ROUND_READS);
    // The frames are, bit for bit, those of prompts read in one piece by a model alone.
    for ((id, tokens), (prompt_tokens, seed)) in long.iter().zip(written).zip([(1701, 2), (1000, 3), (300, 4)]) {
        let mut session = desk.model.tiny.open();
        let mut run = Run::new(prompt(prompt_tokens), seed, Settings::new(1.0, 4, 1.0).unwrap());
        let mut row = session.read(&prompt(prompt_tokens)).unwrap();
        for (step, token) in tokens.into_iter().enumerate() {
            let frame = run.frame(step as u64, &row).unwrap().encode();
            assert_eq!(desk.store.frame(id, step as u64).unwrap().unwrap(), frame);
            assert_eq!(run.step_with(&row).unwrap(), token);
            row = session.feed(token).unwrap();
        }
    }
}

#[test]
fn a_constraint_that_takes_long_holds_nobody_else() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path(), Watched::new("watched for constraints"));
    let late = Arc::new(AtomicBool::new(false));
    let beside = desk.begin(5, 1, 60, None);
    // Reading a constraint asks for the vocabulary; here it is not had before the run beside it has its tokens.
    let (log, told) = (Arc::clone(&desk.model.log), Arc::clone(&late));
    let gate = move || {
        if !log.wait(60, Duration::from_secs(30)) {
            told.store(true, Ordering::SeqCst);
        }
    };
    desk.model.gate.set(Box::new(gate)).ok().unwrap();
    let constrained: Vec<String> = (0..2).map(|seed| desk.begin(5, seed, 8, Some("[b-y]{8}"))).collect();
    assert_eq!(desk.finished(&beside).len(), 60);
    for id in &constrained {
        assert!(!desk.finished(id).is_empty());
    }
    assert!(!late.load(Ordering::SeqCst), "the run beside it was held while a constraint was read");
}

#[test]
fn no_more_runs_are_under_way_than_there_are_places_those_whose_constraint_is_read_among_them() {
    let data = tempdir().unwrap();
    let desk = Desk::with_places(2, data.path(), Watched::new("watched for places"));
    let held = Arc::new(AtomicBool::new(true));
    let hold = Arc::clone(&held);
    let gate = move || {
        while hold.load(Ordering::SeqCst) {
            std::thread::yield_now()
        }
    };
    desk.model.gate.set(Box::new(gate)).ok().unwrap();
    let running = desk.begin(5, 1, 200, None);
    let constrained = desk.begin(5, 2, 8, Some("[b-y]{8}"));
    let waiting = desk.begin(5, 3, 8, None);
    // The other two are known to the engine by now, and neither has a context of the model.
    assert!(desk.model.log.wait(100, PATIENCE));
    assert_eq!(*desk.model.log.sessions.lock().unwrap(), 1);
    held.store(false, Ordering::SeqCst);
    for id in [&running, &constrained, &waiting] {
        assert!(!desk.finished(id).is_empty());
    }
}

#[test]
fn a_run_that_is_over_is_not_taken_up_again_when_it_is_named_again() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path(), Watched::new("watched for runs that are over"));
    let over = desk.begin(5, 1, 6, None);
    let tokens = desk.finished(&over);
    desk.engine.start(&over);
    // The engine takes what it is told in order: it has looked at the first when the second is written.
    let next = desk.begin(5, 2, 6, None);
    desk.finished(&next);
    assert_eq!(desk.finished(&over), tokens);
    assert_eq!(*desk.model.log.sessions.lock().unwrap(), 2, "one context of the model for each run");
}

/// The delay is for whoever watches a text appear; here only that it is kept, not how exactly.
#[test]
fn a_delay_comes_before_every_token() {
    const DELAY: Duration = Duration::from_millis(20);
    let data = tempdir().unwrap();
    let options = Options { room: ROOM, prefills: 0, drafts: 0, delay: DELAY };
    let desk = Desk::with_options(options, data.path(), Watched::new("watched for its delay"));
    let began = Instant::now();
    let id = desk.begin(5, 1, 10, None);
    assert_eq!(desk.finished(&id).len(), 10);
    assert!(began.elapsed() >= 10 * DELAY);
}

#[test]
fn orders_that_never_end_do_not_starve_a_run() {
    let data = tempdir().unwrap();
    let model = Watched::new("watched for orders");
    let desk = Desk::new(data.path(), Arc::clone(&model));
    // In its fifth pass come 400 orders, and behind them that the run is to be stopped.
    let (store, engine) = (Arc::clone(&desk.store), desk.engine.clone());
    let order = move |count| {
        if count == 5 {
            let id = store.unfinished().unwrap()[0].0.clone();
            (0..400).for_each(|_| engine.start(&id));
            let stop = std::pin::pin!(engine.stop(&id));
            assert!(stop.poll(&mut std::task::Context::from_waker(Waker::noop())).is_pending());
        }
    };
    model.log.hook.set(Box::new(order)).ok().unwrap();
    let id = desk.begin(5, 1, 4000, None);
    let began = Instant::now();
    while desk.store.run(&id).unwrap().unwrap().status == Status::Running {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(desk.store.run(&id).unwrap().unwrap().status, Status::Stopped);
    // A round of one run is its turn and the look at who waits; eight orders come before each.
    let passes = desk.passes().len();
    assert!((25..=60).contains(&passes), "{passes} passes before 400 orders were through");
}

#[test]
fn a_run_that_is_stopped_while_it_waits_takes_nobody_with_it() {
    let data = tempdir().unwrap();
    let desk = Desk::with_places(1, data.path(), Watched::new("watched for the waiting"));
    // The one that has the only place, at its third pass, until the others wait and one of them is stopped.
    let (held, log) = (Arc::new(AtomicBool::new(true)), Arc::clone(&desk.model.log));
    let hold = Arc::clone(&held);
    let hook = move |count| {
        while count == 3 && hold.load(Ordering::SeqCst) {
            std::thread::yield_now()
        }
    };
    log.hook.set(Box::new(hook)).ok().unwrap();
    let runs: Vec<String> = (0..4).map(|seed| desk.begin(5, seed, 6, None)).collect();
    assert!(log.wait(3, PATIENCE));
    desk.stop(&runs[2], || held.store(false, Ordering::SeqCst));
    for id in [&runs[0], &runs[1], &runs[3]] {
        assert_eq!(desk.finished(id).len(), 6);
    }
    assert_eq!(desk.store.run(&runs[2]).unwrap().unwrap().status, Status::Stopped);
}

#[test]
fn a_run_that_is_stopped_while_its_constraint_is_read_takes_nobody_with_it() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path(), Watched::new("watched for stopped constraints"));
    let held = Arc::new(AtomicBool::new(true));
    let hold = Arc::clone(&held);
    let gate = move || {
        while hold.load(Ordering::SeqCst) {
            std::thread::yield_now()
        }
    };
    desk.model.gate.set(Box::new(gate)).ok().unwrap();
    let [stopped, other] = [1, 2].map(|seed| desk.begin(5, seed, 8, Some("[b-y]{8}")));
    // To be told of it again makes no second one of it.
    (0..3).for_each(|_| desk.engine.start(&other));
    desk.stop(&stopped, || ());
    held.store(false, Ordering::SeqCst);
    assert!(!desk.finished(&other).is_empty());
    assert_eq!(desk.store.run(&stopped).unwrap().unwrap().status, Status::Stopped);
    assert_eq!(*desk.model.log.sessions.lock().unwrap(), 1, "one context of the model for one run");
}

/// Not how long anything takes: the time that the processor gave to the engine's thread, which has nothing to do.
#[cfg(target_os = "linux")]
#[test]
fn an_engine_without_runs_does_nothing() {
    let data = tempdir().unwrap();
    let desk = Desk::new(data.path(), Watched::new("watched for rest"));
    let thread: Arc<OnceLock<std::path::PathBuf>> = Arc::default();
    let named = Arc::clone(&thread);
    let hook = move |_| {
        let _ = named.set(
            Path::new("/proc/self/task").join(std::fs::read_link("/proc/thread-self").unwrap().file_name().unwrap()),
        );
    };
    desk.model.log.hook.set(Box::new(hook)).ok().unwrap();
    let id = desk.begin(5, 1, 3, None);
    desk.finished(&id);
    // Hundredths of a second in user and system, fields 14 and 15 of which the second ends with a parenthesis.
    let ticks = || {
        let stat = std::fs::read_to_string(thread.get().unwrap().join("stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    std::thread::sleep(Duration::from_millis(100));
    let before = ticks();
    std::thread::sleep(Duration::from_millis(600));
    assert!(ticks() - before < 10, "the engine's thread works without work");
}

/// A run of so many frames, each as large as a piece of a deletion or more, and stopped.
fn large_run(store: &Store, frames: u64) -> String {
    let id = begin(store, Tiny::new().unwrap().identity(), 5, 1, 4000, None);
    for step in 0..frames {
        store.append(&id, step, &[(98, vec![7; 2 << 20])], None, &nobody()).unwrap();
    }
    store.set_status(&id, Status::Stopped, Some("stopped")).unwrap();
    id
}

/// How often something can be done while something else is.
fn meanwhile(again: impl Fn(u64) + Sync, work: impl FnOnce()) -> u64 {
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                again(done.load(Ordering::SeqCst));
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
        while done.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        let before = done.load(Ordering::SeqCst);
        work();
        let after = done.load(Ordering::SeqCst);
        over.store(true, Ordering::SeqCst);
        after - before
    })
}

#[test]
fn a_deletion_lets_others_write_between_its_pieces() {
    const PIECES: u64 = 24;
    let data = tempdir().unwrap();
    let store = Store::open(data.path()).unwrap();
    let gone = large_run(&store, PIECES);
    let beside = begin(&store, Tiny::new().unwrap().identity(), 5, 2, 4000, None);
    // After each step beside it: how many pieces are left.
    let looking = rusqlite::Connection::open(data.path().join("runs.sqlite")).unwrap();
    let seen = Mutex::new((looking, BTreeSet::new()));
    let append = |step| {
        store.append(&beside, step, &[(98, vec![7; 100])], None, &nobody()).unwrap();
        let (looking, seen) = &mut *seen.lock().unwrap();
        let count = "SELECT COUNT(*) FROM steps WHERE run = ?1";
        seen.insert(looking.query_row(count, [&gone], |row| row.get::<_, u32>(0)).unwrap());
    };
    meanwhile(append, || {
        store.delete(&gone).unwrap();
    });
    let seen = seen.into_inner().unwrap().1;
    assert!(seen.len() as u64 > PIECES / 2, "steps were written only when so many pieces were left: {seen:?}");
}

#[test]
fn reading_many_frames_lets_others_read_between_its_pieces() {
    const FRAMES: u32 = 24;
    let data = tempdir().unwrap();
    let store = Store::open(data.path()).unwrap();
    let id = large_run(&store, FRAMES.into());
    let beside = meanwhile(
        |_| assert_eq!(store.frame(&id, 5).unwrap().unwrap().len(), 2 << 20),
        || {
            let frames = store.frames(&id, 0, FRAMES).unwrap().unwrap();
            assert_eq!(frames.len(), FRAMES as usize);
            assert!(frames.iter().all(|frame| frame.len() == 2 << 20));
        },
    );
    assert!(beside >= u64::from(FRAMES) / 2, "{beside} frames were read beside {FRAMES} pieces");
    // No more than was asked for, nor than there are.
    assert_eq!(store.frames(&id, 20, 3).unwrap().unwrap().len(), 3);
    assert_eq!(store.frames(&id, 20, 300).unwrap().unwrap().len(), 4);
    assert_eq!(store.frames(&id, 20, 0).unwrap().unwrap().len(), 0);
    assert_eq!(store.frames("nobody's", 0, 3).unwrap(), None);
}
