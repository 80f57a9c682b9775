//! The state that every request can use.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use quillmate_sampler::constraint::ConstraintError;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::constraint::{Constraints, StoredConstraint, prepare};
use crate::engine;
use crate::error::{ApiError, Code, from_model};
use crate::hub::Hub;
use crate::limits::Limits;
use crate::model::LanguageModel;
use crate::model::smollm2::Progress;
use crate::store::{Room, Store};

/// Verifications that may run at once: each may hold a run's frames in memory.
const VERIFICATIONS: usize = 2;
/// Constraints that may be compiled at once for new runs: each may take memory and time before it is refused.
const TRIALS: usize = 2;
/// Texts whose tokens are looked for at once: it takes hundreds of times their bytes. So many prompts, and so many texts
/// of `/api/tokenize` beside them, which are longer and must not hold up those who write.
const TOKENIZATIONS: usize = 2;
/// How long a text may wait for its turn.
const TOKENIZATION: Duration = Duration::from_secs(5);
/// How long a constraint may take to be read.
const TRIAL: Duration = Duration::from_secs(2);

/// The server's parts.
pub struct App {
    /// The store.
    pub store: Arc<Store>,
    /// Wakes watchers.
    pub hub: Arc<Hub>,
    /// The engine.
    pub engine: engine::Handle,
    /// Compiled constraints.
    pub constraints: Arc<Constraints>,
    /// The model, once it is loaded.
    pub model: Arc<OnceLock<Arc<dyn LanguageModel>>>,
    /// How much of it has been loaded.
    pub progress: Arc<Progress>,
    /// The limits.
    pub limits: Limits,
    /// Becomes true when the server is about to stop.
    pub stopping: watch::Receiver<bool>,
    /// Permits for streams.
    pub streams: Arc<Semaphore>,
    /// Permits for verifications.
    pub verifications: Arc<Semaphore>,
    /// Permits for trying constraints.
    pub trials: Arc<Semaphore>,
    /// Permits for tokenizing prompts.
    pub prompts: Arc<Semaphore>,
    /// Permits for tokenizing texts of `/api/tokenize`.
    pub texts: Arc<Semaphore>,
    /// How long a client may take for a request's body.
    pub body_deadline: Duration,
    /// How long a client may take for each piece of a stream or record.
    pub piece_deadline: Duration,
}

impl App {
    /// Puts the parts together.
    pub fn new(
        shared: engine::Shared,
        engine: engine::Handle,
        progress: Arc<Progress>,
        limits: Limits,
        body_deadline: Duration,
        piece_deadline: Duration,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        Self {
            streams: Arc::new(Semaphore::new(limits.streams.clamp(1, Semaphore::MAX_PERMITS))),
            verifications: Arc::new(Semaphore::new(VERIFICATIONS)),
            trials: Arc::new(Semaphore::new(TRIALS)),
            prompts: Arc::new(Semaphore::new(TOKENIZATIONS)),
            texts: Arc::new(Semaphore::new(TOKENIZATIONS)),
            body_deadline,
            piece_deadline,
            store: shared.store,
            hub: shared.hub,
            engine,
            constraints: shared.constraints,
            model: shared.model,
            progress,
            limits,
            stopping,
        }
    }

    /// The model, or the refusal while it is being loaded.
    pub fn model(&self) -> Result<Arc<dyn LanguageModel>, ApiError> {
        self.model.get().cloned().ok_or_else(|| {
            ApiError::new(Code::ModelLoading, "the model is still being loaded; /api/health says how far it is")
        })
    }

    /// The room a run needs to find.
    pub fn room(&self) -> Room {
        Room { runs: self.limits.runs, frame_bytes: self.limits.frame_bytes }
    }

    /// Sees that a constraint can be read and has something to say after these tokens. One that takes too long keeps its
    /// place until it is through, so that no more than two threads are ever at it.
    pub async fn try_constraint(
        &self,
        constraint: StoredConstraint,
        model: Arc<dyn LanguageModel>,
        tokens: Vec<u32>,
    ) -> Result<(), ApiError> {
        let begun = tokio::time::timeout(TRIAL, Arc::clone(&self.trials).acquire_owned()).await;
        let permit = begun
            .map_err(|_| ApiError::new(Code::ConstraintsBusy, "other constraints are being read; try again"))?
            .map_err(ApiError::internal)?;
        let (told, outcome) = oneshot::channel();
        let done = move |ready| {
            // Nobody may be listening any more.
            let _ = told.send(Result::map(ready, drop));
            drop(permit);
        };
        prepare(Arc::clone(&self.constraints), constraint, model, tokens, done).map_err(ApiError::internal)?;
        match tokio::time::timeout(TRIAL, outcome).await {
            Ok(outcome) => Ok(outcome.map_err(ApiError::internal)??),
            Err(_) => {
                let what = format!("reading it takes more than {} seconds", TRIAL.as_secs());
                Err(ConstraintError::TooComplex(what).into())
            }
        }
    }

    /// Looks for a text's tokens when it is its turn among `places`, which it keeps until it is through.
    pub async fn encode(
        &self,
        places: &Arc<Semaphore>,
        model: Arc<dyn LanguageModel>,
        text: String,
    ) -> Result<Vec<u32>, ApiError> {
        let permit = tokio::time::timeout(TOKENIZATION, Arc::clone(places).acquire_owned())
            .await
            .map_err(|_| {
                ApiError::new(Code::TokenizerBusy, "the tokens of other texts are being looked for; try again")
            })?
            .map_err(ApiError::internal)?;
        blocking(move || {
            let _permit = permit;
            model.encode(&text)
        })
        .await?
        .map_err(from_model)
    }

    /// Uses the store without holding up other requests.
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
