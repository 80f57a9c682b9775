//! The calls of API.md. Each reads its input strictly, asks, and answers; what a client sends are claims.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use quillmate_sampler::json::{FieldError, Object};
use quillmate_sampler::wire::state::{RunSettings, take_seed, take_settings};
use quillmate_sampler::wire::version::RECORD_FORMAT;
use quillmate_sampler::{Claim, GeneratorState, Record, RecordFile, StateError, Stop, Verdict, verify};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::constraint::Kept;
use crate::error::{ApiError, from_store};
use crate::limits::{disk_full, frame_bytes_bound, over};
use crate::store::{Admission, Deletion, Status, StoredRun};
use crate::stream;
use crate::text;
use crate::token::{self, Token};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<App>>;

/// The API. Where there is a token, every call must carry it.
pub fn api(app: Arc<App>, token: Option<Token>) -> Router {
    let limit = app.limits.body_bytes;
    let router = Router::new()
        .route("/api/health", get(health))
        .route("/api/ready", get(ready))
        .route("/api/model", get(model))
        .route("/api/model/tokens", get(token_table))
        .route("/api/tokenize", post(tokenize))
        .route("/api/runs", post(create))
        .route("/api/runs/{id}", get(run).delete(delete))
        .route("/api/runs/{id}/stop", post(stop))
        .route("/api/runs/{id}/resume", post(resume))
        .route("/api/runs/{id}/stream", get(follow))
        .route("/api/runs/{id}/verify", post(check))
        .route("/api/runs/{id}/record", get(record))
        .route("/api/{*rest}", axum::routing::any(no_such_call))
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(limit))
        .with_state(app);
    match token {
        Some(token) => router.layer(middleware::from_fn_with_state(Arc::new(token), token::ask)),
        None => router,
    }
}

async fn no_such_call(request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(100).collect();
    ApiError::new(StatusCode::NOT_FOUND, "not_found", format!("there is nothing at {path}"))
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        format!("{} is not possible here", request.method()),
    )
}

/// A body that is one JSON object, not yet looked into.
struct JsonBody(Object);

impl FromRequest<Arc<App>> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, ApiError> {
        // A form on a foreign page can send text/plain without asking; it cannot send this.
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(ApiError::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "body_not_json",
                "the body must be sent as Content-Type: application/json",
            ));
        }
        let limit = app.limits.body_bytes;
        let bytes = tokio::time::timeout(app.body_deadline, Bytes::from_request(request, app)).await.map_err(|_| {
            let milliseconds = u64::try_from(app.body_deadline.as_millis()).unwrap_or(u64::MAX);
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "body_timeout",
                format!("the body did not come within {milliseconds} ms"),
            )
            .with("limit", milliseconds)
        })?;
        let bytes = bytes.map_err(|rejection| match rejection {
            BytesRejection::FailedToBufferBody(failure) if failure.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                ApiError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "body_too_large",
                    format!("the body has more than {limit} bytes"),
                )
                .with("limit", limit)
            }
            other => ApiError::bad_request("body_incomplete", other.to_string()),
        })?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| ApiError::bad_request("json_syntax", format!("the body is not UTF-8: {error}")))?;
        Object::parse(text).map(Self).map_err(|error| match error {
            // serde_json says so of what it did not read to its end; the rest of it may be right.
            FieldError::Syntax(message) if message.contains("recursion limit") => ApiError::bad_request(
                "json_too_deep",
                "the body's objects and lists are more than 127 deep in one another; that is not looked into",
            ),
            other => other.into(),
        })
    }
}

/// The id in a path. What is no text is nobody's id.
struct RunId(String);

impl FromRequestParts<Arc<App>> for RunId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        match Path::<String>::from_request_parts(parts, app).await {
            Ok(Path(id)) => Ok(Self(id)),
            Err(_) => Err(ApiError::no_such_run(parts.uri.path().split('/').nth(3).unwrap_or_default())),
        }
    }
}

/// Whether a run could be begun now, and why not.
async fn ready(State(app): Shared) -> Answer {
    let mut problems = Vec::new();
    let mut problem = |code: &str, message: &str| problems.push(json!({"code": code, "message": message}));
    if *app.stopping.borrow() {
        problem("shutting_down", "the server is stopping");
    } else if app.model.get().is_none() {
        problem("model_loading", "the model is still being loaded");
    }
    let room = app.room();
    match app.with_store(move |store| store.full(room)).await? {
        Ok(None) => {}
        Ok(Some(Admission::StoreFull { .. })) => {
            problem("store_full", "frames take all the bytes they may; delete runs that are no longer wanted");
        }
        Ok(Some(_)) => problem("disk_full", "the disk of the data folder has no room for another run"),
        Err(error) => {
            tracing::error!(%error, "the store cannot be read");
            problem("store_error", "the store cannot be read; the log says why");
        }
    }
    if problems.is_empty() {
        return Ok(answer(&json!({"ready": true})));
    }
    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", "no run can be begun now")
        .with("problems", Value::Array(problems)))
}

async fn health(State(app): Shared) -> Response {
    let status = if app.model.get().is_some() { "ready" } else { "loading" };
    let work = app.engine.work();
    answer(&json!({
        "status": status,
        "loaded_bytes": app.progress.loaded.load(Ordering::Relaxed),
        "total_bytes": app.progress.total.load(Ordering::Relaxed),
        "work": {
            "passes": work.passes.load(Ordering::Relaxed),
            "tokens": work.tokens.load(Ordering::Relaxed),
            "drafted": work.drafted.load(Ordering::Relaxed),
            "accepted": work.accepted.load(Ordering::Relaxed),
        },
    }))
}

async fn model(State(app): Shared) -> Answer {
    let model = app.model()?;
    let mut body = json!(model.identity());
    if let Value::Object(fields) = &mut body {
        fields.insert("context".into(), model.context().into());
        fields.insert("end_tokens".into(), model.end_tokens().into());
        fields.insert("limits".into(), json!(app.limits));
    }
    Ok(answer(&body))
}

/// The bytes of every token. Asked for by digest (`?sha256=`) it never changes; asked for without, it is the loaded
/// model's, and a cache has to ask again.
async fn token_table(State(app): Shared, RawQuery(query): RawQuery, headers: HeaderMap) -> Answer {
    let wanted = match query.as_deref().unwrap_or_default() {
        "" => None,
        query => Some(single(query, "sha256")?.to_owned()),
    };
    let (digest, table, caching) = match wanted {
        None => {
            let model = app.model()?;
            (model.identity().tokenizer_sha256.clone(), model.tokens().encode(), "no-cache")
        }
        Some(digest) => {
            let shown: String = digest.chars().take(64).collect();
            let key = digest.clone();
            let table = app.with_store(move |store| store.tokenizer(&key)).await?.map_err(from_store)?;
            let table = table.ok_or_else(|| {
                ApiError::new(
                    StatusCode::NOT_FOUND,
                    "tokenizer_not_found",
                    format!("there is no tokenizer with sha256 {shown:?}"),
                )
            })?;
            (digest, table.encode(), "public, max-age=31536000, immutable")
        }
    };
    let tag = format!("\"{digest}\"");
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        // Compression makes a tag weak on its way.
        value.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
    });
    let headers = [
        (header::CACHE_CONTROL, caching.to_owned()),
        (header::ETAG, tag),
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
    ];
    Ok(if known { (StatusCode::NOT_MODIFIED, headers).into_response() } else { (headers, table).into_response() })
}

async fn tokenize(State(app): Shared, JsonBody(body): JsonBody) -> Answer {
    let model = app.model()?;
    let text = body.read(|it| Ok::<_, ApiError>(it.string("text")))?;
    let tokens = app.encode(&app.texts, model, text).await?;
    Ok(answer(&json!({"tokens": tokens})))
}

/// Where a run begins: a generator's state, or a text, a seed and settings.
enum Begin {
    State(GeneratorState),
    Text(String, u64, RunSettings),
}

/// Begins a run: from a text, a seed and settings, or from a generator's state, whose next token it then emits.
async fn create(State(app): Shared, JsonBody(body): JsonBody) -> Answer {
    let model = app.model()?;
    let (constraint, begin, length) = body.read(|it| {
        let constraint = Kept::take(it)?;
        if let Some(constraint) = &constraint {
            app.limits.check_constraint(constraint.to_json().len())?;
        }
        let begin = if it.has("start") {
            Begin::State(GeneratorState::from_object(it.object("start"))?)
        } else {
            Begin::Text(it.string("prompt"), take_seed(it)?, take_settings(it)?)
        };
        Ok::<_, ApiError>((constraint, begin, it.integer("length")))
    })?;
    // What can be refused at a glance is refused before the text is looked at.
    let length = app.limits.check_length(length)?;
    let start = match begin {
        Begin::State(start) => start,
        Begin::Text(prompt, seed, RunSettings { settings, processors }) => {
            app.limits.check_prompt_bytes(prompt.len(), model.tokens().longest())?;
            let prompt = app.encode(&app.prompts, Arc::clone(&model), prompt).await?;
            GeneratorState { seed, prompt, tokens: Vec::new(), settings, processors }
        }
    };
    app.limits.check_prompt(start.prompt.len())?;
    let vocab = model.identity().vocab;
    let mut ids = start.prompt.iter().chain(&start.tokens);
    if let Some(at) = ids.position(|&id| id >= vocab) {
        return Err(ApiError::bad_request(
            "token_out_of_range",
            format!("token {at} of the context is not below {vocab}, the size of the vocabulary"),
        )
        .with("index", at)
        .with("limit", vocab));
    }
    start.processors.check_vocabulary(vocab).map_err(StateError::from)?;
    let context = start.prompt.len() + start.tokens.len() + length as usize;
    over("context_too_long", "tokens of prompt and run together", context as u64, model.context() as u64)?;
    if let Some(constraint) = &constraint {
        app.try_constraint(constraint.clone(), Arc::clone(&model), start.tokens.clone()).await?;
    }

    let needed = frame_bytes_bound(&start, length, vocab);
    let room = app.room();
    let identity = model.identity().clone();
    let engine = app.engine.clone();
    let admission = app
        .with_store(move |store| {
            let admission = store.create(&start, length, &identity, constraint.as_ref(), needed, room)?;
            // Here and not after the wait: if the client hangs up the call ends there, but the run is stored all the same.
            if let Admission::Admitted(id) = &admission {
                engine.start(id);
            }
            Ok(admission)
        })
        .await?
        .map_err(from_store)?;
    let id = admitted(&app, admission, needed)?;
    let run = load(&app, &id).await?;
    let location = HeaderValue::from_str(&format!("/api/runs/{id}")).map_err(ApiError::internal)?;
    let mut response = show(&app, &run).await?;
    *response.status_mut() = StatusCode::CREATED;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

fn admitted(app: &App, admission: Admission, needed: u64) -> Result<String, ApiError> {
    match admission {
        Admission::Admitted(id) => Ok(id),
        Admission::TooManyRuns => Err(app.limits.too_many_runs()),
        Admission::StoreFull { used } => Err(app.limits.store_full(used, needed)),
        Admission::DiskFull { free } => Err(disk_full(free, needed)),
    }
}

async fn run(State(app): Shared, RunId(id): RunId) -> Answer {
    let run = load(&app, &id).await?;
    show(&app, &run).await
}

async fn stop(State(app): Shared, RunId(id): RunId) -> Answer {
    // Until the model is there the engine takes no orders.
    app.model()?;
    load(&app, &id).await?;
    match app.engine.stop(&id).await {
        Some(stopped) => stopped.map_err(from_store)?,
        None => return Err(ApiError::shutting_down()),
    }
    let run = load(&app, &id).await?;
    show(&app, &run).await
}

/// Lets a stopped or failed run go on from where it is, under its own model only.
async fn resume(State(app): Shared, RunId(id): RunId) -> Answer {
    let model = app.model()?;
    let run = load(&app, &id).await?;
    if run.status == Status::Finished {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "run_finished",
            "the run is whole; there is nothing to resume",
        ));
    }
    let loaded = model.identity();
    if !run.model.same_logits(loaded) {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "model_mismatch",
            format!(
                "the run belongs to model {} ({}, computed by {}), loaded is {} ({}, computed by {}); its record can be \
                 read and verified all the same",
                run.model.name,
                run.model.sha256,
                run.model.arithmetic,
                loaded.name,
                loaded.sha256,
                loaded.arithmetic
            ),
        )
        .with("run_model", json!(run.model))
        .with("loaded_model", json!(loaded)));
    }
    check_unaltered(&run)?;
    let needed = frame_bytes_bound(&run.start, run.length, loaded.vocab);
    let room = app.room();
    let (key, engine, hub) = (id.clone(), app.engine.clone(), Arc::clone(&app.hub));
    let admission = app
        .with_store(move |store| {
            let admission = store.reopen(&key, room)?;
            // As in `create`, whether or not the client still waits. Also where the store says it is running already: the
            // engine may have lost it when the disk was full, and one it has it does not take twice.
            if matches!(admission, None | Some(Admission::Admitted(_))) {
                engine.start(&key);
                hub.ring(&key);
            }
            Ok(admission)
        })
        .await?
        .map_err(from_store)?;
    if let Some(admission) = admission {
        admitted(&app, admission, needed)?;
    }
    let run = load(&app, &id).await?;
    show(&app, &run).await
}

/// Forgets a run, to make room. Only when asked, and never while it runs.
async fn delete(State(app): Shared, RunId(id): RunId) -> Answer {
    let (key, hub) = (id.clone(), Arc::clone(&app.hub));
    let deletion = app.with_store(move |store| {
        let deletion = store.delete(&key);
        // It is not there any more for those who watch it, whether or not the client waits and all of it is gone.
        hub.ring(&key);
        deletion
    });
    match deletion.await?.map_err(from_store)? {
        Deletion::Done => Ok(StatusCode::NO_CONTENT.into_response()),
        Deletion::Running => {
            Err(ApiError::new(StatusCode::CONFLICT, "run_running", "the run is being written; stop it first"))
        }
        Deletion::NoSuchRun => Err(ApiError::no_such_run(&id)),
    }
}

async fn follow(State(app): Shared, RunId(id): RunId, RawQuery(query): RawQuery) -> Answer {
    let digits = single(query.as_deref().unwrap_or_default(), "from")?;
    let run = load(&app, &id).await?;
    let first = run.start.step();
    let last = first + u64::from(run.length);
    let from = digits.parse().ok().filter(|from| (first..=last).contains(from) && !digits.starts_with('+'));
    let Some(from) = from else {
        let shown: String = digits.chars().take(40).collect();
        return Err(ApiError::bad_request(
            "from_out_of_range",
            format!("from must be an integer from {first} to {last}, the steps of this run, but is {shown:?}"),
        ));
    };
    let permit = stream_permit(&app)?;
    stream::stream(app, id, from, permit)
}

/// A place among those who are being sent frames.
fn stream_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(&app.streams).try_acquire_owned().map_err(|_| {
        ApiError::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_streams",
            format!("{} streams are being watched already", app.limits.streams),
        )
        .with("limit", app.limits.streams)
    })
}

/// Recomputes a claim from the stored frames, with the function the package has too.
async fn check(State(app): Shared, RunId(id): RunId, JsonBody(body): JsonBody) -> Answer {
    let claim = Claim::from_object(body)?;
    let run = load(&app, &id).await?;
    check_unaltered(&run)?;
    let start = run.start;
    let key = id.clone();
    let permit = Arc::clone(&app.verifications).acquire_owned().await.map_err(ApiError::internal)?;
    let verdict = app
        .with_store(move |store| {
            // Given back when the work is through, which goes on if the client hangs up.
            let _permit = permit;
            // Frames beyond the claim would be read for nothing.
            let count = u32::try_from(claim.tokens.len()).unwrap_or(u32::MAX);
            let frames = store.frames(&key, start.step(), count)?;
            Ok(frames.map(|frames| verify(&Record { start, frames }, &claim)))
        })
        .await?
        .map_err(from_store)?
        // It may have been deleted meanwhile.
        .ok_or_else(|| ApiError::no_such_run(&id))?;
    if let Verdict::Diverged(divergence) = &verdict {
        tracing::info!(%divergence, "a claim diverged");
    }
    Ok(answer(&json!(verdict)))
}

/// The whole record, form 3, sent piece by piece: a long run's frames need not fit in memory.
async fn record(State(app): Shared, RunId(id): RunId) -> Answer {
    let run = load(&app, &id).await?;
    let permit = stream_permit(&app)?;
    let head = json!({
        "record": RECORD_FORMAT,
        "identity": run.identity(),
        "start": run.start,
        "tokens": run.tokens,
        "draws_used": RecordFile::draws(&run.start, run.tokens.len() as u64),
        "decisions": null,
        "stop": Stop {
            max_tokens: Some(run.length.into()),
            end_tokens: run.releases.last().map(|release| release.end_tokens.clone()),
            reason: run.reason.clone(),
        },
    });
    let Some(head) = head.to_string().strip_suffix('}').map(str::to_owned) else {
        return Err(ApiError::internal("a record is an object"));
    };
    let first = run.start.step();
    let steps = first..first + run.tokens.len() as u64;
    stream::record(app, id, steps, head, permit)
}

/// Refuses a run that is no longer what was asked for: nothing that follows from it would be that run's.
fn check_unaltered(run: &StoredRun) -> Result<(), ApiError> {
    if !run.altered {
        return Ok(());
    }
    tracing::warn!(run = run.id, "its start, length or constraint in the store is not what was asked for");
    Err(ApiError::new(
        StatusCode::CONFLICT,
        "store_altered",
        "the run's start, length or constraint in the store is not what was asked for; somebody altered it",
    ))
}

async fn load(app: &App, id: &str) -> Result<StoredRun, ApiError> {
    let key = id.to_owned();
    let run = app.with_store(move |store| store.run(&key)).await?.map_err(from_store)?;
    run.ok_or_else(|| ApiError::no_such_run(id))
}

/// A run as a client sees it. Its text needs its own tokenizer, which is kept for as long as the run.
async fn show(app: &App, run: &StoredRun) -> Answer {
    let tokenizer = run.model.tokenizer_sha256.clone();
    let tokens = run.tokens.clone();
    let loaded = app.model.get().cloned();
    // Half a character at the end may become one, unless the run is over for good.
    let read = if run.status == Status::Finished { text::whole_text } else { text::text };
    let text = app
        .with_store(move |store| {
            if let Some(model) = loaded.filter(|model| model.identity().tokenizer_sha256 == tokenizer) {
                return Ok(Some(read(model.tokens(), &tokens)));
            }
            Ok(store.tokenizer(&tokenizer)?.map(|table| read(&table, &tokens)))
        })
        .await?
        .map_err(from_store)?;
    Ok(answer(&json!({
        "id": run.id,
        "status": run.status,
        "reason": run.reason,
        "length": run.length,
        "start": run.start,
        "tokens": run.tokens,
        "text": text,
        "model": run.model,
        "constraint": run.constraint.as_ref().map(Kept::show),
    })))
}

/// JSON that nobody keeps.
fn answer(value: &Value) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(value)).into_response()
}

/// The value of a query's only field.
fn single<'a>(query: &'a str, name: &str) -> Result<&'a str, ApiError> {
    let mut value = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, given) = pair.split_once('=').unwrap_or((pair, ""));
        if key != name {
            let key: String = key.chars().take(40).collect();
            return Err(ApiError::bad_request("field_unknown", format!("field {key} of the query is not known")));
        }
        if value.replace(given).is_some() {
            return Err(ApiError::bad_request("field_repeated", format!("field {name} of the query is given twice")));
        }
    }
    value.ok_or_else(|| ApiError::bad_request("field_missing", format!("field {name} of the query is missing")))
}
