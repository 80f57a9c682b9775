//! What every request can reach.

use std::sync::{Arc, OnceLock};

use axum::http::StatusCode;
use tokio::sync::{Semaphore, watch};

use crate::engine;
use crate::error::ApiError;
use crate::hub::Hub;
use crate::limits::Limits;
use crate::model::LanguageModel;
use crate::model::smollm2::Progress;
use crate::store::{Room, Store};

/// Checks of whole runs at once: each may hold a run's frames in memory.
const VERIFICATIONS: usize = 2;

/// The server's parts.
pub struct App {
    /// What is kept.
    pub store: Arc<Store>,
    /// Bells for watchers.
    pub hub: Arc<Hub>,
    /// Who writes.
    pub engine: engine::Handle,
    /// The model, once it is loaded.
    pub model: Arc<OnceLock<Arc<dyn LanguageModel>>>,
    /// How far it is.
    pub progress: Arc<Progress>,
    /// How much of everything.
    pub limits: Limits,
    /// Becomes true when the server is about to stop.
    pub stopping: watch::Receiver<bool>,
    /// Streams that may still be opened.
    pub streams: Arc<Semaphore>,
    /// Checks that may still be made.
    pub verifications: Semaphore,
}

impl App {
    /// Puts the parts together.
    pub fn new(
        store: Arc<Store>,
        hub: Arc<Hub>,
        engine: engine::Handle,
        model: Arc<OnceLock<Arc<dyn LanguageModel>>>,
        progress: Arc<Progress>,
        limits: Limits,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            streams: Arc::new(Semaphore::new(limits.streams.clamp(1, Semaphore::MAX_PERMITS))),
            verifications: Semaphore::new(VERIFICATIONS),
            store,
            hub,
            engine,
            model,
            progress,
            limits,
            stopping,
        }
    }

    /// The model, or why not yet.
    pub fn model(&self) -> Result<Arc<dyn LanguageModel>, ApiError> {
        self.model.get().cloned().ok_or_else(|| {
            ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "model_loading",
                "the model is still being loaded; /api/health says how far it is",
            )
        })
    }

    /// The room a run needs to find.
    pub fn room(&self) -> Room {
        Room { runs: self.limits.runs, frame_bytes: self.limits.frame_bytes }
    }

    /// Does something with the store without holding up other requests.
    pub async fn with_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let store = Arc::clone(&self.store);
        blocking(move || work(&store)).await
    }
}

/// Does something slow on a thread that may wait.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(ApiError::internal)
}
