//! The calls of API.md. Each reads its input strictly; nothing a client sends is trusted.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, RawQuery, Request, State};
use axum::handler::Handler;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Json, Router, middleware};
use quillmate_sampler::json::{FieldError, Object};
use quillmate_sampler::wire::state::RunSettings;
use quillmate_sampler::wire::version::RECORD_FORMAT;
use quillmate_sampler::{Claim, GeneratorState, Record, RecordFile, StateError, Stop, Verdict, verify};
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::OwnedSemaphorePermit;

use crate::app::App;
use crate::constraint::StoredConstraint;
use crate::error::{ApiError, CONSTRAINT, Code, Problem, ProblemCode, SETTINGS, STATE, from_store};
use crate::limits::{disk_full, frame_bytes_bound, over};
use crate::messages::{
    ClaimForm, Health, HealthStatus, ModelInfo, NewRun, Ready, RecordForm, RecordHead, Run, RunFromState, RunFromText,
    StreamQuery, TokenTableQuery, Tokenize, Tokens, VerdictForm, Work,
};
use crate::openapi::{self, Call};
use crate::store::{Admission, Deletion, Status, StoredRun};
use crate::stream;
use crate::text;
use crate::token::{self, Token};

type Answer = Result<Response, ApiError>;
type Shared = State<Arc<App>>;

/// The API. Where there is a token, every call must carry it.
pub fn api(app: Arc<App>, token: Option<Token>) -> Router {
    let limit = app.limits.body_bytes;
    let router = routes().into_iter().fold(Router::new(), |router, (call, handler)| router.route(call.path, handler));
    let router = router
        .route("/api/{*rest}", axum::routing::any(no_such_call))
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(limit))
        .with_state(app);
    match token {
        Some(token) => router.layer(middleware::from_fn_with_state(Arc::new(token), token::ask)),
        None => router,
    }
}

/// Every call with its handler. The router and the description are made from this list.
fn routes() -> Vec<(Call, MethodRouter<Arc<App>>)> {
    let by_id =
        |method, path, name, does| Call::new(method, path, name, does).refuses(&[Code::RunNotFound, Code::DiskFull]);
    vec![
        route(
            Call::new(Method::GET, "/api/health", "health", "Whether the model is loaded, and what the server has done.")
                .answers::<Health>(StatusCode::OK, "The status."),
            health,
        ),
        route(
            Call::new(Method::GET, "/api/ready", "ready", "Whether a run can be started now.")
                .answers::<Ready>(StatusCode::OK, "A run can be started.")
                .refuses(&[Code::NotReady]),
            ready,
        ),
        route(
            Call::new(Method::GET, "/api/openapi.json", "openapi", "This description.")
                .answers::<Map<String, Value>>(StatusCode::OK, "The description, in OpenAPI 3.1."),
            openapi,
        ),
        route(
            Call::new(Method::GET, "/api/model", "model", "The loaded model, and the server's limits.")
                .answers::<ModelInfo>(StatusCode::OK, "The model.")
                .refuses(&[Code::ModelLoading]),
            model,
        ),
        route(
            Call::new(Method::GET, "/api/model/tokens", "tokenTable", "The bytes of every token.")
                .query::<TokenTableQuery>()
                .answers_bytes("application/octet-stream", "See *Token table*. `ETag` is the tokenizer's digest.")
                .answers_nothing(StatusCode::NOT_MODIFIED, "`If-None-Match` names this table.")
                .refuses(&[Code::ModelLoading, Code::TokenizerNotFound, Code::DiskFull]),
            token_table,
        ),
        route(
            Call::new(Method::POST, "/api/tokenize", "tokenize", "The tokens of a text.")
                .body::<Tokenize>()
                .answers::<Tokens>(StatusCode::OK, "The tokens.")
                .refuses(&[Code::ModelLoading, Code::TextNotEncodable, Code::TokenizerBusy]),
            tokenize,
        ),
        route(
            Call::new(Method::POST, "/api/runs", "createRun", "Starts a run.")
                .body::<NewRun>()
                .answers::<Run>(StatusCode::CREATED, "The run, whose path is in `Location`.")
                .refuses(&[
                    Code::ModelLoading,
                    Code::PromptEmpty,
                    Code::PromptTooLong,
                    Code::ContextTooLong,
                    Code::LengthOutOfRange,
                    Code::TextNotEncodable,
                    Code::TokenizerBusy,
                    Code::TokenOutOfRange,
                    Code::ConstraintTooLong,
                    Code::ConstraintAmbiguous,
                    Code::ConstraintInvalid,
                    Code::ConstraintMismatch,
                    Code::ConstraintsBusy,
                    Code::TooManyRuns,
                    Code::StoreFull,
                    Code::DiskFull,
                    // It may be deleted before it is shown.
                    Code::RunNotFound,
                ])
                .refuses_as_the_sampler(&SETTINGS)
                .refuses_as_the_sampler(&STATE)
                .refuses_as_the_sampler(&CONSTRAINT),
            create,
        ),
        route(
            by_id(Method::GET, "/api/runs/{id}", "run", "Shows a run.").answers::<Run>(StatusCode::OK, "The run."),
            run,
        ),
        route(
            by_id(
                Method::DELETE,
                "/api/runs/{id}",
                "deleteRun",
                "Deletes a run, to make room. Where it fails the run is not shown any more, and the same call goes on with \
                 the deletion.",
            )
            .answers_nothing(StatusCode::NO_CONTENT, "It is deleted.")
            .refuses(&[Code::RunRunning]),
            delete,
        ),
        route(
            by_id(Method::POST, "/api/runs/{id}/stop", "stopRun", "Stops a run. One that does not run stays as it is.")
                .answers::<Run>(StatusCode::OK, "The run.")
                .refuses(&[Code::ModelLoading, Code::ShuttingDown]),
            stop,
        ),
        route(
            by_id(
                Method::POST,
                "/api/runs/{id}/resume",
                "resumeRun",
                "Lets a run go on that was stopped or failed, under its own model only.",
            )
            .answers::<Run>(StatusCode::OK, "The run.")
            .refuses(&[
                Code::ModelLoading,
                Code::RunFinished,
                Code::ModelMismatch,
                Code::StoreAltered,
                Code::TooManyRuns,
                Code::StoreFull,
            ]),
            resume,
        ),
        route(
            by_id(Method::GET, "/api/runs/{id}/stream", "streamRun", "The frames of a run, each once it is stored.")
                .query::<StreamQuery>()
                .answers_bytes(stream::MEDIA_TYPE, "See *Stream*.")
                .refuses(&[Code::FromOutOfRange, Code::TooManyStreams]),
            follow,
        ),
        route(
            by_id(
                Method::POST,
                "/api/runs/{id}/verify",
                "verifyRun",
                "Recomputes a claim from the stored frames, with the package's `verify`. The run may still be being written.",
            )
            .body::<ClaimForm>()
            .answers::<VerdictForm>(StatusCode::OK, "The verdict.")
            .refuses(&[Code::StoreAltered])
            .refuses_as_the_sampler(&SETTINGS)
            .refuses_as_the_sampler(&STATE),
            check,
        ),
        route(
            by_id(Method::GET, "/api/runs/{id}/record", "runRecord", "All that a replay of the run needs.")
                .answers::<RecordForm>(StatusCode::OK, "The record. A connection that breaks off is no whole record.")
                .refuses(&[Code::TooManyStreams]),
            record,
        ),
    ]
}

fn route<H: Handler<T, Arc<App>>, T: 'static>(call: Call, handler: H) -> (Call, MethodRouter<Arc<App>>) {
    let method = MethodFilter::try_from(call.method.clone()).expect("a usual method");
    (call, on(method, handler))
}

/// The description of the API, in OpenAPI 3.1.
pub fn description() -> &'static Value {
    static DESCRIPTION: LazyLock<Value> = LazyLock::new(|| openapi::document(routes().iter().map(|(call, _)| call)));
    &DESCRIPTION
}

async fn openapi() -> Response {
    answer(description())
}

async fn no_such_call(request: Request) -> ApiError {
    let path: String = request.uri().path().chars().take(100).collect();
    ApiError::new(Code::NotFound, format!("there is nothing at {path}"))
}

async fn wrong_method(request: Request) -> ApiError {
    ApiError::new(Code::MethodNotAllowed, format!("{} is not possible here", request.method()))
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
            return Err(ApiError::new(Code::BodyNotJson, "the body must be sent as Content-Type: application/json"));
        }
        let limit = app.limits.body_bytes;
        let bytes = tokio::time::timeout(app.body_deadline, Bytes::from_request(request, app)).await.map_err(|_| {
            let milliseconds = u64::try_from(app.body_deadline.as_millis()).unwrap_or(u64::MAX);
            ApiError::new(Code::BodyTimeout, format!("the body did not come within {milliseconds} ms"))
                .with(|it| it.limit = Some(milliseconds))
        })?;
        let bytes = bytes.map_err(|rejection| match rejection {
            BytesRejection::FailedToBufferBody(failure) if failure.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                ApiError::new(Code::BodyTooLarge, format!("the body has more than {limit} bytes"))
                    .with(|it| it.limit = Some(limit as u64))
            }
            other => ApiError::new(Code::BodyIncomplete, other.to_string()),
        })?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| ApiError::new(Code::JsonSyntax, format!("the body is not UTF-8: {error}")))?;
        Object::parse(text).map(Self).map_err(|error| match error {
            // serde_json says so of what it did not read to its end; the rest of it may be right.
            FieldError::Syntax(message) if message.contains("recursion limit") => ApiError::new(
                Code::JsonTooDeep,
                "the body's objects and lists are more than 127 deep in one another; that is not looked into",
            ),
            other => other.into(),
        })
    }
}

/// The id in a path. Bytes that are not UTF-8 are the id of no run.
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

/// Whether a run can be started now, and why not.
async fn ready(State(app): Shared) -> Answer {
    let mut problems = Vec::new();
    let mut problem = |code, message| problems.push(Problem { code, message });
    if *app.stopping.borrow() {
        problem(ProblemCode::ShuttingDown, "the server is stopping");
    } else if app.model.get().is_none() {
        problem(ProblemCode::ModelLoading, "the model is still being loaded");
    }
    let room = app.room();
    match app.with_store(move |store| store.full(room)).await? {
        Ok(None) => {}
        Ok(Some(Admission::StoreFull { .. })) => {
            problem(
                ProblemCode::StoreFull,
                "frames take all the bytes they may; delete runs that are no longer wanted",
            );
        }
        Ok(Some(_)) => problem(ProblemCode::DiskFull, "the disk of the data folder has no room for another run"),
        Err(error) => {
            tracing::error!(%error, "the store cannot be read");
            problem(ProblemCode::StoreError, "the store cannot be read; the log says why");
        }
    }
    if problems.is_empty() {
        return Ok(answer(&Ready { ready: true }));
    }
    Err(ApiError::new(Code::NotReady, "no run can be begun now").with(|it| it.problems = Some(problems)))
}

async fn health(State(app): Shared) -> Response {
    let status = if app.model.get().is_some() { HealthStatus::Ready } else { HealthStatus::Loading };
    let work = app.engine.work();
    answer(&Health {
        status,
        loaded_bytes: app.progress.loaded.load(Ordering::Relaxed),
        total_bytes: app.progress.total.load(Ordering::Relaxed),
        work: Work {
            passes: work.passes.load(Ordering::Relaxed),
            tokens: work.tokens.load(Ordering::Relaxed),
            drafted: work.drafted.load(Ordering::Relaxed),
            accepted: work.accepted.load(Ordering::Relaxed),
        },
    })
}

async fn model(State(app): Shared) -> Answer {
    let model = app.model()?;
    Ok(answer(&ModelInfo {
        model: model.identity(),
        context: model.context(),
        end_tokens: model.end_tokens(),
        limits: &app.limits,
    }))
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
                ApiError::new(Code::TokenizerNotFound, format!("there is no tokenizer with sha256 {shown:?}"))
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
    let Tokenize { text } = Tokenize::from_object(body)?;
    let tokens = app.encode(&app.texts, model, text).await?;
    Ok(answer(&Tokens { tokens }))
}

/// Starts a run from a text, a seed and settings, or from a generator's state, whose next token it then emits.
async fn create(State(app): Shared, JsonBody(body): JsonBody) -> Answer {
    let model = app.model()?;
    // What can be refused at a glance is refused before the text is looked at.
    let (start, length, constraint) = match NewRun::from_object(body, &app.limits)? {
        NewRun::FromState(RunFromState { start, length, constraint }) => {
            (start, app.limits.check_length(length)?, constraint)
        }
        NewRun::FromText(RunFromText { prompt, seed, settings, length, constraint }) => {
            let RunSettings { settings, processors } = settings;
            let length = app.limits.check_length(length)?;
            app.limits.check_prompt_bytes(prompt.len(), model.tokens().longest())?;
            let prompt = app.encode(&app.prompts, Arc::clone(&model), prompt).await?;
            (GeneratorState { seed, prompt, tokens: Vec::new(), settings, processors }, length, constraint)
        }
    };
    app.limits.check_prompt(start.prompt.len())?;
    let vocab = model.identity().vocab;
    let mut ids = start.prompt.iter().chain(&start.tokens);
    if let Some(at) = ids.position(|&id| id >= vocab) {
        return Err(ApiError::new(
            Code::TokenOutOfRange,
            format!("token {at} of the context is not below {vocab}, the size of the vocabulary"),
        )
        .with(|it| (it.index, it.limit) = (Some(at as u64), Some(vocab.into()))));
    }
    start.processors.check_vocabulary(vocab).map_err(StateError::from)?;
    let context = start.prompt.len() + start.tokens.len() + length as usize;
    over(Code::ContextTooLong, "tokens of prompt and run together", context as u64, model.context() as u64)?;
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
        return Err(ApiError::new(Code::RunFinished, "the run is whole; there is nothing to resume"));
    }
    let loaded = model.identity();
    if !run.model.same_logits(loaded) {
        return Err(ApiError::new(
            Code::ModelMismatch,
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
        .with(|it| (it.run_model, it.loaded_model) = (Some(run.model.clone()), Some(loaded.clone()))));
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

/// Deletes a run, never while it runs.
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
        Deletion::Running => Err(ApiError::new(Code::RunRunning, "the run is being written; stop it first")),
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
        return Err(ApiError::new(
            Code::FromOutOfRange,
            format!("from must be an integer from {first} to {last}, the steps of this run, but is {shown:?}"),
        ));
    };
    let permit = stream_permit(&app)?;
    stream::stream(app, id, from, permit)
}

/// A permit for a stream.
fn stream_permit(app: &App) -> Result<OwnedSemaphorePermit, ApiError> {
    Arc::clone(&app.streams).try_acquire_owned().map_err(|_| {
        ApiError::new(Code::TooManyStreams, format!("{} streams are being watched already", app.limits.streams))
            .with(|it| it.limit = Some(app.limits.streams as u64))
    })
}

/// Recomputes a claim from the stored frames, with the package's `verify`.
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
    Ok(answer(&verdict))
}

/// The whole record, form 3, sent piece by piece: a long run's frames need not fit in memory.
async fn record(State(app): Shared, RunId(id): RunId) -> Answer {
    let run = load(&app, &id).await?;
    let permit = stream_permit(&app)?;
    let head = json!(RecordHead {
        record: RECORD_FORMAT,
        identity: run.identity(),
        start: &run.start,
        tokens: &run.tokens,
        draws_used: RecordFile::draws(&run.start, run.tokens.len() as u64),
        decisions: (),
        stop: Stop {
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

/// Refuses a run whose stored start, length or constraint is not the requested one.
fn check_unaltered(run: &StoredRun) -> Result<(), ApiError> {
    if !run.altered {
        return Ok(());
    }
    tracing::warn!(run = run.id, "its start, length or constraint in the store is not what was asked for");
    Err(ApiError::new(
        Code::StoreAltered,
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
    Ok(answer(&Run {
        id: &run.id,
        status: run.status,
        reason: run.reason.as_deref(),
        length: run.length,
        start: &run.start,
        tokens: &run.tokens,
        text,
        model: &run.model,
        constraint: run.constraint.as_ref().map(StoredConstraint::show),
    }))
}

/// JSON that nobody keeps.
fn answer(message: &impl Serialize) -> Response {
    ([(header::CACHE_CONTROL, "no-store")], Json(message)).into_response()
}

/// The value of a query's only field.
fn single<'a>(query: &'a str, name: &str) -> Result<&'a str, ApiError> {
    let mut value = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, given) = pair.split_once('=').unwrap_or((pair, ""));
        if key != name {
            let key: String = key.chars().take(40).collect();
            return Err(ApiError::new(Code::FieldUnknown, format!("field {key} of the query is not known")));
        }
        if value.replace(given).is_some() {
            return Err(ApiError::new(Code::FieldRepeated, format!("field {name} of the query is given twice")));
        }
    }
    value.ok_or_else(|| ApiError::new(Code::FieldMissing, format!("field {name} of the query is missing")))
}
