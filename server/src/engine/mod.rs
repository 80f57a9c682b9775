//! The thread that runs the model. It gives every active run one turn in every round.
//!
//! A turn is a step, or a piece of what the run begins with: all runs together read at most [`ROUND_READS`] tokens of
//! those in a round. A new run joins behind the others, and its constraint is compiled on another thread. So between two
//! turns of a run each other run has at most one, whatever is requested meanwhile.
//!
//! The order of a step is logits, frame, token, commit, and then the notification of watchers. Runs share no mutable
//! state: each has its own session, and a session's logits depend on its tokens alone, whether the run is new, resumed
//! after a crash, started again, or written several tokens at a pass. A resumed run compares what it recomputes with the
//! frames and tokens it stored. A model that computes otherwise on this machine, or an altered store, is detected before
//! the run writes anything.
//!
//! A pass takes the run's last token and some drafts behind it ([`lookup`]), and gives the logits after each. The run
//! emits its own token at every place, as long as the drafts were those tokens (drafter-invariant speculation, as
//! [`Run::step_with_drafts`](quillmate_sampler::Run::step_with_drafts) does it): more than one token a pass, and never another text.
//!
//! A run under a constraint samples from rows with its bans in them, and those rows are what its frames hold. Which bans
//! a row needs depends on the tokens before it, so the rows of a pass are looked at one after the other.

mod active;
mod prefills;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use quillmate_sampler::constraint::Constraint;
use tokio::sync::oneshot;

use crate::constraint::{self, Constraints, Ready};
use crate::environment::environment;
use crate::hub::Hub;
use crate::lookup;
use crate::model::{LanguageModel, ModelError};
use crate::store::{Admission, Room, Status, Store, StoreError, StoredRun, Writer};
use active::{ALTERED, Active, Failure};
use prefills::Prefills;

/// Tokens of prompts that are read in a round, at the most; runs that are reading share them. (One more for each run, if
/// there are more runs than that.)
pub const ROUND_READS: usize = 128;
/// Orders that are taken between two turns, at most, so that the runs advance however many come.
const ORDERS: u32 = 8;

/// The engine's configuration.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How many runs get steps at once (more wait), and the room a failed run must find to be tried again.
    pub room: Room,
    /// Contexts after a prompt that are kept, so that the same prompt need not be read again.
    pub prefills: usize,
    /// Tokens drafted for a pass at the most; 0 turns speculation off. It changes how long a text takes, not the text.
    pub drafts: usize,
    /// A pause before every pass, for tests and for watching.
    pub delay: Duration,
}

enum Command {
    Start(String),
    Stop(String, oneshot::Sender<Result<(), StoreError>>),
    /// A run's constraint is ready, or cannot be had.
    Ready(String, Ready),
    Quit,
}

/// Sends the engine its work.
#[derive(Clone)]
pub struct Handle {
    commands: Sender<Command>,
    work: Arc<Work>,
}

impl Handle {
    /// What has been done since the start.
    #[must_use]
    pub fn work(&self) -> &Work {
        &self.work
    }

    /// Begins, or takes up again, a run that is stored as running.
    pub fn start(&self, run: &str) {
        // An engine that is gone is a server that is stopping; the run is stored and goes on after it.
        let _ = self.commands.send(Command::Start(run.to_owned()));
    }

    /// Stops a run between two steps. `None` if the engine is gone.
    pub async fn stop(&self, run: &str) -> Option<Result<(), StoreError>> {
        let (done, answer) = oneshot::channel();
        self.commands.send(Command::Stop(run.to_owned(), done)).ok()?;
        answer.await.ok()
    }

    /// Ends the thread after the current step.
    pub fn quit(&self) {
        let _ = self.commands.send(Command::Quit);
    }
}

/// What the engine shares with the rest of the server.
#[derive(Clone)]
pub struct Shared {
    /// The store.
    pub store: Arc<Store>,
    /// Wakes watchers.
    pub hub: Arc<Hub>,
    /// The model, once it is loaded.
    pub model: Arc<OnceLock<Arc<dyn LanguageModel>>>,
    /// Compiled constraints.
    pub constraints: Arc<Constraints>,
}

/// Starts the engine's thread. It loads the model first, takes up what is unfinished in the store, and only then makes
/// the model known. It ends when it is told to quit.
pub fn spawn(
    options: Options,
    shared: Shared,
    load: impl FnOnce() -> Result<Arc<dyn LanguageModel>, ModelError> + Send + 'static,
    failed: oneshot::Sender<EngineError>,
) -> std::io::Result<(Handle, JoinHandle<()>)> {
    let (commands, inbox) = channel();
    let work = Arc::new(Work::default());
    let (work_done, ready) = (Arc::clone(&work), commands.clone());
    let builder = std::thread::Builder::new().name("engine".into()).stack_size(constraint::STACK);
    let thread = builder.spawn(move || {
        let outcome = load().map_err(EngineError::from).and_then(|model| {
            let writer =
                Writer { end_tokens: model.end_tokens().to_vec(), environment: environment(&*model, options.drafts) };
            let mut engine = Engine {
                options,
                writer,
                work_done,
                prefills: Prefills::new(options.prefills),
                store: shared.store,
                hub: shared.hub,
                constraints: shared.constraints,
                model,
                ready,
                waiting: VecDeque::new(),
                preparing: Vec::new(),
                turns: VecDeque::new(),
                round: 0,
                share: ROUND_READS,
            };
            engine.take_up()?;
            let _ = shared.model.set(Arc::clone(&engine.model));
            engine.work(&inbox);
            Ok(())
        });
        if let Err(error) = outcome {
            let _ = failed.send(error);
        }
    })?;
    Ok((Handle { commands, work }, thread))
}

/// Why the engine could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// There is no model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What has been done since the start: passes that gave tokens, the tokens, drafts and how many were right.
#[derive(Debug, Default)]
pub struct Work {
    /// Passes through the model that gave new tokens.
    pub passes: AtomicU64,
    /// New tokens.
    pub tokens: AtomicU64,
    /// Tokens that were drafted.
    pub drafted: AtomicU64,
    /// Drafts that were accepted.
    pub accepted: AtomicU64,
}

impl Work {
    fn add(&self, tokens: u64, drafted: u64, accepted: u64) {
        for (count, more) in
            [(&self.passes, 1), (&self.tokens, tokens), (&self.drafted, drafted), (&self.accepted, accepted)]
        {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }
}

struct Engine {
    options: Options,
    /// What its steps are kept with.
    writer: Writer,
    work_done: Arc<Work>,
    prefills: Prefills,
    store: Arc<Store>,
    hub: Arc<Hub>,
    constraints: Arc<Constraints>,
    model: Arc<dyn LanguageModel>,
    /// For those who make constraints ready.
    ready: Sender<Command>,
    /// Runs that have no place yet, in the order they came.
    waiting: VecDeque<String>,
    /// Runs that have a place and wait for their constraints.
    preparing: Vec<StoredRun>,
    /// Runs that move in every round, the one whose turn is longest ago first.
    turns: VecDeque<Active>,
    /// The round that is under way.
    round: u64,
    /// Tokens of its beginning each run may read in this round.
    share: usize,
}

/// The result of a turn.
enum Turn {
    GoesOn,
    Over,
}

impl Engine {
    /// Takes up the runs that were being written, in the order they were made, and of those that failed what may go on
    /// now, as far as there is room. Those of another model are told so by name and keep what they have: a server with
    /// their model takes them up again.
    fn take_up(&mut self) -> Result<(), StoreError> {
        match self.store.keep_tokenizer(self.model.tokens()) {
            // What is there can be read and deleted all the same.
            Err(StoreError::DiskFull) => {
                tracing::error!("the disk is full; the model's vocabulary could not be stored")
            }
            outcome => outcome?,
        }
        for (id, status, reason) in self.store.unfinished()? {
            if status == Status::Failed && !reason.as_deref().is_some_and(may_go_on) {
                continue;
            }
            let stored = match self.store.run(&id) {
                Ok(Some(stored)) => stored,
                Ok(None) => continue,
                // One run that cannot be read is not the others' fault.
                Err(error) => {
                    self.fail(&id, &error.into());
                    continue;
                }
            };
            if !stored.model.same_logits(self.model.identity()) {
                let message = format!(
                    "left alone: it is of model {} ({}, computed by {})",
                    stored.model.name, stored.model.sha256, stored.model.arithmetic
                );
                self.fail(&id, &Failure::new("model_mismatch", message));
            } else if status == Status::Running {
                self.waiting.push_back(id);
            } else {
                match self.store.reopen(&id, self.options.room) {
                    Ok(Some(Admission::Admitted(id))) => self.waiting.push_back(id),
                    Ok(_) => tracing::warn!(run = id, "not tried again: there is no room for it now"),
                    Err(error) => tracing::error!(run = id, %error, "it could not be tried again"),
                }
            }
        }
        Ok(())
    }

    fn work(&mut self, inbox: &Receiver<Command>) {
        // Taken since the last turn.
        let mut orders = 0;
        loop {
            let idle = self.turns.is_empty() && (self.waiting.is_empty() || !self.has_place());
            let command = if idle {
                orders = 0;
                // Nothing to do until somebody asks.
                inbox.recv().map_err(|_| TryRecvError::Disconnected)
            } else if orders < ORDERS {
                inbox.try_recv()
            } else {
                Err(TryRecvError::Empty)
            };
            orders += 1;
            match command {
                Ok(Command::Quit) | Err(TryRecvError::Disconnected) => return,
                Ok(Command::Start(id)) => {
                    let known = self.waiting.contains(&id)
                        || self.preparing.iter().any(|stored| stored.id == id)
                        || self.turns.iter().any(|active| active.id == id);
                    if !known {
                        self.waiting.push_back(id);
                    }
                }
                Ok(Command::Ready(id, ready)) => {
                    // A run that was stopped meanwhile is not among them.
                    if let Some(at) = self.preparing.iter().position(|stored| stored.id == id) {
                        let stored = self.preparing.swap_remove(at);
                        match ready {
                            Ok(constraint) => self.join(stored, Some(constraint)),
                            Err(error) => self.fail(&id, &error.into()),
                        }
                    }
                }
                Ok(Command::Stop(id, done)) => {
                    self.turns.retain(|active| active.id != id);
                    self.preparing.retain(|stored| stored.id != id);
                    self.waiting.retain(|waiting| *waiting != id);
                    let stopped = self.store.set_status(&id, Status::Stopped, Some("stopped"));
                    self.hub.ring(&id);
                    let _ = done.send(stopped);
                }
                Err(TryRecvError::Empty) => {
                    orders = 0;
                    self.turn();
                }
            }
        }
    }

    fn has_place(&self) -> bool {
        self.turns.len() + self.preparing.len() < self.options.room.runs as usize
    }

    /// Gives places to runs that wait, as far as there are any.
    fn admit(&mut self) {
        while self.has_place() {
            let Some(id) = self.waiting.pop_front() else { return };
            match self.store.run(&id) {
                Ok(Some(stored)) if stored.status == Status::Running => self.prepare(stored),
                Ok(_) => {}
                Err(error) => self.fail(&id, &error.into()),
            }
        }
    }

    /// Lets a run join the others, at once or when its constraint is ready.
    fn prepare(&mut self, stored: StoredRun) {
        let Some(constraint) = stored.constraint.clone() else {
            return self.join(stored, None);
        };
        let (id, ready) = (stored.id.clone(), self.ready.clone());
        let begun = constraint::prepare(
            Arc::clone(&self.constraints),
            constraint,
            Arc::clone(&self.model),
            stored.start.tokens.clone(),
            // An engine that is gone has no use for it.
            move |outcome| drop(ready.send(Command::Ready(id, outcome))),
        );
        match begun {
            Ok(()) => self.preparing.push(stored),
            Err(error) => self.fail(&stored.id, &Failure::new("model_error", format!("no thread: {error}"))),
        }
    }

    /// Puts a run behind the others; it moves from the next round on.
    fn join(&mut self, stored: StoredRun, constraint: Option<Box<dyn Constraint + Send>>) {
        let mut active = Active::new(stored, constraint, &*self.model);
        active.moved = self.round;
        self.turns.push_back(active);
    }

    /// Gives the next run its turn, or begins a round if all had theirs.
    fn turn(&mut self) {
        let Some(mut active) = self.turns.pop_front_if(|active| active.moved < self.round) else {
            self.admit();
            self.round += 1;
            let reading = self.turns.iter().filter(|active| active.is_reading()).count();
            self.share = (ROUND_READS / reading.max(1)).max(1);
            return;
        };
        active.moved = self.round;
        // A panic in a model's arithmetic costs its run this try, not the other runs theirs. Nothing of the run
        // survives here, and the store has only whole steps.
        let outcome = catch_unwind(AssertUnwindSafe(|| self.step(&mut active)))
            .unwrap_or_else(|_| Err(Failure::new("model_error", "the step panicked")));
        match outcome {
            Ok(Turn::GoesOn) => self.turns.push_back(active),
            Ok(Turn::Over) => {}
            Err(failure) => self.fail(&active.id, &failure),
        }
    }

    /// One pass through the model, and a token unless the run is still on its way to where it was.
    fn step(&mut self, active: &mut Active) -> Result<Turn, Failure> {
        let position = active.run.position();
        if position >= active.end {
            // Only a run that was reopened at its very end: there is nothing to add.
            active.check_unaltered()?;
            self.store.set_status(&active.id, Status::Finished, Some("length"))?;
            self.hub.ring(&active.id);
            return Ok(Turn::Over);
        }
        // A run that catches up with what is stored does so at once.
        if active.fed + 1 >= position {
            std::thread::sleep(self.options.delay);
        }
        let logits = if active.is_reading() {
            match self.read(active)? {
                Some(logits) => logits,
                None => return Ok(Turn::GoesOn),
            }
        } else if active.fed + 1 == position {
            return self.write(active);
        } else {
            feed(active)?
        };
        let at = active.fed;
        if at == position {
            return self.keep(active, &[logits], &[]);
        }
        let stored = self.store.frame(&active.id, at)?;
        active.compare(&logits, at, stored.as_deref())?;
        Ok(Turn::GoesOn)
    }

    /// Reads the run's share of its beginning, or takes the context as it was kept, and gives the logits after the
    /// beginning once it has been read.
    fn read(&mut self, active: &mut Active) -> Result<Option<Vec<f32>>, Failure> {
        let beginning = active.beginning();
        if let Some((session, logits)) = self.prefills.find(&beginning) {
            active.session = session;
            active.read = beginning.len();
            return Ok(Some(logits));
        }
        let until = beginning.len().min(active.read + self.share);
        let logits = active.session.read(&beginning[active.read..until])?;
        active.read = until;
        if active.is_reading() {
            return Ok(None);
        }
        self.prefills.keep(&beginning, &*active.session, &logits);
        Ok(Some(logits))
    }

    /// One pass over the last token and what is drafted behind it.
    fn write(&mut self, active: &mut Active) -> Result<Turn, Failure> {
        let context = active.run.context();
        let Some(&last) = context.last() else {
            return Err(Failure::new("model_error", "a run under way has a context"));
        };
        // The pass gives one token more than are drafted, and the run must not grow beyond its end.
        let room = usize::try_from(active.end - active.run.position()).unwrap_or(usize::MAX).saturating_sub(1);
        let room = room.min(self.model.context().saturating_sub(context.len()));
        let drafts = lookup::drafts(&context, self.options.drafts.min(room), self.model.end_tokens());
        let rows = active.session.extend(&[&[last], &drafts[..]].concat())?;
        let turn = self.keep(active, &rows, &drafts)?;
        // The session has seen all of the run but its last token; rejected drafts leave nothing behind.
        active.fed = active.run.position() - 1;
        active.session.truncate(active.run.context().len() - 1);
        Ok(turn)
    }

    /// Emits the tokens that rows and drafts give from the run's position on, and stores them with their frames.
    fn keep(&mut self, active: &mut Active, rows: &[Vec<f32>], drafts: &[u32]) -> Result<Turn, Failure> {
        active.check_unaltered()?;
        let position = active.run.position();
        let mut steps = Vec::with_capacity(rows.len());
        let mut accepted = 0;
        for (at, row) in rows.iter().enumerate() {
            match active.emit(row) {
                Ok(step) => steps.push(step),
                // What came before it is the text it would be without drafts; the next pass meets the failure first.
                Err(_) if at > 0 => break,
                Err(failure) => return Err(failure),
            }
            if drafts.get(at) != active.run.tokens().last() {
                break;
            }
            accepted += 1;
        }
        let ended = active.run.tokens().last().is_some_and(|token| self.model.end_tokens().contains(token));
        let end = if ended {
            Some("end_token")
        } else if active.run.position() >= active.end {
            Some("length")
        } else {
            None
        };
        self.store.append(&active.id, position, &steps, end, &self.writer)?;
        self.hub.ring(&active.id);
        self.work_done.add(steps.len() as u64, drafts.len() as u64, accepted);
        Ok(if end.is_some() { Turn::Over } else { Turn::GoesOn })
    }

    fn fail(&self, id: &str, failure: &Failure) {
        tracing::error!(run = id, code = failure.code, "a run cannot go on: {}", failure.message);
        if let Err(error) = self.store.set_status(id, Status::Failed, Some(&failure.code)) {
            // It is still stored as running, and the next start takes it up.
            tracing::error!(run = id, %error, "nor can that be stored");
        }
        self.hub.ring(id);
    }
}

/// Whether a run that failed for this reason may go on after a start: with another model, another build or another disk.
/// All other reasons lie in the run itself, and trying again comes to the same.
fn may_go_on(reason: &str) -> bool {
    [
        "model_mismatch",
        "logits_differ",
        "model_error",
        "store_error",
        "disk_full",
        "constraint_mismatch",
        // Stored by servers built without constraints, of which there are none any more.
        "constraint_unavailable",
        // Somebody may have brought the store back.
        ALTERED,
    ]
    .contains(&reason)
}

/// Feeds the session the run's next token and gives the logits after it.
fn feed(active: &mut Active) -> Result<Vec<f32>, Failure> {
    let token = usize::try_from(active.fed).ok().and_then(|at| active.run.tokens().get(at).copied());
    let Some(token) = token else {
        return Err(Failure::new("model_error", "the session is ahead of its run"));
    };
    let logits = active.session.feed(token)?;
    active.fed += 1;
    Ok(logits)
}
