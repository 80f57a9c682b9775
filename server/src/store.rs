//! What is kept: runs and their steps, in SQLite.
//!
//! A step is one transaction, on disk before anybody hears of it (`synchronous=FULL`); the step that ends a run carries
//! the run's end in the same transaction. So whatever instant the process dies at, the store holds a prefix of the run,
//! and at least all of it that was shown.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quillmate_sampler::json::Object;
use quillmate_sampler::{CRATE_VERSION, Environment, GeneratorState, TARGET};
use rusqlite::{Connection, OptionalExtension, Row, TransactionBehavior, params};
use serde::Serialize;

use crate::constraint::Kept;
use crate::model::{Identity, TokenTable};

/// The form of the tables below; another one is refused, not guessed at.
const SCHEMA_VERSION: i64 = 5;
const SCHEMA: &str = "
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('running', 'finished', 'stopped', 'failed')),
    reason TEXT,
    length INTEGER NOT NULL,
    start TEXT NOT NULL,
    model_name TEXT NOT NULL,
    model_sha256 TEXT NOT NULL,
    arithmetic TEXT NOT NULL,
    tokenizer_sha256 TEXT NOT NULL,
    vocab INTEGER NOT NULL,
    constrained_by TEXT,
    frame_bytes INTEGER NOT NULL DEFAULT 0,
    reserved_bytes INTEGER NOT NULL
) STRICT;
CREATE TABLE steps (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    step INTEGER NOT NULL,
    token INTEGER NOT NULL,
    frame BLOB NOT NULL,
    UNIQUE (run, step)
) STRICT;
CREATE TABLE tokenizers (sha256 TEXT PRIMARY KEY, tokens BLOB NOT NULL) STRICT;
";
/// Form 3 did not say which release chose the tokens, nor what was to end a run.
const RELEASES: &str = "
CREATE TABLE releases (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    crate_version TEXT NOT NULL,
    target TEXT NOT NULL,
    end_tokens TEXT NOT NULL,
    UNIQUE (run, crate_version, target)
) STRICT;
";

/// Form 4 did not say in which circumstances a run was made: what it has of a run has circumstances that are not known.
const FROM_4: &str = r#"
INSERT INTO environments SELECT id, '{"build_features":null,"server":null,"cpu_features":null,"kernels":null,"threads":null,"drafts":null}'
FROM runs WHERE EXISTS (SELECT 1 FROM steps WHERE run = id);
"#;
const ENVIRONMENTS: &str = "
CREATE TABLE environments (
    run TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    environment TEXT NOT NULL,
    UNIQUE (run, environment)
) STRICT;
";

/// Form 1 did not say what had computed a run's logits; it was candle 0.11.
const FROM_1: &str = "ALTER TABLE runs ADD COLUMN arithmetic TEXT NOT NULL DEFAULT 'candle-0.11'";
/// Form 2 knew no constraints.
const FROM_2: &str = "ALTER TABLE runs ADD COLUMN constrained_by TEXT";

/// What the store could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite said no.
    #[error("the store: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The folder could not be used.
    #[error("the data folder {path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another server works in this folder.
    #[error("another server is using the data folder {0}")]
    InUse(String),
    /// The store was written by another release.
    #[error("the store has form {0}, this release reads {SCHEMA_VERSION}")]
    Version(i64),
    /// Something in the store cannot be what this server wrote.
    #[error("the store holds something damaged: {0}")]
    Damaged(String),
}

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is being written, or will be once the model is there.
    Running,
    /// It is whole.
    Finished,
    /// Somebody stopped it; it can be resumed.
    Stopped,
    /// It cannot go on for now, the reason says why; what it has is kept, and it can be resumed.
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }

    fn from_name(name: &str) -> Result<Self, StoreError> {
        [Self::Running, Self::Finished, Self::Stopped, Self::Failed]
            .into_iter()
            .find(|status| status.name() == name)
            .ok_or_else(|| StoreError::Damaged(format!("status {name:?}")))
    }
}

/// A run as it is stored.
#[derive(Debug, Clone)]
pub struct StoredRun {
    /// 32 hex digits.
    pub id: String,
    /// What it is doing.
    pub status: Status,
    /// Why it is not running.
    pub reason: Option<String>,
    /// How many tokens it is to emit after its start.
    pub length: u32,
    /// The generator's state before the first of them.
    pub start: GeneratorState,
    /// The model it belongs to.
    pub model: Identity,
    /// What its text must fit.
    pub constraint: Option<Kept>,
    /// The releases of the sampler that chose its tokens, in their order; empty where that was not recorded.
    pub releases: Vec<Release>,
    /// The circumstances it was made in, in their order; empty where that was not recorded.
    pub environments: Vec<Environment>,
    /// The tokens emitted after the start.
    pub tokens: Vec<u32>,
}

/// What chose tokens of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The sampler's version.
    pub crate_version: String,
    /// The target it was built for.
    pub target: String,
    /// The tokens after which it took a text to be over.
    pub end_tokens: Vec<u32>,
}

/// Who makes steps durable: what is kept with a run beside its steps.
#[derive(Debug, Clone)]
pub struct Writer {
    /// The tokens after which this release takes a text to be over.
    pub end_tokens: Vec<u32>,
    /// The circumstances it computes in.
    pub environment: Environment,
}

/// Several values in their order as one text; `None` where none is known.
fn in_order<'a>(parts: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let mut parts: Vec<Option<&str>> = parts.collect();
    parts.dedup();
    let known = parts.iter().any(Option::is_some);
    known.then(|| parts.iter().map(|part| part.unwrap_or("not recorded")).collect::<Vec<_>>().join(", then "))
}

impl StoredRun {
    /// What made the run, as a record says it: all its releases and circumstances, where there were several.
    pub fn identity(&self) -> quillmate_sampler::Identity {
        let all =
            |part: fn(&Release) -> &String| in_order(self.releases.iter().map(|release| Some(part(release).as_str())));
        let environment = |part: fn(&Environment) -> &Option<String>| {
            in_order(self.environments.iter().map(|environment| part(environment).as_deref()))
        };
        quillmate_sampler::Identity {
            crate_version: all(|release| &release.crate_version),
            target: all(|release| &release.target),
            environment: Environment {
                build_features: environment(|it| &it.build_features),
                server: environment(|it| &it.server),
                cpu_features: environment(|it| &it.cpu_features),
                kernels: environment(|it| &it.kernels),
                threads: environment(|it| &it.threads),
                drafts: environment(|it| &it.drafts),
            },
            model: quillmate_sampler::ModelIdentity {
                name: Some(self.model.name.clone()),
                sha256: Some(self.model.sha256.clone()),
                arithmetic: Some(self.model.arithmetic.clone()),
                tokenizer_sha256: Some(self.model.tokenizer_sha256.clone()),
                vocab: Some(self.model.vocab.into()),
            },
            constraint: self.constraint.as_ref().map(|kept| kept.show().to_string()),
        }
    }

    /// The generator's state now: what a request needs to go on from here.
    pub fn state(&self) -> GeneratorState {
        let mut state = self.start.clone();
        state.tokens.extend_from_slice(&self.tokens);
        state
    }
}

/// What a watcher has not seen yet.
#[derive(Debug, Clone)]
pub struct Tail {
    /// What the run was doing when the frames were read; if it was over, these are the last.
    pub status: Status,
    /// Why it is not running.
    pub reason: Option<String>,
    /// Frames in the order of their steps.
    pub frames: Vec<Vec<u8>>,
}

/// Whether a run may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is stored and running.
    Admitted(String),
    /// So many run already.
    TooManyRuns,
    /// Frames take so many bytes already.
    StoreFull {
        /// Bytes taken or set aside.
        used: u64,
    },
}

/// What the store will hold at most.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Runs at once.
    pub runs: u32,
    /// Bytes of frames.
    pub frame_bytes: u64,
}

/// The store. One process has it at a time.
pub struct Store {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    // Held for as long as the store is open; the system lets go of it when the process dies.
    _lock: File,
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    // A panic elsewhere leaves no half-done transaction: dropping one rolls it back.
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    Ok(connection)
}

impl Store {
    /// Opens or makes the store in a folder.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let in_folder = |source| StoreError::Folder { path: folder.display().to_string(), source };
        std::fs::create_dir_all(folder).map_err(in_folder)?;
        let guard = File::create(folder.join("lock")).map_err(in_folder)?;
        match guard.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(folder.display().to_string())),
            Err(TryLockError::Error(error)) => return Err(in_folder(error)),
        }
        let path = folder.join("runs.sqlite");
        let mut writer = connect(&path)?;
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let version: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match version {
            0 => {
                transaction.execute_batch(SCHEMA)?;
                transaction.execute_batch(RELEASES)?;
                transaction.execute_batch(ENVIRONMENTS)?;
                transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            1..SCHEMA_VERSION => {
                for change in
                    &[FROM_1, FROM_2, RELEASES, ENVIRONMENTS][usize::try_from(version - 1).unwrap_or_default()..]
                {
                    transaction.execute_batch(change)?;
                }
                transaction.execute_batch(FROM_4)?;
                transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            SCHEMA_VERSION => {}
            other => return Err(StoreError::Version(other)),
        }
        transaction.commit()?;
        let reader = connect(&path)?;
        Ok(Self { writer: Mutex::new(writer), reader: Mutex::new(reader), _lock: guard })
    }

    /// Keeps a tokenizer's table, so that a run can be shown after its model is gone.
    pub fn keep_tokenizer(&self, table: &TokenTable) -> Result<(), StoreError> {
        lock(&self.writer).execute(
            "INSERT OR IGNORE INTO tokenizers (sha256, tokens) VALUES (?1, ?2)",
            params![table.sha256(), table.encode()],
        )?;
        Ok(())
    }

    /// A kept tokenizer's table.
    pub fn tokenizer(&self, sha256: &str) -> Result<Option<TokenTable>, StoreError> {
        let bytes: Option<Vec<u8>> = lock(&self.reader)
            .query_row("SELECT tokens FROM tokenizers WHERE sha256 = ?1", [sha256], |row| row.get(0))
            .optional()?;
        match bytes {
            None => Ok(None),
            Some(bytes) => match TokenTable::decode(&bytes) {
                Some(table) if table.sha256() == sha256 => Ok(Some(table)),
                _ => Err(StoreError::Damaged(format!("tokenizer {sha256}"))),
            },
        }
    }

    /// Stores a new run, unless there is no room; `needed` bytes are set aside for its frames.
    pub fn create(
        &self,
        start: &GeneratorState,
        length: u32,
        model: &Identity,
        constraint: Option<&Kept>,
        needed: u64,
        room: Room,
    ) -> Result<Admission, StoreError> {
        let mut writer = lock(&self.writer);
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(refusal) = no_room(&transaction, needed, room)? {
            return Ok(refusal);
        }
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let id: String = transaction.query_row(
            "INSERT INTO runs (id, created_ms, status, length, start, model_name, model_sha256, arithmetic, tokenizer_sha256,
                               vocab, reserved_bytes, constrained_by)
             VALUES (lower(hex(randomblob(16))), ?1, 'running', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) RETURNING id",
            params![
                i64::try_from(created).unwrap_or(i64::MAX),
                length,
                start.to_json(),
                model.name,
                model.sha256,
                model.arithmetic,
                model.tokenizer_sha256,
                model.vocab,
                signed(needed),
                constraint.map(Kept::to_json)
            ],
            |row| row.get(0),
        )?;
        transaction.commit()?;
        Ok(Admission::Admitted(id))
    }

    /// Lets a stopped or failed run go on, unless there is no room. A running one is left as it is: `Ok(None)`.
    pub fn reopen(&self, id: &str, room: Room) -> Result<Option<Admission>, StoreError> {
        let mut writer = lock(&self.writer);
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found: Option<(String, i64)> = transaction
            .query_row("SELECT status, reserved_bytes FROM runs WHERE id = ?1", [id], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((status, reserved)) = found else {
            return Ok(None);
        };
        // A failed run's room is still set aside; a stopped one's is not.
        let needed = match Status::from_name(&status)? {
            Status::Stopped => unsigned(reserved),
            Status::Failed => 0,
            Status::Running | Status::Finished => return Ok(None),
        };
        if let Some(refusal) = no_room(&transaction, needed, room)? {
            return Ok(Some(refusal));
        }
        transaction.execute("UPDATE runs SET status = 'running', reason = NULL WHERE id = ?1", [id])?;
        transaction.commit()?;
        Ok(Some(Admission::Admitted(id.into())))
    }

    /// A run with its tokens.
    pub fn run(&self, id: &str) -> Result<Option<StoredRun>, StoreError> {
        let mut reader = lock(&self.reader);
        // One transaction: the tokens are those of the status.
        let transaction = reader.transaction()?;
        let run = transaction
            .query_row(
                "SELECT id, status, reason, length, start, model_name, model_sha256, arithmetic,
                        tokenizer_sha256, vocab, constrained_by
                 FROM runs WHERE id = ?1",
                [id],
                stored_run,
            )
            .optional()?;
        let Some(run) = run else {
            return Ok(None);
        };
        let mut run = run?;
        let mut statement = transaction.prepare_cached("SELECT step, token FROM steps WHERE run = ?1 ORDER BY step")?;
        let steps = statement.query_map([id], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?)))?;
        for (expected, step) in (run.start.step()..).zip(steps) {
            let (step, token) = step?;
            if unsigned(step) != expected {
                return Err(StoreError::Damaged(format!("run {id} has no step {expected}")));
            }
            run.tokens.push(token);
        }
        let mut statement = transaction
            .prepare_cached("SELECT crate_version, target, end_tokens FROM releases WHERE run = ?1 ORDER BY rowid")?;
        let releases = statement.query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get::<_, String>(2)?)))?;
        for release in releases {
            let (crate_version, target, end_tokens) = release?;
            let end_tokens = serde_json::from_str(&end_tokens)
                .map_err(|error| StoreError::Damaged(format!("run {id}: its end tokens: {error}")))?;
            run.releases.push(Release { crate_version, target, end_tokens });
        }
        let mut statement =
            transaction.prepare_cached("SELECT environment FROM environments WHERE run = ?1 ORDER BY rowid")?;
        for environment in statement.query_map([id], |row| row.get::<_, String>(0))? {
            let environment = Object::parse(&environment?)
                .and_then(Environment::from_object)
                .map_err(|error| StoreError::Damaged(format!("run {id}: its environment: {error}")))?;
            run.environments.push(environment);
        }
        Ok(Some(run))
    }

    /// Runs that are not over, in the order they were made: running ones, and failed ones that may go on now.
    pub fn unfinished(&self) -> Result<Vec<String>, StoreError> {
        let reader = lock(&self.reader);
        let mut statement =
            reader.prepare("SELECT id FROM runs WHERE status IN ('running', 'failed') ORDER BY created_ms, rowid")?;
        let ids = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(ids)
    }

    /// Makes steps durable, the first of them `step`, together with the run's end if these are the last. Who made them is
    /// kept with them.
    pub fn append(
        &self,
        id: &str,
        step: u64,
        steps: &[(u32, Vec<u8>)],
        end: Option<&str>,
        by: &Writer,
    ) -> Result<(), StoreError> {
        let mut writer = lock(&self.writer);
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction
            .prepare_cached(
                "INSERT OR IGNORE INTO releases (run, crate_version, target, end_tokens) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![id, CRATE_VERSION, TARGET, serde_json::json!(by.end_tokens).to_string()])?;
        transaction
            .prepare_cached("INSERT OR IGNORE INTO environments (run, environment) VALUES (?1, ?2)")?
            .execute(params![id, serde_json::json!(by.environment).to_string()])?;
        for (step, (token, frame)) in (step..).zip(steps) {
            transaction
                .prepare_cached("INSERT INTO steps (run, step, token, frame) VALUES (?1, ?2, ?3, ?4)")?
                .execute(params![id, signed(step), token, frame])?;
            transaction
                .prepare_cached("UPDATE runs SET frame_bytes = frame_bytes + ?2 WHERE id = ?1")?
                .execute(params![id, signed(frame.len() as u64)])?;
        }
        if let Some(reason) = end {
            set_status(&transaction, id, Status::Finished, Some(reason))?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Changes what a run that is not over is doing.
    pub fn set_status(&self, id: &str, status: Status, reason: Option<&str>) -> Result<(), StoreError> {
        set_status(&lock(&self.writer), id, status, reason)
    }

    /// What a watcher who has seen the steps before `from` has not seen: at most `most` frames.
    pub fn tail(&self, id: &str, from: u64, most: u32) -> Result<Option<Tail>, StoreError> {
        let mut reader = lock(&self.reader);
        let transaction = reader.transaction()?;
        let found: Option<(String, Option<String>)> = transaction
            .prepare_cached("SELECT status, reason FROM runs WHERE id = ?1")?
            .query_row([id], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((status, reason)) = found else {
            return Ok(None);
        };
        let mut statement = transaction
            .prepare_cached("SELECT frame FROM steps WHERE run = ?1 AND step >= ?2 ORDER BY step LIMIT ?3")?;
        let frames =
            statement.query_map(params![id, signed(from), most], |row| row.get(0))?.collect::<Result<_, _>>()?;
        Ok(Some(Tail { status: Status::from_name(&status)?, reason, frames }))
    }

    /// The frame of one step.
    pub fn frame(&self, id: &str, step: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let frame = lock(&self.reader)
            .prepare_cached("SELECT frame FROM steps WHERE run = ?1 AND step = ?2")?
            .query_row(params![id, signed(step)], |row| row.get(0))
            .optional()?;
        Ok(frame)
    }

    /// Deletes a run that is not running; whether there was one to delete.
    pub fn delete(&self, id: &str) -> Result<bool, StoreError> {
        let deleted = lock(&self.writer).execute("DELETE FROM runs WHERE id = ?1 AND status <> 'running'", [id])?;
        Ok(deleted > 0)
    }
}

fn set_status(connection: &Connection, id: &str, status: Status, reason: Option<&str>) -> Result<(), StoreError> {
    connection.execute(
        "UPDATE runs SET status = ?2, reason = ?3 WHERE id = ?1 AND status IN ('running', 'failed')",
        params![id, status.name(), reason],
    )?;
    Ok(())
}

/// Why a run that needs so many bytes more cannot run now.
fn no_room(connection: &Connection, needed: u64, room: Room) -> Result<Option<Admission>, StoreError> {
    let (running, used): (u32, i64) = connection.query_row(
        "SELECT COUNT(*) FILTER (WHERE status = 'running'),
                COALESCE(SUM(CASE WHEN status IN ('running', 'failed') THEN reserved_bytes ELSE frame_bytes END), 0)
         FROM runs",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let used = unsigned(used);
    if running >= room.runs {
        return Ok(Some(Admission::TooManyRuns));
    }
    if used.saturating_add(needed) > room.frame_bytes {
        return Ok(Some(Admission::StoreFull { used }));
    }
    Ok(None)
}

fn stored_run(row: &Row<'_>) -> rusqlite::Result<Result<StoredRun, StoreError>> {
    let id: String = row.get(0)?;
    let status: String = row.get(1)?;
    let start: String = row.get(4)?;
    let start = GeneratorState::from_json(&start).map_err(|error| StoreError::Damaged(format!("run {id}: {error}")));
    let constraint: Option<String> = row.get(10)?;
    let constraint = constraint
        .map(|text| Kept::from_json(&text))
        .transpose()
        .map_err(|error| StoreError::Damaged(format!("run {id}: its constraint: {error}")));
    Ok(Status::from_name(&status).and_then(|status| {
        Ok(StoredRun {
            id,
            status,
            reason: row.get(2)?,
            length: row.get(3)?,
            start: start?,
            model: Identity {
                name: row.get(5)?,
                sha256: row.get(6)?,
                arithmetic: row.get(7)?,
                tokenizer_sha256: row.get(8)?,
                vocab: row.get(9)?,
            },
            constraint: constraint?,
            releases: Vec::new(),
            environments: Vec::new(),
            tokens: Vec::new(),
        })
    }))
}

/// SQLite's integers are signed; steps and sizes never come near the top.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
