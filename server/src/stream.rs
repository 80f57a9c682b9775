//! Sends a run's frames from any step on, each once it is stored, and a run's record.
//!
//! Both are read from the store as fast as the client takes them and no faster, and hold one of the server's permits for
//! streams until they are through or the client is gone. A client that takes too long for a piece counts as gone, even if it
//! reads a byte now and then.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use base64ct::{Base64, Encoding as _};
use bytes::{BufMut, Bytes, BytesMut};
use quillmate_sampler::Frame;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::app::App;
use crate::error::{ApiError, from_store};
use crate::messages::End;
use crate::store::{BatchSize, Status};

/// The stream's media type. Of its own, so that nothing on the way holds it back to compress it.
pub const MEDIA_TYPE: &str = "application/vnd.quillmate.stream";
/// How long a stream says nothing at most.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// What is read at once, and so about what a client who does not read holds of the server's memory.
const BATCH: BatchSize = BatchSize { frames: 16, bytes: 256 << 10 };

/// Where a body's pieces go, one at a time.
struct Pieces {
    sender: mpsc::Sender<io::Result<Bytes>>,
    /// How long the client may take for one.
    deadline: Duration,
}

/// The place of a body's last piece, which is always free: to send it waits for nobody.
type Last = mpsc::OwnedPermit<io::Result<Bytes>>;

/// No piece goes to this client any more: it is gone, or took too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    Gone,
    Late,
}

impl Pieces {
    fn new(deadline: Duration) -> Result<(Self, Last, Body), ApiError> {
        let (sender, receiver) = mpsc::channel(2);
        let last = sender.clone().try_reserve_owned().map_err(ApiError::internal)?;
        Ok((Self { sender, deadline }, last, Body::from_stream(ReceiverStream::new(receiver))))
    }

    /// Hands a piece on, once the client has taken the one before.
    async fn send(&self, piece: Bytes) -> Result<(), Lost> {
        match tokio::time::timeout(self.deadline, self.sender.send(Ok(piece))).await {
            Ok(sent) => sent.map_err(|_| Lost::Gone),
            Err(_) => Err(Lost::Late),
        }
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Still here.
    Heartbeat = 0,
    /// A frame.
    Frame = 1,
    /// The run is over, or cannot go on.
    End = 2,
    /// The stream cannot go on.
    Error = 3,
}

/// One message: a byte of kind, a little-endian u32 length, as many bytes.
pub fn message(kind: Kind, payload: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(5 + payload.len());
    message.put_u8(kind as u8);
    // A frame is at most a row of logits: far below 4 GiB.
    message.put_u32_le(payload.len() as u32);
    message.put_slice(payload);
    message.freeze()
}

/// Streams a run's frames from a step on. The permit is given back when the stream ends.
pub fn stream(app: Arc<App>, id: String, from: u64, permit: OwnedSemaphorePermit) -> Result<Response, ApiError> {
    let (pieces, last, body) = Pieces::new(app.piece_deadline)?;
    tokio::spawn(async move {
        let _permit = permit;
        match follow(&app, &id, from, &pieces).await {
            Ok(Some(end)) => drop(last.send(Ok(end))),
            // Whoever watches may be gone at any moment; then there is nobody to tell. Nor is one told who took too long:
            // a connection that ends without a last message was cut.
            Ok(None) => {}
            Err(error) => drop(last.send(Ok(message(Kind::Error, error.to_json().as_bytes())))),
        }
    });
    let headers = [(header::CONTENT_TYPE, MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// Sends frames until the run is over, and gives the last message; `None` if nobody reads any more.
async fn follow(app: &Arc<App>, id: &str, from: u64, pieces: &Pieces) -> Result<Option<Bytes>, ApiError> {
    let mut next = from;
    // Watching begins before the first look, so that nothing falls between the two.
    let mut bell = app.hub.watch(id);
    let mut stopping = app.stopping.clone();
    loop {
        bell.mark_unchanged();
        let run = id.to_owned();
        let tail = app.with_store(move |store| store.tail(&run, next, BATCH)).await?;
        let tail = tail.map_err(from_store)?.ok_or_else(|| ApiError::no_such_run(id))?;
        for frame in tail.frames {
            if pieces.send(message(Kind::Frame, &frame)).await.is_err() {
                return Ok(None);
            }
            next += 1;
        }
        if !tail.all {
            continue;
        }
        if tail.status != Status::Running {
            let end = json!(End { status: tail.status, reason: tail.reason.as_deref(), step: next });
            return Ok(Some(message(Kind::End, end.to_string().as_bytes())));
        }
        tokio::select! {
            _ = bell.changed() => {}
            () = tokio::time::sleep(HEARTBEAT) => {
                if pieces.send(message(Kind::Heartbeat, &[])).await.is_err() {
                    return Ok(None);
                }
            }
            () = stopped(&mut stopping) => return Err(ApiError::shutting_down()),
            () = pieces.sender.closed() => return Ok(None),
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it the server.
    let _ = stopping.wait_for(|&stopping| stopping).await;
}

/// Streams a run's record, form 3: `head` is its JSON up to the frames and without the closing bracket. It has as many
/// frames as tokens; one that is missing or cannot be read breaks the connection off, so that no client takes what came
/// for the whole. The permit is given back when the record is through.
pub fn record(
    app: Arc<App>,
    id: String,
    steps: std::ops::Range<u64>,
    head: String,
    permit: OwnedSemaphorePermit,
) -> Result<Response, ApiError> {
    let (pieces, last, body) = Pieces::new(app.piece_deadline)?;
    tokio::spawn(async move {
        let _permit = permit;
        match record_frames(&app, &id, steps, head, &pieces).await {
            Ok(end) => drop(last.send(Ok(end))),
            Err(Broken::Lost(Lost::Gone)) => {}
            Err(Broken::Lost(Lost::Late)) => {
                tracing::debug!(run = id, "a record broke off: its client took too long");
                drop(last.send(Err(io::ErrorKind::TimedOut.into())));
            }
            Err(Broken::Store(why)) => {
                tracing::error!(run = id, why, "a record broke off");
                drop(last.send(Err(io::Error::other(why))));
            }
        }
    });
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

/// Why a record is not sent to its end.
enum Broken {
    Lost(Lost),
    Store(String),
}

impl From<Lost> for Broken {
    fn from(lost: Lost) -> Self {
        Self::Lost(lost)
    }
}

impl From<String> for Broken {
    fn from(why: String) -> Self {
        Self::Store(why)
    }
}

/// Sends a record, and gives its last piece.
async fn record_frames(
    app: &Arc<App>,
    id: &str,
    steps: std::ops::Range<u64>,
    head: String,
    pieces: &Pieces,
) -> Result<Bytes, Broken> {
    let mut text = format!("{head},\"frames\":[");
    let mut next = steps.start;
    while next < steps.end {
        let (run, left) = (id.to_owned(), u32::try_from(steps.end - next).unwrap_or(u32::MAX));
        let most = BatchSize { frames: left.min(BATCH.frames), ..BATCH };
        let tail = app.with_store(move |store| store.tail(&run, next, most)).await;
        let tail = tail.map_err(|error| error.code().to_owned())?.map_err(|error| error.to_string())?;
        let frames = tail.map(|tail| tail.frames).unwrap_or_default();
        if frames.is_empty() {
            return Err(format!("there is no frame of step {next}").into());
        }
        for frame in frames {
            // What is stored as a frame must be one: a client could not tell.
            let step = Frame::decode(&frame).map_err(|error| format!("the frame of step {next}: {error}"))?.step();
            if step != next {
                return Err(format!("the frame of step {next} is of step {step}").into());
            }
            if next > steps.start {
                text.push(',');
            }
            text.push('"');
            text.push_str(&Base64::encode_string(&frame));
            text.push('"');
            next += 1;
        }
        pieces.send(std::mem::take(&mut text).into()).await?;
    }
    text.push_str("]}");
    Ok(text.into())
}
