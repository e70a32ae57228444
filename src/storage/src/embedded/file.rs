//! The database file: opening it, counting and (if asked) skipping its syncs, and turning redb's
//! errors into ours.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io,
    ops::Bound,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use redb::{BackendError, Database, DatabaseError, StorageBackend, backends::FileBackend};

use super::EmbeddedOptions;
use crate::StorageError;

/// The name of the database file in the store's directory.
const FILE_NAME: &str = "store.redb";

/// The file holds Secrets: its owner alone reads it.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;
/// The permission bits of all users but the owner.
const OTHERS: u32 = 0o077;

/// Opens or creates `<dir>/store.redb`, readable by its owner only. Whole-file locking by redb keeps other processes out.
pub(super) fn open_file(
    dir: &Path,
    fsync: bool,
    syncs: Arc<AtomicU64>,
) -> Result<(PathBuf, SyncBackend), StorageError> {
    let mut directory = DirBuilder::new();
    directory.recursive(true).mode(DIR_MODE);
    directory.create(dir).map_err(|error| failed(dir, &error))?;
    warn_if_others_may_enter(dir);
    let path = dir.join(FILE_NAME);
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE);
    let file = options.open(&path).map_err(|error| failed(&path, &error))?;
    // The mode above is that of a new file; an old one may have been made or copied with another.
    file.set_permissions(Permissions::from_mode(FILE_MODE))
        .map_err(|error| failed(&path, &error))?;
    if fsync {
        // A new file's name must be as durable as its content.
        File::open(dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|error| failed(dir, &error))?;
    }
    let inner = FileBackend::new(file).map_err(|error| database_error(&path, error))?;
    Ok((path, SyncBackend { inner, fsync, syncs }))
}

/// Warns of a directory that others than its owner have rights to: it holds Secrets, and a user who may write there can
/// replace the store.
fn warn_if_others_may_enter(dir: &Path) {
    let mode = std::fs::metadata(dir).map_or(0, |metadata| metadata.permissions().mode());
    if mode & OTHERS != 0 {
        let mode = format!("{:o}", mode & 0o777);
        tracing::warn!(dir = %dir.display(), mode, "others than its owner may enter the directory of the store; set it to 700");
    }
}

/// Starts redb on a backend, repairing after a crash and verifying checksums if asked.
pub(super) fn open_database(
    path: &Path,
    backend: impl StorageBackend,
    options: &EmbeddedOptions,
) -> Result<Database, StorageError> {
    redb::Builder::new()
        .set_cache_size(options.cache_bytes)
        .set_check_integrity_on_open(options.verify_on_open)
        .create_with_backend(backend)
        .map_err(|error| database_error(path, error))
}

/// The length of the file.
pub(super) fn size(path: &Path) -> Result<u64, StorageError> {
    let metadata = std::fs::metadata(path).map_err(|error| failed(path, &error))?;
    Ok(metadata.len())
}

fn failed(path: &Path, error: &io::Error) -> StorageError {
    StorageError::Failed(format!("cannot open {}: {error}", path.display()))
}

fn database_error(path: &Path, error: DatabaseError) -> StorageError {
    let path = path.display();
    let text = match error {
        DatabaseError::DatabaseAlreadyOpen | DatabaseError::LockProtocolMismatch => {
            format!("{path} is in use by another process")
        }
        DatabaseError::UpgradeRequired(version) => {
            format!("{path} has the file format {version}, which this version cannot read")
        }
        DatabaseError::Storage(redb::StorageError::Io(error)) if error.kind() != io::ErrorKind::InvalidData => {
            format!("cannot open {path}: {error}")
        }
        error => damaged_text(&path, &error),
    };
    StorageError::Failed(text)
}

/// The message for a file that is not, or no longer, a sound store.
pub(super) fn damaged(path: &Path, why: &dyn std::fmt::Display) -> StorageError {
    StorageError::Failed(damaged_text(&path.display(), why))
}

fn damaged_text(path: &dyn std::fmt::Display, why: &dyn std::fmt::Display) -> String {
    format!("{path} is damaged ({why}); restore it from a backup, or move it away to start with an empty store")
}

/// Any error of redb after opening.
pub(super) fn redb_error(error: impl Into<redb::Error>) -> StorageError {
    StorageError::Failed(format!("database: {}", error.into()))
}

/// A file backend that counts syncs, and leaves them out if the store is configured so.
#[derive(Debug)]
pub(super) struct SyncBackend {
    inner: FileBackend,
    fsync: bool,
    syncs: Arc<AtomicU64>,
}

impl StorageBackend for SyncBackend {
    fn len(&self) -> Result<u64, io::Error> {
        self.inner.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.inner.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.inner.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        if !self.fsync {
            return Ok(());
        }
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.inner.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.inner.write(offset, data)
    }

    fn close(&self) -> Result<(), io::Error> {
        self.inner.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}
