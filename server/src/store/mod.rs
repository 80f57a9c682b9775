//! The store: runs and their steps, in SQLite.
//!
//! Deleted data is also overwritten in the files (`secure_delete`, and the log is emptied afterwards), and only the user
//! who runs the server may read them. Runs can be deleted on a full disk: a reserve is kept for that.
//!
//! A step is one transaction, on disk before it is shown (`synchronous=FULL`). The last step of a run and the run's end
//! are one transaction. So the store holds a prefix of the run whenever the process dies, with at least everything that
//! was shown.

mod error;
mod folder;
mod log;
mod schema;

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use quillmate_sampler::json::Object;
use quillmate_sampler::{CRATE_VERSION, Environment, GeneratorState, TARGET};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::constraint::StoredConstraint;
use crate::hex::hex;
use crate::model::{Identity, TokenTable};
use folder::{Folder, LOG_ROOM};
use schema::{ENVIRONMENTS, FROM_1, FROM_2, FROM_4, RELEASES, SCHEMA, SCHEMA_VERSION};

pub use error::StoreError;

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is being written, or will be once the model is there.
    Running,
    /// It is complete.
    Finished,
    /// A client stopped it; it can be resumed.
    Stopped,
    /// It could not continue; `reason` says why. Its steps are kept, and it can be resumed.
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
    /// Its constraint.
    pub constraint: Option<StoredConstraint>,
    /// The releases of the sampler that chose its tokens, in their order; empty where that was not recorded.
    pub releases: Vec<Release>,
    /// The circumstances it was made in, in their order; empty where that was not recorded.
    pub environments: Vec<Environment>,
    /// The tokens emitted after the start.
    pub tokens: Vec<u32>,
    /// Whether its start, length or constraint is no longer what was asked for. Runs made before form 5 cannot tell.
    pub altered: bool,
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

/// What is stored with a run about the server that writes its steps.
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
            constraint: self.constraint.as_ref().map(|kept| serde_json::json!(kept.show()).to_string()),
        }
    }

    /// The generator's state now: what a request needs to go on from here.
    pub fn state(&self) -> GeneratorState {
        let mut state = self.start.clone();
        state.tokens.extend_from_slice(&self.tokens);
        state
    }
}

/// The steps a watcher has not seen yet.
#[derive(Debug, Clone)]
pub struct Tail {
    /// What the run was doing when the frames were read; if it was over, these are the last.
    pub status: Status,
    /// Why it is not running.
    pub reason: Option<String>,
    /// Frames in the order of their steps.
    pub frames: Vec<Vec<u8>>,
    /// Whether these are all there were; if not, there may be more.
    pub all: bool,
}

/// How much is read at once.
#[derive(Debug, Clone, Copy)]
pub struct BatchSize {
    /// Frames.
    pub frames: u32,
    /// Bytes after which no further frame is read.
    pub bytes: usize,
}

/// Whether a run may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It is stored and running.
    Admitted(String),
    /// The limit of runs is reached.
    TooManyRuns,
    /// The limit of frame bytes is reached.
    StoreFull {
        /// Bytes taken or set aside.
        used: u64,
    },
    /// The disk has no room for it.
    DiskFull {
        /// Bytes the disk has for frames that nobody was promised yet.
        free: u64,
    },
}

/// What is read at once of many frames: others wait for the reader meanwhile, the engine among them.
const PIECE: BatchSize = BatchSize { frames: 64, bytes: 1 << 20 };

/// The limits of the store.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Runs at once.
    pub runs: u32,
    /// Bytes of frames.
    pub frame_bytes: u64,
}

/// The result of a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deletion {
    /// The run is gone.
    Done,
    /// It is being written.
    Running,
    /// There is no such run.
    NoSuchRun,
}

/// What a run's `reason` is from when its deletion began to when it is done. Such a run is not shown any more.
const DELETING: &str = "deleting";
/// Bytes of frames that are deleted at once: as much again goes through the log, since what is deleted is overwritten.
const DELETED_AT_ONCE: u64 = 2 << 20;

/// The store. One process uses it at a time.
///
/// A connection that was held for a millisecond or more goes to whoever has waited longest (`parking_lot` promises that
/// much): work in pieces lets others in between two of them. A panic under one leaves no half-done transaction, since
/// dropping one rolls it back.
pub struct Store {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
    folder: Folder,
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", signed(LOG_ROOM / 2), |_| Ok(()))?;
    Ok(connection)
}

/// Opens the tables, and brings them into this release's form.
fn open_tables(path: &Path) -> Result<Connection, StoreError> {
    let mut writer = connect(path)?;
    let version: i64 = writer.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == SCHEMA_VERSION {
        return Ok(writer);
    }
    let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match version {
        0 => {
            transaction.execute_batch(SCHEMA)?;
            transaction.execute_batch(RELEASES)?;
            transaction.execute_batch(ENVIRONMENTS)?;
        }
        1..SCHEMA_VERSION => {
            let changes = [FROM_1, FROM_2, RELEASES, ENVIRONMENTS];
            for change in &changes[usize::try_from(version - 1).unwrap_or_default()..] {
                transaction.execute_batch(change)?;
            }
            transaction.execute_batch(FROM_4)?;
        }
        other => return Err(StoreError::Version(other)),
    }
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()?;
    Ok(writer)
}

/// Brings all that is in the log into the tables and empties it, unless somebody is reading just then.
fn empty_log(connection: &Connection) -> Result<(), StoreError> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

impl Store {
    /// Opens or makes the store in a folder.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = Folder::open(path)?;
        match log::damage(&folder.log()) {
            Ok(None) => {}
            Ok(Some(damage)) => tracing::warn!(
                good = damage.good,
                lost = damage.lost,
                transactions = damage.transactions,
                "the end of the store's log cannot be read, and what it held is lost; after a power cut that is only what \
                 was being written, otherwise the file was damaged"
            ),
            Err(error) => tracing::warn!(%error, "the store's log cannot be looked at"),
        }
        let database = folder.database();
        let open = || -> Result<_, StoreError> { Ok((open_tables(&database)?, connect(&database)?)) };
        let (writer, reader) = match open() {
            Err(error) if is_full(&folder, &error) && folder.release() => open(),
            outcome => outcome,
        }?;
        let store = Self { writer: Mutex::new(writer), reader: Mutex::new(reader), folder };
        store.finish_deletions()?;
        store.keep_reserve();
        Ok(store)
    }

    /// Brings everything into the tables' own file, so that nothing is left to the log when the server stops in order.
    pub fn close(&self) -> Result<(), StoreError> {
        // The reader first: one that is in the middle of something would keep the log.
        let _reader = self.reader.lock();
        empty_log(&self.writer.lock())
    }

    /// Changes the store. Where the disk is full, the reserve is given up for it.
    fn write<T>(&self, mut work: impl FnMut(&mut Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut writer = self.writer.lock();
        match work(&mut writer) {
            Err(error) if is_full(&self.folder, &error) => {
                if !self.folder.release() {
                    return Err(StoreError::DiskFull);
                }
                // What the log holds frees its room; if it does not fit into the tables yet, what follows may.
                if let Err(error) = empty_log(&writer) {
                    tracing::warn!(%error, "the store's log cannot be emptied");
                }
                work(&mut writer).map_err(|error| self.named(error))
            }
            outcome => outcome,
        }
    }

    /// An error by its own name, where it is that the disk is full.
    fn named(&self, error: StoreError) -> StoreError {
        if is_full(&self.folder, &error) { StoreError::DiskFull } else { error }
    }

    /// Whether there is a reserve, as there is again once the disk has room for one.
    fn keep_reserve(&self) -> bool {
        self.folder.reserve().unwrap_or_else(|error| {
            tracing::warn!(%error, "no reserve on the disk");
            false
        })
    }

    /// Bytes of frames the disk has room for, beyond those that running runs were promised.
    fn free(&self, connection: &Connection) -> Result<u64, StoreError> {
        if !self.keep_reserve() {
            return Ok(0);
        }
        let on_disk = self
            .folder
            .free()
            .map_err(|source| StoreError::Folder { path: self.folder.database().display().to_string(), source })?;
        // Without room for the log nothing can be written, not even into pages that are free.
        let Some(on_disk) = on_disk.checked_sub(LOG_ROOM) else {
            return Ok(0);
        };
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0)).map(unsigned);
        let in_tables = pragma("freelist_count")?.saturating_mul(pragma("page_size")?);
        let promised: i64 = connection.query_row(
            "SELECT COALESCE(SUM(MAX(reserved_bytes - frame_bytes, 0)), 0) FROM runs WHERE status = 'running'",
            [],
            |row| row.get(0),
        )?;
        Ok(on_disk.saturating_add(in_tables).saturating_sub(unsigned(promised)))
    }

    /// Whether another run would find no room, whoever asks: not among the frames, or not on the disk.
    pub fn full(&self, room: Room) -> Result<Option<Admission>, StoreError> {
        let reader = self.reader.lock();
        match self.no_room(&reader, 1, room)? {
            Some(Admission::TooManyRuns) | None => Ok(None),
            full => Ok(full),
        }
    }

    /// Why a run that needs so many bytes more cannot run now.
    fn no_room(&self, connection: &Connection, needed: u64, room: Room) -> Result<Option<Admission>, StoreError> {
        let (running, used): (u32, i64) = connection.query_row(
            "SELECT COUNT(*) FILTER (WHERE status = 'running'),
                    COALESCE(SUM(CASE WHEN status = 'running' THEN MAX(reserved_bytes, frame_bytes) ELSE frame_bytes END), 0)
             FROM runs",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let used = unsigned(used);
        if used.saturating_add(needed) > room.frame_bytes {
            return Ok(Some(Admission::StoreFull { used }));
        }
        let free = self.free(connection)?;
        if free < needed {
            return Ok(Some(Admission::DiskFull { free }));
        }
        if running >= room.runs {
            return Ok(Some(Admission::TooManyRuns));
        }
        Ok(None)
    }

    /// Keeps a tokenizer's table, so that a run can be shown after its model is gone.
    pub fn keep_tokenizer(&self, table: &TokenTable) -> Result<(), StoreError> {
        self.write(|writer| {
            writer.execute(
                "INSERT OR IGNORE INTO tokenizers (sha256, tokens) VALUES (?1, ?2)",
                params![table.sha256(), table.encode()],
            )?;
            Ok(())
        })
    }

    /// A kept tokenizer's table.
    pub fn tokenizer(&self, sha256: &str) -> Result<Option<TokenTable>, StoreError> {
        let bytes: Option<Vec<u8>> = self
            .reader
            .lock()
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
        constraint: Option<&StoredConstraint>,
        needed: u64,
        room: Room,
    ) -> Result<Admission, StoreError> {
        let mut writer = self.writer.lock();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(refusal) = self.no_room(&transaction, needed, room)? {
            return Ok(refusal);
        }
        let (start_json, constraint_json) = (start.to_json(), constraint.map(StoredConstraint::to_json));
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let stored = transaction.query_row(
            "INSERT INTO runs (id, created_ms, status, length, start, model_name, model_sha256, arithmetic, tokenizer_sha256,
                               vocab, reserved_bytes, constrained_by, asked_sha256)
             VALUES (lower(hex(randomblob(16))), ?1, 'running', ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) RETURNING id",
            params![
                i64::try_from(created).unwrap_or(i64::MAX),
                length,
                start_json,
                model.name,
                model.sha256,
                model.arithmetic,
                model.tokenizer_sha256,
                model.vocab,
                signed(needed),
                constraint_json,
                asked_sha256(&start_json, length, constraint_json.as_deref())
            ],
            |row| row.get::<_, String>(0),
        );
        let stored = stored.and_then(|id| transaction.commit().map(|()| id));
        stored.map(Admission::Admitted).map_err(|error| self.named(error.into()))
    }

    /// Lets a stopped or failed run go on, unless there is no room. A running one is left as it is: `Ok(None)`.
    pub fn reopen(&self, id: &str, room: Room) -> Result<Option<Admission>, StoreError> {
        let mut writer = self.writer.lock();
        let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let found: Option<(String, i64, i64)> = transaction
            .query_row(
                "SELECT status, reserved_bytes, frame_bytes FROM runs WHERE id = ?1 AND reason IS NOT ?2",
                [id, DELETING],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .optional()?;
        let Some((status, reserved, kept)) = found else {
            return Ok(None);
        };
        // What it has is counted already.
        let needed = match Status::from_name(&status)? {
            Status::Stopped | Status::Failed => unsigned(reserved).saturating_sub(unsigned(kept)),
            Status::Running | Status::Finished => return Ok(None),
        };
        if let Some(refusal) = self.no_room(&transaction, needed, room)? {
            return Ok(Some(refusal));
        }
        let changed = transaction.execute("UPDATE runs SET status = 'running', reason = NULL WHERE id = ?1", [id]);
        changed.and_then(|_| transaction.commit()).map_err(|error| self.named(error.into()))?;
        Ok(Some(Admission::Admitted(id.into())))
    }

    /// A run with its tokens.
    pub fn run(&self, id: &str) -> Result<Option<StoredRun>, StoreError> {
        let mut reader = self.reader.lock();
        // One transaction: the tokens are those of the status.
        let transaction = reader.transaction()?;
        let run = transaction
            .query_row(
                "SELECT id, status, reason, length, start, model_name, model_sha256, arithmetic,
                        tokenizer_sha256, vocab, constrained_by, asked_sha256
                 FROM runs WHERE id = ?1 AND reason IS NOT ?2",
                [id, DELETING],
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

    /// Runs that are not over, in the order they were made, with what they are doing: running ones, and failed ones with
    /// their reason.
    pub fn unfinished(&self) -> Result<Vec<(String, Status, Option<String>)>, StoreError> {
        let reader = self.reader.lock();
        let mut statement = reader.prepare(
            "SELECT id, status, reason FROM runs WHERE status IN ('running', 'failed') ORDER BY created_ms, rowid",
        )?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?)))?;
        rows.map(|row| {
            let (id, status, reason) = row?;
            Ok((id, Status::from_name(&status)?, reason))
        })
        .collect()
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
        append(&mut self.writer.lock(), id, step, steps, end, by).map_err(|error| self.named(error))
    }

    /// Changes what a run that is not over is doing.
    pub fn set_status(&self, id: &str, status: Status, reason: Option<&str>) -> Result<(), StoreError> {
        self.write(|writer| set_status(writer, id, status, reason))
    }

    /// What a watcher who has seen the steps before `from` has not seen, or the first part of it.
    pub fn tail(&self, id: &str, from: u64, most: BatchSize) -> Result<Option<Tail>, StoreError> {
        let mut reader = self.reader.lock();
        let transaction = reader.transaction()?;
        let found: Option<(String, Option<String>)> = transaction
            .prepare_cached("SELECT status, reason FROM runs WHERE id = ?1 AND reason IS NOT ?2")?
            .query_row([id, DELETING], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((status, reason)) = found else {
            return Ok(None);
        };
        let mut statement = transaction
            .prepare_cached("SELECT frame FROM steps WHERE run = ?1 AND step >= ?2 ORDER BY step LIMIT ?3")?;
        let mut rows = statement.query(params![id, signed(from), most.frames])?;
        let (mut frames, mut bytes, mut all) = (Vec::<Vec<u8>>::new(), 0, true);
        while let Some(row) = rows.next()? {
            let frame: Vec<u8> = row.get(0)?;
            bytes += frame.len();
            frames.push(frame);
            if bytes >= most.bytes || frames.len() >= most.frames as usize {
                all = false;
                break;
            }
        }
        Ok(Some(Tail { status: Status::from_name(&status)?, reason, frames, all }))
    }

    /// So many frames from a step on, or as many as there are; `None` if there is no such run. Whoever else reads does so
    /// between two pieces of them.
    pub fn frames(&self, id: &str, from: u64, count: u32) -> Result<Option<Vec<Vec<u8>>>, StoreError> {
        let mut frames = Vec::new();
        loop {
            let left = count.saturating_sub(u32::try_from(frames.len()).unwrap_or(u32::MAX));
            if left == 0 {
                return Ok(Some(frames));
            }
            let most = BatchSize { frames: left.min(PIECE.frames), ..PIECE };
            let Some(tail) = self.tail(id, from + frames.len() as u64, most)? else {
                return Ok(None);
            };
            frames.extend(tail.frames);
            if tail.all {
                return Ok(Some(frames));
            }
        }
    }

    /// The frame of one step.
    pub fn frame(&self, id: &str, step: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let frame = self
            .reader
            .lock()
            .prepare_cached("SELECT frame FROM steps WHERE run = ?1 AND step = ?2")?
            .query_row(params![id, signed(step)], |row| row.get(0))
            .optional()?;
        Ok(frame)
    }

    /// Deletes a run that is not running. It is not shown any more from then on; its frames go piece by piece. A deletion
    /// that is interrupted, or fails on a full disk, is finished when it is asked for again or the store is opened.
    pub fn delete(&self, id: &str) -> Result<Deletion, StoreError> {
        let begun = self.write(|writer| {
            let found: Option<(String, Option<String>)> = writer
                .query_row("SELECT status, reason FROM runs WHERE id = ?1", [id], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((status, reason)) = found else {
                return Ok(Deletion::NoSuchRun);
            };
            if Status::from_name(&status)? == Status::Running {
                return Ok(Deletion::Running);
            }
            if reason.as_deref() != Some(DELETING) {
                writer.execute("UPDATE runs SET status = 'stopped', reason = ?2 WHERE id = ?1", [id, DELETING])?;
            }
            Ok(Deletion::Done)
        })?;
        if begun == Deletion::Done {
            self.finish_deletion(id)?;
            self.keep_reserve();
        }
        Ok(begun)
    }

    /// Goes on with deletions that were interrupted. One that fails again, as on a full disk, keeps nobody from the rest
    /// of the store; it can be asked for again.
    fn finish_deletions(&self) -> Result<(), StoreError> {
        let ids: Vec<String> = {
            let reader = self.reader.lock();
            let mut statement = reader.prepare("SELECT id FROM runs WHERE reason = ?1")?;
            statement.query_map([DELETING], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        for id in ids {
            if let Err(error) = self.finish_deletion(&id) {
                tracing::error!(run = id, %error, "a deletion could not be finished; delete the run again");
            }
        }
        Ok(())
    }

    fn finish_deletion(&self, id: &str) -> Result<(), StoreError> {
        let (count, bytes): (i64, i64) = self.reader.lock().query_row(
            "SELECT COUNT(*), COALESCE(SUM(LENGTH(frame)), 0) FROM steps WHERE run = ?1",
            [id],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        let (count, bytes) = (unsigned(count), unsigned(bytes));
        let at_once = (count.saturating_mul(DELETED_AT_ONCE) / bytes.max(1)).max(1);
        loop {
            // Whoever waits to write does so between two pieces.
            let left = self.write(|writer| {
                let deleted = writer.execute(
                    "DELETE FROM steps WHERE rowid IN (SELECT rowid FROM steps WHERE run = ?1 LIMIT ?2)",
                    params![id, signed(at_once)],
                )?;
                if deleted == 0 {
                    writer.execute("DELETE FROM runs WHERE id = ?1 AND reason = ?2", [id, DELETING])?;
                }
                // What was deleted is in the log until that is emptied.
                empty_log(writer)?;
                Ok(deleted)
            })?;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

/// [`Store::append`], on its connection.
fn append(
    writer: &mut Connection,
    id: &str,
    step: u64,
    steps: &[(u32, Vec<u8>)],
    end: Option<&str>,
    by: &Writer,
) -> Result<(), StoreError> {
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

fn set_status(connection: &Connection, id: &str, status: Status, reason: Option<&str>) -> Result<(), StoreError> {
    connection.execute(
        "UPDATE runs SET status = ?2, reason = ?3 WHERE id = ?1 AND status IN ('running', 'failed')",
        params![id, status.name(), reason],
    )?;
    Ok(())
}

/// Whether an error says that the disk is full.
fn is_full(folder: &Folder, error: &StoreError) -> bool {
    let StoreError::Sqlite(rusqlite::Error::SqliteFailure(error, _)) = error else {
        return matches!(error, StoreError::DiskFull);
    };
    match error.code {
        ErrorCode::DiskFull => true,
        // Where SQLite makes room for its shared memory it says no more than that.
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen => folder.free().is_ok_and(|free| free < 1 << 20),
        _ => false,
    }
}

fn stored_run(row: &Row<'_>) -> rusqlite::Result<Result<StoredRun, StoreError>> {
    let id: String = row.get(0)?;
    let status: String = row.get(1)?;
    let start_json: String = row.get(4)?;
    let start =
        GeneratorState::from_json(&start_json).map_err(|error| StoreError::Damaged(format!("run {id}: {error}")));
    let constraint_json: Option<String> = row.get(10)?;
    let length: u32 = row.get(3)?;
    let asked: Option<String> = row.get(11)?;
    let altered = asked.is_some_and(|asked| asked != asked_sha256(&start_json, length, constraint_json.as_deref()));
    let constraint = constraint_json
        .map(|text| StoredConstraint::from_json(&text))
        .transpose()
        .map_err(|error| StoreError::Damaged(format!("run {id}: its constraint: {error}")));
    Ok(Status::from_name(&status).and_then(|status| {
        Ok(StoredRun {
            id,
            status,
            reason: row.get(2)?,
            length,
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
            altered,
        })
    }))
}

/// The digest of what a run was asked to be. It finds what was altered by accident or without thought; whoever means to
/// can alter the digest too.
fn asked_sha256(start: &str, length: u32, constraint: Option<&str>) -> String {
    let asked = serde_json::json!({"start": start, "length": length, "constraint": constraint});
    hex(&Sha256::digest(asked.to_string()))
}

/// SQLite's integers are signed; steps and sizes never come near the top.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
