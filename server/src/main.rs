//! Flags, startup and the end.

use std::io::{IsTerminal as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clap::Parser;
use quillmate_server::app::App;
use quillmate_server::constraint::Constraints;
use quillmate_server::engine::{self, EngineError};
use quillmate_server::hub::Hub;
use quillmate_server::limits::Limits;
use quillmate_server::model::smollm2::{self, Progress};
use quillmate_server::model::{self, LanguageModel, ModelError};
use quillmate_server::routes;
use quillmate_server::serve::{self, Connections, listen};
use quillmate_server::site::{Visitors, site};
use quillmate_server::store::{Room, Store, StoreError};
use quillmate_server::token::{Token, TokenError};
use tokio::sync::{oneshot, watch};

/// How long open requests have to end once the server is told to stop.
const GRACE: Duration = Duration::from_secs(3);

/// Serves a language model whose runs come back bit for bit.
#[derive(Debug, Parser)]
#[command(version)]
struct Flags {
    /// The model: a GGUF file, or `tiny` for a small deterministic one that needs no file.
    #[arg(long, value_name = "PATH|tiny")]
    model: PathBuf,
    /// SHA-256 the model file must have.
    #[arg(long, value_name = "HEX", default_value = smollm2::SHA256)]
    model_sha256: String,
    /// Folder for runs; made if it is not there.
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// Folder of the built page; without it only the API is served.
    #[arg(long, value_name = "DIR")]
    www: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// The token every call must carry as `Authorization: Bearer TOKEN`. Other users of the machine may see it here; the
    /// environment or a file hides it.
    #[arg(long, value_name = "TOKEN", env = "QUILLMATE_TOKEN", hide_env_values = true, conflicts_with = "token_file")]
    token: Option<String>,
    /// A file that holds the token.
    #[arg(long, value_name = "PATH")]
    token_file: Option<PathBuf>,
    /// Port to listen on; 0 takes a free one and says which.
    #[arg(long, value_name = "N", default_value_t = 7473)]
    port: u16,
    /// Another name this server may be called by; may be given more than once.
    #[arg(long, value_name = "NAME")]
    allow_host: Vec<String>,
    /// Another origin whose pages may ask, such as http://localhost:5173; may be given more than once.
    #[arg(long, value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    connections: Connections,
    /// Prompts whose contexts are kept in memory, so that the same prompt starts at once.
    #[arg(long, value_name = "N", default_value_t = 4)]
    kept_prompts: usize,
    /// Threads that compute, which changes how long a step takes and not a bit of it. [default: as many as cores, at
    /// most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Option<u16>,
    /// Tokens drafted from the story for each pass, at the most; 0 turns speculation off. The text is the same either
    /// way.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=16))]
    drafts: u8,
    /// Pause before every pass, to watch or to test.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    step_delay_ms: u64,
    /// What goes to the log on stderr: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", default_value_t = tracing::Level::INFO)]
    log: tracing::Level,
}

/// Why the server could not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{0}: {1}")]
    System(String, std::io::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error(
        "--bind {0}: other machines can reach this address, and whoever does may read and delete everything; set a token \
         (--token-file, or QUILLMATE_TOKEN in the environment)"
    )]
    NoToken(IpAddr),
    #[error("--www {0}: there is no index.html in it; build the page first")]
    NoPage(PathBuf),
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    if let Err(error) = model::use_threads(flags.threads) {
        eprintln!("quillmate-server: cannot set the number of threads: {error}");
    }
    tracing_subscriber::fmt()
        .with_max_level(flags.log)
        .with_writer(std::io::stderr)
        // Colours are for people; in a file they are noise.
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("quillmate-server: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(run(flags));
    // Work that is still waiting must not hold up the end: every step that was made is on disk.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("quillmate-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(flags: Flags) -> Result<(), StartError> {
    if let Some(www) = &flags.www
        && !www.join("index.html").is_file()
    {
        return Err(StartError::NoPage(www.clone()));
    }
    let token = match (&flags.token, &flags.token_file) {
        (Some(token), _) => Some(Token::new(token)?),
        (None, Some(path)) => Some(Token::from_file(path)?),
        (None, None) => None,
    };
    if token.is_none() && !flags.bind.to_canonical().is_loopback() {
        return Err(StartError::NoToken(flags.bind));
    }
    let store = Arc::new(Store::open(&flags.data)?);
    let address = SocketAddr::new(flags.bind, flags.port);
    let listener = listen(address).map_err(|error| StartError::System(format!("cannot listen on {address}"), error))?;
    let address = listener.local_addr().map_err(|error| StartError::System("cannot tell the address".into(), error))?;

    let shared = engine::Shared {
        store: Arc::clone(&store),
        hub: Arc::new(Hub::default()),
        model: Arc::new(OnceLock::new()),
        constraints: Arc::new(Constraints::default()),
    };
    let progress = Arc::new(Progress::default());
    let (failed, mut failure) = oneshot::channel();
    let options = engine::Options {
        room: Room { runs: flags.limits.runs, frame_bytes: flags.limits.frame_bytes },
        prefills: flags.kept_prompts,
        drafts: usize::from(flags.drafts),
        delay: Duration::from_millis(flags.step_delay_ms),
    };
    let load = {
        let (path, digest, progress) = (flags.model.clone(), flags.model_sha256.clone(), Arc::clone(&progress));
        move || load(path, &digest, &progress)
    };
    let (engine, thread) = engine::spawn(options, shared.clone(), load, failed)
        .map_err(|error| StartError::System("cannot start a thread".into(), error))?;

    let (stop, stopping) = watch::channel(false);
    let body_deadline = Duration::from_millis(flags.connections.body_ms);
    let piece_deadline = Duration::from_millis(flags.connections.write_ms);
    let limits = flags.limits.clone();
    let app = App::new(shared, engine.clone(), progress, limits, body_deadline, piece_deadline, stopping.clone());
    let visitors = Visitors::new(flags.bind, &flags.allow_host, &flags.allow_origin);
    let router = site(routes::api(Arc::new(app), token), flags.www.as_deref(), visitors);

    // The one line on stdout: whoever started the server with --port 0 reads it.
    println!("listening on http://{address}");
    let _ = std::io::stdout().flush();

    let mut server = tokio::spawn(serve::serve(listener, router, flags.connections, stopping));
    let outcome = tokio::select! {
        signal = end_signal() => signal,
        failed = &mut failure => match failed {
            Ok(error) => Err(error.into()),
            // The engine ended without an error only if it was told to; nobody has.
            Err(_) => Err(StartError::System("the engine".into(), std::io::Error::other("ended by itself"))),
        },
        _ = &mut server => Ok(()),
    };
    let _ = stop.send(true);
    engine.quit();
    if !server.is_finished() && tokio::time::timeout(GRACE, &mut server).await.is_err() {
        tracing::warn!("some requests did not end in time");
    }
    // The engine ends after the turn it is at; then everything is stored that will be.
    let ended = tokio::task::spawn_blocking(move || thread.join().is_ok());
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        tracing::warn!("the engine did not end in time");
    }
    if let Err(error) = store.close() {
        tracing::warn!(%error, "the store's log could not be emptied; the next start reads it");
    }
    outcome
}

fn load(path: PathBuf, sha256: &str, progress: &Progress) -> Result<Arc<dyn LanguageModel>, ModelError> {
    let began = Instant::now();
    let model = model::load(&path, sha256, progress)?;
    tracing::info!(
        name = model.identity().name,
        sha256 = model.identity().sha256,
        bytes = progress.total.load(Ordering::Relaxed),
        milliseconds = began.elapsed().as_millis(),
        "the model is loaded"
    );
    Ok(model)
}

/// Waits until somebody asks the server to stop.
async fn end_signal() -> Result<(), StartError> {
    let failed = |error| StartError::System("cannot wait for signals".into(), error);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.map_err(failed)?,
            _ = terminate.recv() => {}
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await.map_err(failed)?;
    tracing::info!("stopping");
    Ok(())
}
