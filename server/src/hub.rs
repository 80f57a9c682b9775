//! Tells watchers that a run has moved. It says only *that*: what has happened is read from the store, so nothing can be
//! shown that is not stored, and a watcher who was slow has missed nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// A bell for each run somebody watches.
#[derive(Debug, Default)]
pub struct Hub {
    bells: Mutex<HashMap<String, watch::Sender<()>>>,
}

impl Hub {
    fn bells(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bell that rings from now on; those nobody listens to any more are put away.
    pub fn watch(&self, run: &str) -> watch::Receiver<()> {
        let mut bells = self.bells();
        bells.retain(|_, bell| bell.receiver_count() > 0);
        bells.entry(run.to_owned()).or_default().subscribe()
    }

    /// Rings for whoever listens.
    pub fn ring(&self, run: &str) {
        if let Some(bell) = self.bells().get(run) {
            bell.send_replace(());
        }
    }
}
