//! The folder a store is in: who may read it, how much room its disk has, and a reserve for when it has none.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::error::StoreError;

/// Bytes set aside on the disk, so that runs can be deleted, and their ends stored, when it is full.
const RESERVE: u64 = 16 << 20;
/// The smallest reserve that is of use: a log as long as SQLite lets it grow must fit into the tables first.
const LEAST_RESERVE: u64 = 4 << 20;
/// Bytes the write-ahead log may need beside the frames.
pub const LOG_ROOM: u64 = 8 << 20;

/// The folder, locked while this value exists.
pub struct Folder {
    path: PathBuf,
    // The system lets go of it when the process dies.
    _lock: File,
}

impl Folder {
    /// Creates the folder if it is missing, locks it for this process, and lets only this user read the server's files:
    /// they hold prompts and texts.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let failed = |source| StoreError::Folder { path: path.display().to_string(), source };
        make(path).map_err(failed)?;
        let lock = private_file(&path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(path.display().to_string())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let folder = Self { path: path.to_owned(), _lock: lock };
        // SQLite gives its other files the permissions of this one.
        private_file(&folder.database()).map_err(failed)?;
        for name in ["runs.sqlite-wal", "runs.sqlite-shm", "reserve"] {
            keep_private(&path.join(name), 0o600);
        }
        Ok(folder)
    }

    /// The file of the tables.
    pub fn database(&self) -> PathBuf {
        self.path.join("runs.sqlite")
    }

    /// The file of the write-ahead log.
    pub fn log(&self) -> PathBuf {
        self.path.join("runs.sqlite-wal")
    }

    fn reserve_file(&self) -> PathBuf {
        self.path.join("reserve")
    }

    /// Bytes that can be written to the disk.
    pub fn free(&self) -> io::Result<u64> {
        #[cfg(unix)]
        {
            let disk = rustix::fs::statvfs(&self.path)?;
            Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
        }
        #[cfg(not(unix))]
        Ok(u64::MAX)
    }

    /// Creates the reserve if the disk has room for it in addition to the log. Whether there is one now.
    pub fn reserve(&self) -> io::Result<bool> {
        let path = self.reserve_file();
        let kept = std::fs::metadata(&path).map_or(0, |file| file.len());
        if kept >= RESERVE {
            return Ok(true);
        }
        let size = RESERVE.min((kept + self.free()?).saturating_sub(LOG_ROOM));
        if size < LEAST_RESERVE || size <= kept {
            return Ok(kept >= LEAST_RESERVE);
        }
        let made = private_file(&path).and_then(|file| allocate(&file, size));
        if let Err(error) = made {
            let _ = std::fs::remove_file(&path);
            tracing::warn!(%error, "no reserve on the disk");
            return Ok(false);
        }
        Ok(true)
    }

    /// Deletes the reserve. Whether there was one.
    pub fn release(&self) -> bool {
        let released = std::fs::remove_file(self.reserve_file()).is_ok();
        if released {
            tracing::warn!("the disk is full; its reserve is used");
        }
        released
    }
}

/// Allocates the blocks: a sparse file would reserve none.
fn allocate(file: &File, size: u64) -> io::Result<()> {
    #[cfg(unix)]
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, size) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        outcome => return Ok(outcome?),
    }
    let mut file = file;
    io::copy(&mut io::Read::take(io::repeat(0), size), &mut file)?;
    file.sync_all()
}

/// The server's files in the folder.
const FILES: [&str; 6] =
    ["lock", "runs.sqlite", "runs.sqlite-wal", "runs.sqlite-shm", "runs.sqlite-journal", "reserve"];

/// Creates a folder for this user alone. An existing one is made private if it holds the server's files only: a folder with
/// other files, such as `/tmp`, keeps its permissions.
fn make(path: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)?;
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        if !FILES.iter().any(|file| name == *file) {
            #[cfg(unix)]
            if others_may(path, 0o700)?.is_some() {
                tracing::warn!(
                    folder = %path.display(),
                    "others may look into the data folder; it holds other files too and is left as it is"
                );
            }
            return Ok(());
        }
    }
    keep_private(path, 0o700);
    Ok(())
}

/// Opens a file that only this user may read, and creates it if it is missing.
fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    keep_private(path, 0o600);
    Ok(file)
}

/// Removes the permissions of others from a file or folder, if it exists. Not every file system has permissions, and not
/// every user may change them.
#[cfg_attr(not(unix), expect(unused_variables, reason = "permissions are Unix's"))]
fn keep_private(path: &Path, mode: u32) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let kept = others_may(path, mode).and_then(|found| match found {
            Some(found) => std::fs::set_permissions(path, std::fs::Permissions::from_mode(found & mode)),
            None => Ok(()),
        });
        match kept {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "others may be able to read this");
            }
            _ => {}
        }
    }
}

/// The permissions of a file or folder, if they are more than these.
#[cfg(unix)]
fn others_may(path: &Path, mode: u32) -> io::Result<Option<u32>> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::metadata(path)?.permissions().mode() & 0o777;
    Ok((found & !mode != 0).then_some(found))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn only_permissions_of_others_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let found = |mode| {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            others_may(folder.path(), 0o700).unwrap()
        };
        assert_eq!(found(0o700), None);
        assert_eq!(found(0o500), None);
        assert_eq!(found(0o710), Some(0o710));
        assert_eq!(found(0o704), Some(0o704));
    }
}
