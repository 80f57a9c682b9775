//! The one thread that owns the model's time: it gives every active run one step in turn.
//!
//! A step is *logits, frame, token, commit, and only then the bell*. Runs share nothing that changes: each has its own
//! session, and a session's logits depend on its tokens alone, whether the run is new, resumed after a crash, started
//! again, or written several tokens at a pass. What a resumed run recomputes on its way is compared with the frames it
//! stored, so a model that computes otherwise on this machine is noticed before it writes another text.
//!
//! A pass takes the run's last token and some drafts behind it ([`lookup`]), and gives the logits after each. The run
//! emits its own token at every place, as long as the drafts were those tokens (drafter-invariant speculation, as
//! [`Run::step_with_drafts`] does it): more than one token a pass, and never another text.
//!
//! A run under a constraint samples from rows with its bans in them, and those rows are what its frames hold. Which bans
//! a row needs depends on the tokens before it, so the rows of a pass are looked at one after the other.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use quillmate_sampler::constraint::{Constraint, constrain};
use quillmate_sampler::{Refusal, Run};
use tokio::sync::oneshot;

use crate::constraint::{self, Unusable};
use crate::environment::environment;
use crate::hub::Hub;
use crate::lookup;
use crate::model::{LanguageModel, ModelError, Session};
use crate::store::{Status, Store, StoreError, StoredRun, Writer};

/// What the engine is made of.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Runs that get steps at once; more wait.
    pub runs: usize,
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

    /// Ends the thread after the step it is at.
    pub fn quit(&self) {
        let _ = self.commands.send(Command::Quit);
    }
}

/// Starts the engine's thread. It loads the model first, takes up what is unfinished in the store, and only then makes
/// the model known through `ready`.
pub fn spawn(
    options: Options,
    store: Arc<Store>,
    hub: Arc<Hub>,
    ready: Arc<OnceLock<Arc<dyn LanguageModel>>>,
    load: impl FnOnce() -> Result<Arc<dyn LanguageModel>, ModelError> + Send + 'static,
    failed: oneshot::Sender<EngineError>,
) -> std::io::Result<(Handle, JoinHandle<()>)> {
    let (commands, inbox) = channel();
    let work = Arc::new(Work::default());
    let work_done = Arc::clone(&work);
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
                store,
                hub,
                model,
                turns: VecDeque::new(),
                waiting: VecDeque::new(),
            };
            engine.take_up()?;
            let _ = ready.set(Arc::clone(&engine.model));
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
    model: Arc<dyn LanguageModel>,
    turns: VecDeque<Active>,
    waiting: VecDeque<String>,
}

/// A run that is being written.
struct Active {
    id: String,
    run: Run,
    /// What its text must fit.
    constraint: Option<Box<dyn Constraint + Send>>,
    /// The first step that has, or will have, a frame.
    start: u64,
    /// The step before which the run is whole.
    end: u64,
    /// The context; none until the prompt has been read.
    session: Option<Box<dyn Session>>,
    /// How many of the run's tokens the session has been fed.
    fed: u64,
}

/// What a turn came to.
enum Turn {
    GoesOn,
    Over,
}

/// Why a run fails: a code for its `reason`, and words for the log.
struct Failure {
    code: String,
    message: String,
}

impl Failure {
    fn new(code: &str, message: impl std::fmt::Display) -> Self {
        Self { code: code.into(), message: message.to_string() }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self::new(error.code(), error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new("store_error", error)
    }
}

impl From<Unusable> for Failure {
    fn from(error: Unusable) -> Self {
        Self::new(error.code(), error)
    }
}

impl Failure {
    fn refused(refusal: impl Refusal) -> Self {
        Self::new(refusal.code(), refusal)
    }
}

impl Engine {
    /// Takes up every run that is not over, in the order they were made. Those of another model are told so by name and
    /// keep what they have: a server with their model takes them up again.
    fn take_up(&mut self) -> Result<(), StoreError> {
        self.store.keep_tokenizer(self.model.tokens())?;
        for id in self.store.unfinished()? {
            let Some(stored) = self.store.run(&id)? else {
                continue;
            };
            if stored.model.same_logits(self.model.identity()) {
                self.store.set_status(&id, Status::Running, None)?;
                self.waiting.push_back(id);
            } else {
                tracing::warn!(
                    run = id,
                    of = stored.model.name,
                    sha256 = stored.model.sha256,
                    arithmetic = stored.model.arithmetic,
                    "left alone: another model"
                );
                self.store.set_status(&id, Status::Failed, Some("model_mismatch"))?;
            }
        }
        Ok(())
    }

    fn work(&mut self, inbox: &Receiver<Command>) {
        loop {
            let idle = self.turns.is_empty() && self.waiting.is_empty();
            let command = if idle {
                // Nothing to do until somebody asks; nobody left to ask is the end.
                match inbox.recv() {
                    Ok(command) => Some(command),
                    Err(_) => return,
                }
            } else {
                match inbox.try_recv() {
                    Ok(command) => Some(command),
                    Err(TryRecvError::Empty) => None,
                    Err(TryRecvError::Disconnected) => return,
                }
            };
            match command {
                Some(Command::Quit) => return,
                Some(Command::Start(id)) => {
                    let known = self.waiting.contains(&id) || self.turns.iter().any(|active| active.id == id);
                    if !known {
                        self.waiting.push_back(id);
                    }
                }
                Some(Command::Stop(id, done)) => {
                    self.turns.retain(|active| active.id != id);
                    self.waiting.retain(|waiting| *waiting != id);
                    let stopped = self.store.set_status(&id, Status::Stopped, Some("stopped"));
                    self.hub.ring(&id);
                    let _ = done.send(stopped);
                }
                None => self.turn(),
            }
        }
    }

    /// Gives the next run its turn.
    fn turn(&mut self) {
        while self.turns.len() < self.options.runs {
            let Some(id) = self.waiting.pop_front() else { break };
            match self.store.run(&id) {
                // In front, so that a new run's prompt is read before the others go on.
                Ok(Some(stored)) if stored.status == Status::Running => match Active::new(stored, &*self.model) {
                    Ok(active) => self.turns.push_front(active),
                    Err(error) => self.fail(&id, &error.into()),
                },
                Ok(_) => {}
                Err(error) => self.fail(&id, &error.into()),
            }
        }
        let Some(mut active) = self.turns.pop_front() else {
            return;
        };
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
            self.store.set_status(&active.id, Status::Finished, Some("length"))?;
            self.hub.ring(&active.id);
            return Ok(Turn::Over);
        }
        if !self.options.delay.is_zero() && (position == active.start || active.fed + 1 >= position) {
            std::thread::sleep(self.options.delay);
        }
        if active.session.is_some() && active.fed + 1 == position {
            return self.write(active);
        }
        let logits = self.advance(active)?;
        let at = active.fed;
        if at < active.start {
            return Ok(Turn::GoesOn);
        }
        if at == position {
            return self.keep(active, &[logits], &[]);
        }
        let row = active.row(&logits, at)?;
        let frame = active.run.frame(at, &row).map_err(Failure::refused)?;
        if self.store.frame(&active.id, at)?.as_deref() != Some(&frame.encode()) {
            return Err(Failure::new(
                "logits_differ",
                format!("step {at} gives other logits than those stored; was the run written by another build?"),
            ));
        }
        Ok(Turn::GoesOn)
    }

    /// One pass over the last token and what is drafted behind it.
    fn write(&mut self, active: &mut Active) -> Result<Turn, Failure> {
        let context = active.run.context();
        let (Some(&last), Some(session)) = (context.last(), &mut active.session) else {
            return Err(Failure::new("model_error", "a run under way has a context and a session"));
        };
        // The pass gives one token more than are drafted, and the run must not grow beyond its end.
        let room = usize::try_from(active.end - active.run.position()).unwrap_or(usize::MAX).saturating_sub(1);
        let room = room.min(self.model.context().saturating_sub(context.len()));
        let drafts = lookup::drafts(&context, self.options.drafts.min(room), self.model.end_tokens());
        let rows = session.extend(&[&[last], &drafts[..]].concat())?;
        let turn = self.keep(active, &rows, &drafts)?;
        // The session has seen all of the run but its last token; rejected drafts leave nothing behind.
        active.fed = active.run.position() - 1;
        if let Some(session) = &mut active.session {
            session.truncate(active.run.context().len() - 1);
        }
        Ok(turn)
    }

    /// Emits the tokens that rows and drafts give from the run's position on, and stores them with their frames.
    fn keep(&mut self, active: &mut Active, rows: &[Vec<f32>], drafts: &[u32]) -> Result<Turn, Failure> {
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

    /// Feeds the session what comes next and gives the logits for step `active.fed`.
    fn advance(&mut self, active: &mut Active) -> Result<Vec<f32>, Failure> {
        if let Some(session) = &mut active.session {
            let token = usize::try_from(active.fed).ok().and_then(|at| active.run.tokens().get(at).copied());
            let Some(token) = token else {
                return Err(Failure::new("model_error", "the session is ahead of its run"));
            };
            let logits = session.feed(token)?;
            active.fed += 1;
            return Ok(logits);
        }
        let (session, logits) = self.prefills.get(&*self.model, active.run.prompt())?;
        active.session = Some(session);
        Ok(logits)
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

impl Active {
    fn new(stored: StoredRun, model: &dyn LanguageModel) -> Result<Self, Unusable> {
        let start = stored.start.step();
        Ok(Self {
            start,
            end: start + u64::from(stored.length),
            run: Run::from_state(stored.state()),
            constraint: stored.constraint.map(|constraint| constraint.compile(model)).transpose()?,
            id: stored.id,
            session: None,
            fed: 0,
        })
    }

    /// The row step `at` is sampled from: the model's, with the constraint's bans in it.
    fn row<'a>(&mut self, logits: &'a [f32], at: u64) -> Result<Cow<'a, [f32]>, Failure> {
        let Some(constraint) = &mut self.constraint else {
            return Ok(Cow::Borrowed(logits));
        };
        let before = usize::try_from(at).ok().and_then(|at| self.run.tokens().get(..at));
        let before = before.ok_or_else(|| Failure::new("model_error", "the session is ahead of its run"))?;
        constrain(logits, &mut **constraint, before).map(Cow::Owned).map_err(Failure::refused)
    }

    /// Emits the next token: it, and the frame of the row it came from.
    fn emit(&mut self, logits: &[f32]) -> Result<(u32, Vec<u8>), Failure> {
        let step = self.run.position();
        let row = self.row(logits, step)?;
        let frame = self.run.frame(step, &row).map_err(Failure::refused)?;
        Ok((self.run.step_with(&row).map_err(Failure::refused)?, frame.encode()))
    }
}

/// Contexts as they were right after a prompt, the last used first. Taking one gives the same bits,
/// only earlier: a fork shares what was computed and never writes to it.
struct Prefills {
    most: usize,
    kept: VecDeque<Prefill>,
}

struct Prefill {
    prompt: Vec<u32>,
    session: Box<dyn Session>,
    logits: Vec<f32>,
}

impl Prefills {
    fn new(most: usize) -> Self {
        Self { most, kept: VecDeque::new() }
    }

    fn get(&mut self, model: &dyn LanguageModel, prompt: &[u32]) -> Result<(Box<dyn Session>, Vec<f32>), ModelError> {
        let known = self.kept.iter().position(|kept| kept.prompt == prompt).and_then(|at| self.kept.remove(at));
        let prefill = match known {
            Some(prefill) => prefill,
            None => {
                let mut session = model.open();
                let logits = session.prefill(prompt)?;
                Prefill { prompt: prompt.to_vec(), session, logits }
            }
        };
        let taken = (prefill.session.fork(), prefill.logits.clone());
        self.kept.push_front(prefill);
        self.kept.truncate(self.most);
        Ok(taken)
    }
}
