//! Connections: how many there may be, and how long one may be idle.
//!
//! A client that sends nothing, stops in the middle of a request, or does not read its answer loses its connection and
//! nothing else: its runs continue, and it can reconnect. A connection beyond the limit gets a refusal.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use crate::error::{ApiError, Code};

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 1024;
/// What the system may keep of what a client has not read yet. A client that does not read is noticed when it is full.
const SEND_BUFFER: u32 = 256 << 10;
/// The most bytes of a request's head, and about what is kept of an answer before it goes to the system.
const HYPER_BUFFER: usize = 64 << 10;
/// Connections beyond the limit that are refused with time to read the answer; others are refused and closed at once.
const REFUSALS: usize = 32;
/// How long such a refusal may take.
const REFUSAL: Duration = Duration::from_secs(1);
/// How long nothing is accepted after that failed, as it does when the process has too many files open.
const BACK_OFF: Duration = Duration::from_millis(200);
/// How often a failure that lasts is logged.
const SAID: Duration = Duration::from_secs(10);
/// Files that are open besides connections.
const OTHER_FILES: u64 = 64;

/// How many connections there may be, and how long a client may take.
#[derive(Debug, Clone, clap::Args)]
pub struct Connections {
    /// Connections at once. The system's limit of open files may allow fewer.
    #[arg(long = "max-connections", value_name = "N", default_value_t = 256,
          value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub most: u32,
    /// How long a client may take for the head of a request, and say nothing between two.
    #[arg(long = "header-timeout-ms", value_name = "MS", default_value_t = 15_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub header_ms: u64,
    /// How long a client may take for a request's body.
    #[arg(long = "body-timeout-ms", value_name = "MS", default_value_t = 30_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub body_ms: u64,
    /// How long a client may read nothing of an answer that is ready for it, and how long each piece of a stream or record
    /// may take.
    #[arg(long = "write-timeout-ms", value_name = "MS", default_value_t = 30_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub write_ms: u64,
}

/// Listens on an address.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // As the standard library does it: a server that was just stopped leaves connections the system still knows.
    #[cfg(not(windows))]
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit it.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves connections until it is told to stop; then answers the open requests, and ends.
pub async fn serve(listener: TcpListener, router: Router, limits: Connections, mut stopping: watch::Receiver<bool>) {
    let most = connections(limits.most);
    let places = Arc::new(Semaphore::new(most as usize));
    let refusals = Arc::new(Semaphore::new(REFUSALS));
    let service = TowerToHyperService::new(router);
    let graceful = GracefulShutdown::new();
    let (mut full, mut failing) = (Seldom::default(), Seldom::default());
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.header_ms))
        .max_buf_size(HYPER_BUFFER);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|&stopping| stopping) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // The client was gone before it was let in.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => {
                if failing.now() {
                    tracing::error!(%error, "no connection can be accepted; trying again");
                }
                tokio::time::sleep(BACK_OFF).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            if full.now() {
                tracing::warn!(most, "more connections than there may be; others are refused");
            }
            match Arc::clone(&refusals).try_acquire_owned() {
                Ok(permit) => drop(tokio::spawn(refuse(stream, most, permit))),
                Err(_) => refuse_at_once(stream, most),
            }
            continue;
        };
        // What is sent goes out at once: a frame should not wait for the next one.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(Duration::from_millis(limits.write_ms)));
        let connection = builder.serve_connection(TokioIo::new(Box::pin(stream)), service.clone());
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The refusal of a connection beyond the limit.
fn refusal(most: u32) -> String {
    let error = ApiError::new(Code::TooManyConnections, format!("{most} connections are open already"))
        .with(|it| it.limit = Some(most.into()));
    let body = error.to_json();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\nretry-after: \
         {}\r\nconnection: close\r\n\r\n{body}",
        body.len(),
        ApiError::RETRY_AFTER
    )
}

/// Tells a connection that there is no place for it, and waits until the client closes it: one that is closed before all
/// that came was read is reset, and the client may not see its answer.
async fn refuse(mut stream: TcpStream, most: u32, _permit: OwnedSemaphorePermit) {
    let told = async {
        stream.write_all(refusal(most).as_bytes()).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        while stream.read(&mut rest).await? > 0 {}
        io::Result::Ok(())
    };
    // Whether or not it was heard.
    let _ = tokio::time::timeout(REFUSAL, told).await;
}

/// The same without waiting, where too many are being told already. Both calls return at once.
fn refuse_at_once(stream: TcpStream, most: u32) {
    use std::io::{Read as _, Write as _};

    let Ok(mut stream) = stream.into_std() else { return };
    let _ = stream.read(&mut [0; 4096]);
    let _ = stream.write(refusal(most).as_bytes());
}

/// How many connections there can be: each may need a file besides its own.
#[cfg(unix)]
fn connections(wanted: u32) -> u32 {
    let needed = 2 * u64::from(wanted) + OTHER_FILES;
    let current = match rlimit::increase_nofile_limit(needed) {
        Ok(current) => current,
        Err(error) => {
            tracing::warn!(%error, "the system does not say how many files may be open");
            return wanted;
        }
    };
    if current >= needed {
        return wanted;
    }
    let most = u32::try_from(current.saturating_sub(OTHER_FILES) / 2).unwrap_or(u32::MAX).clamp(1, wanted);
    tracing::warn!(wanted, most, files = current, "fewer connections: the system allows too few open files");
    most
}

#[cfg(not(unix))]
fn connections(wanted: u32) -> u32 {
    wanted
}

/// Says what lasts only now and then.
#[derive(Default)]
struct Seldom(Option<Instant>);

impl Seldom {
    /// Whether it is to be said now.
    fn now(&mut self) -> bool {
        let due = self.0.is_none_or(|last| last.elapsed() >= SAID);
        if due {
            self.0 = Some(Instant::now());
        }
        due
    }
}
