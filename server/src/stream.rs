//! A run as it is written: frames from any step on, each sent once it is stored.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::app::App;
use crate::error::{ApiError, from_store};
use crate::store::Status;

/// The stream's media type. Of its own, so that nothing on the way holds it back to compress it.
pub const MEDIA_TYPE: &str = "application/vnd.quillmate.stream";
/// How long a stream says nothing at most.
const HEARTBEAT: Duration = Duration::from_secs(5);
/// Frames read at once.
const BATCH: u32 = 16;

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
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(4);
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

async fn follow(
    app: &Arc<App>,
    id: &str,
    from: u64,
    sender: &mpsc::Sender<Result<Bytes, Infallible>>,
) -> Result<(), ApiError> {
    let mut next = from;
    // Watching begins before the first look, so that nothing falls between the two.
    let mut bell = app.hub.watch(id);
    let mut stopping = app.stopping.clone();
    loop {
        bell.mark_unchanged();
        let run = id.to_owned();
        let tail = app.with_store(move |store| store.tail(&run, next, BATCH)).await?;
        let tail = tail.map_err(from_store)?.ok_or_else(|| ApiError::no_such_run(id))?;
        let full = tail.frames.len() == BATCH as usize;
        for frame in tail.frames {
            if sender.send(Ok(message(Kind::Frame, &frame))).await.is_err() {
                return Ok(());
            }
            next += 1;
        }
        if full {
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
