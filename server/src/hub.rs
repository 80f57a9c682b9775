//! Wakes watchers when a run has advanced. The steps themselves are read from the store, so only stored steps are shown, and
//! a slow watcher misses nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// A notifier for each run that is watched.
#[derive(Debug, Default)]
pub struct Hub {
    bells: Mutex<HashMap<String, watch::Sender<()>>>,
}

impl Hub {
    fn bells(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<()>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to a run from now on, and removes notifiers without subscribers.
    pub fn watch(&self, run: &str) -> watch::Receiver<()> {
        let mut bells = self.bells();
        bells.retain(|_, bell| bell.receiver_count() > 0);
        bells.entry(run.to_owned()).or_default().subscribe()
    }

    /// Wakes the subscribers.
    pub fn ring(&self, run: &str) {
        if let Some(bell) = self.bells().get(run) {
            bell.send_replace(());
        }
    }
}
