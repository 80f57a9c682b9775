//! What can go wrong with the store.

use super::schema::SCHEMA_VERSION;

/// What the store could not do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite failed.
    #[error("the store: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The folder could not be used.
    #[error("the data folder {path}: {source}")]
    Folder {
        /// The folder.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another server works in this folder.
    #[error("another server is using the data folder {0}")]
    InUse(String),
    /// The store was written by another release.
    #[error("the store has form {0}, this release reads {SCHEMA_VERSION}")]
    Version(i64),
    /// There is no room on the disk.
    #[error("the disk is full")]
    DiskFull,
    /// Something in the store cannot be what this server wrote.
    #[error("the store holds something damaged: {0}")]
    Damaged(String),
}

impl StoreError {
    /// A stable name for the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::DiskFull => "disk_full",
            _ => "store_error",
        }
    }
}
