//! A run as it is written: frames from any step on, each sent once it is stored; and a run's record.
//!
//! Both are read from the store as fast as the client takes them and no faster, and hold one of the server's permits for
//! streams until they are through or the client is gone.

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
use crate::store::{Most, Status};

/// The stream's media type. Of its own, so that nothing on the way holds it back to compress it.
pub const MEDIA_TYPE: &str = "application/vnd.quillmate.stream";
/// How long a stream says nothing at most.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// What is read at once, and so about what a client who does not read holds of the server's memory.
const BATCH: Most = Most { frames: 16, bytes: 256 << 10 };

/// Where a body's pieces go.
type Sender = mpsc::Sender<io::Result<Bytes>>;

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
pub fn stream(app: Arc<App>, id: String, from: u64, permit: OwnedSemaphorePermit) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        // Whoever watches may be gone at any moment; then there is nobody to tell.
        if let Err(error) = follow(&app, &id, from, &sender).await {
            let payload = error.to_json().to_string();
            let _ = sender.send(Ok(message(Kind::Error, payload.as_bytes()))).await;
        }
    });
    let headers = [(header::CONTENT_TYPE, MEDIA_TYPE), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(ReceiverStream::new(receiver))).into_response()
}

async fn follow(app: &Arc<App>, id: &str, from: u64, sender: &Sender) -> Result<(), ApiError> {
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
            if sender.send(Ok(message(Kind::Frame, &frame))).await.is_err() {
                return Ok(());
            }
            next += 1;
        }
        if !tail.all {
            continue;
        }
        if tail.status != Status::Running {
            let end = json!({"status": tail.status, "reason": tail.reason, "step": next});
            let _ = sender.send(Ok(message(Kind::End, end.to_string().as_bytes()))).await;
            return Ok(());
        }
        tokio::select! {
            _ = bell.changed() => {}
            () = tokio::time::sleep(HEARTBEAT) => {
                if sender.send(Ok(message(Kind::Heartbeat, &[]))).await.is_err() {
                    return Ok(());
                }
            }
            () = stopped(&mut stopping) => return Err(ApiError::shutting_down()),
            () = sender.closed() => return Ok(()),
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, and with it the server.
    let _ = stopping.wait_for(|&stopping| stopping).await;
}

/// Streams a run's record, form 2: `head` is its JSON up to the frames and without the closing bracket. It has as many
/// frames as tokens; one that is missing or cannot be read breaks the connection off, so that no client takes what came
/// for the whole. The permit is given back when the record is through.
pub fn record(
    app: Arc<App>,
    id: String,
    steps: std::ops::Range<u64>,
    head: String,
    permit: OwnedSemaphorePermit,
) -> Response {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        let _permit = permit;
        if let Err(why) = record_frames(&app, &id, steps, head, &sender).await {
            tracing::error!(run = id, why, "a record broke off");
            let _ = sender.send(Err(io::Error::other(why))).await;
        }
    });
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, Body::from_stream(ReceiverStream::new(receiver))).into_response()
}

async fn record_frames(
    app: &Arc<App>,
    id: &str,
    steps: std::ops::Range<u64>,
    head: String,
    sender: &Sender,
) -> Result<(), String> {
    let mut text = format!("{head},\"frames\":[");
    let mut next = steps.start;
    while next < steps.end {
        let (run, left) = (id.to_owned(), u32::try_from(steps.end - next).unwrap_or(u32::MAX));
        let most = Most { frames: left.min(BATCH.frames), ..BATCH };
        let tail = app.with_store(move |store| store.tail(&run, next, most)).await;
        let tail = tail.map_err(|error| error.code().to_owned())?.map_err(|error| error.to_string())?;
        let frames = tail.map(|tail| tail.frames).unwrap_or_default();
        if frames.is_empty() {
            return Err(format!("there is no frame of step {next}"));
        }
        for frame in frames {
            // What is stored as a frame must be one: a client could not tell.
            let step = Frame::decode(&frame).map_err(|error| format!("the frame of step {next}: {error}"))?.step();
            if step != next {
                return Err(format!("the frame of step {next} is of step {step}"));
            }
            if next > steps.start {
                text.push(',');
            }
            text.push('"');
            text.push_str(&Base64::encode_string(&frame));
            text.push('"');
            next += 1;
        }
        if sender.send(Ok(std::mem::take(&mut text).into())).await.is_err() {
            // Whoever asked is gone.
            return Ok(());
        }
    }
    text.push_str("]}");
    let _ = sender.send(Ok(text.into())).await;
    Ok(())
}
