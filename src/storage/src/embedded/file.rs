//! The database file: making and opening it, counting and (if asked) skipping its syncs, and turning redb's
//! errors into ours.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io,
    ops::Bound,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use redb::{BackendError, Database, DatabaseError, StorageBackend, backends::FileBackend};

use super::EmbeddedOptions;
use crate::StorageError;

/// The name of the database file in the store's directory.
const FILE_NAME: &str = "store.redb";

/// The beginning of the name of a database that is being made.
const UNFINISHED: &str = "store.redb.new-";

/// The file holds Secrets: its owner alone reads it.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;
/// The permission bits of all users but the owner.
const OTHERS: u32 = 0o077;

/// Makes what redb reads and writes.
pub(super) type OpenBackend = Box<dyn Fn() -> Result<Box<dyn StorageBackend>, StorageError> + Send>;

/// The store's file, to be opened, and opened again when a write has failed.
pub(super) struct StoreFile {
    pub(super) path: PathBuf,
    pub(super) options: EmbeddedOptions,
    open: OpenBackend,
    syncs: Arc<Syncs>,
}

impl StoreFile {
    pub(super) fn new(path: PathBuf, open: OpenBackend, options: EmbeddedOptions, syncs: Arc<Syncs>) -> Self {
        Self {
            path,
            options,
            open,
            syncs,
        }
    }

    /// Starts redb on the file, repairing after a crash and verifying checksums if asked.
    pub(super) fn database(&self) -> Result<Database, StorageError> {
        let backend = SyncBackend {
            inner: (self.open)()?,
            fsync: self.options.fsync,
            syncs: self.syncs.clone(),
        };
        redb::Builder::new()
            .set_cache_size(self.options.cache_bytes)
            .set_check_integrity_on_open(self.options.verify_on_open)
            .create_with_backend(backend)
            .map_err(|error| database_error(&self.path, error))
    }

    /// Returns true if a sync has failed: what was written before may be in the system's memory and never on the disk.
    pub(super) fn sync_has_failed(&self) -> bool {
        self.syncs.have_failed.load(Ordering::Relaxed)
    }
}

/// Makes `<dir>/store.redb` unless it is there, readable by its owner only.
pub(super) fn prepare(dir: &Path, fsync: bool) -> Result<PathBuf, StorageError> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    let mut directory = DirBuilder::new();
    directory.recursive(true).mode(DIR_MODE);
    directory.create(dir).map_err(|error| failed(dir, &error))?;
    warn_if_others_may_enter(dir);
    let path = dir.join(FILE_NAME);
    if !path.try_exists().map_err(|error| failed(&path, &error))? {
        remove_unfinished(dir);
        make_file(&path, |file| {
            redb::Builder::new()
                .create_with_backend(FileBackend::new(file)?)
                .map(drop)
        })?;
    }
    if fsync {
        // The names of a new file and of new directories must be as durable as the content.
        for dir in missing.into_iter().filter_map(Path::parent).chain([dir]) {
            let dir = if dir.as_os_str().is_empty() {
                Path::new(".")
            } else {
                dir
            };
            let synced = File::open(dir).and_then(|opened| opened.sync_all());
            synced.map_err(|error| failed(dir, &error))?;
        }
    }
    Ok(path)
}

/// Removes files whose making was cut short.
fn remove_unfinished(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            // It is in no one's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Makes an empty database, under another name first: one whose making was cut short cannot be distinguished from a damaged one.
fn make_file(path: &Path, make: impl FnOnce(File) -> Result<(), DatabaseError>) -> Result<(), StorageError> {
    let new = path.with_file_name(format!("{UNFINISHED}{:08x}", rand::random::<u32>()));
    let file = file_options().create_new(true).open(&new);
    let file = file.map_err(|error| failed(path, &error))?;
    make(file).map_err(|error| database_error(path, error))?;
    // Unlike a rename this leaves the file of a process alone that was faster.
    match std::fs::hard_link(&new, path) {
        // It took this one for one that was cut short.
        Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => Ok(()),
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => std::fs::rename(&new, path),
        _ => std::fs::remove_file(&new),
    }
    .map_err(|error| failed(path, &error))
}

fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    options
}

/// The file for redb, whose lock keeps other processes out.
pub(super) fn backend(path: &Path) -> Result<Box<dyn StorageBackend>, StorageError> {
    let file = file_options().open(path).map_err(|error| failed(path, &error))?;
    // The mode above is that of a new file; an old one may have been made or copied with another.
    file.set_permissions(Permissions::from_mode(FILE_MODE))
        .map_err(|error| failed(path, &error))?;
    let backend = FileBackend::new(file).map_err(|error| database_error(path, error))?;
    Ok(Box::new(backend))
}

/// Warns of a directory that others than its owner have rights to: it holds Secrets or keys, and a user who may write there can
/// replace the store.
pub fn warn_if_others_may_enter(dir: &Path) {
    let mode = std::fs::metadata(dir).map_or(0, |metadata| metadata.permissions().mode());
    if let Some(warning) = rights_warning(mode) {
        tracing::warn!(dir = %dir.display(), "{warning}");
    }
}

/// The warning about a directory of this mode; `None` if it is for its owner only.
fn rights_warning(mode: u32) -> Option<String> {
    let warning = || {
        let mode = mode & 0o777;
        format!("others than its owner have rights to the directory, whose mode is {mode:o}; set it to 700")
    };
    (mode & OTHERS != 0).then(warning)
}

/// The length of the file.
pub(super) fn size(path: &Path) -> Result<u64, StorageError> {
    let metadata = std::fs::metadata(path).map_err(|error| failed(path, &error))?;
    Ok(metadata.len())
}

fn failed(path: &Path, error: &io::Error) -> StorageError {
    StorageError::Failed(format!("cannot open {}: {error}", path.display()))
}

/// An error while the state was read, or the first commit made: a full disk is no damage.
pub(super) fn load_error(path: &Path, error: redb::Error) -> StorageError {
    match error {
        redb::Error::Io(error) if error.kind() != io::ErrorKind::InvalidData => failed(path, &error),
        error => damaged(path, &error),
    }
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

/// Any error of redb after opening. After a failed write it refuses all else until the file is opened again.
pub(super) fn redb_error(error: impl Into<redb::Error>) -> StorageError {
    let error = error.into();
    let text = format!("database: {error}");
    match error {
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => StorageError::Unavailable(text),
        _ => StorageError::Failed(text),
    }
}

/// The syncs of a store's file since it was opened first.
#[derive(Debug, Default)]
pub(super) struct Syncs {
    pub(super) count: AtomicU64,
    have_failed: AtomicBool,
}

/// A backend that counts syncs, and leaves them out if the store is configured so.
#[derive(Debug)]
struct SyncBackend {
    inner: Box<dyn StorageBackend>,
    fsync: bool,
    syncs: Arc<Syncs>,
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
        self.syncs.count.fetch_add(1, Ordering::Relaxed);
        let synced = self.inner.sync_data();
        if synced.is_err() {
            self.syncs.have_failed.store(true, Ordering::Relaxed);
        }
        synced
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_whose_making_was_cut_short_is_made_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(FILE_NAME);
        let cut_short = |mut file: File| {
            file.write_all(&[0; 4096]).expect("it is written");
            Err(DatabaseError::Storage(io::Error::other("killed").into()))
        };
        make_file(&path, cut_short).expect_err("it is cut short");
        assert!(!path.exists(), "there is no file that could be taken for a damaged one");
        assert_eq!(prepare(dir.path(), true).expect("it is made"), path);
        let names = std::fs::read_dir(dir.path()).expect("it is listed");
        let names: Vec<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!(names, [FILE_NAME]);
    }

    #[test]
    fn the_file_of_a_process_that_was_faster_is_left_alone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(FILE_NAME);
        let slower = |_: File| {
            std::fs::write(&path, b"of another").expect("another makes it");
            Ok(())
        };
        make_file(&path, slower).expect("there is one");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"of another");
        let removed = |_: File| {
            remove_unfinished(dir.path());
            Ok(())
        };
        make_file(&path, removed).expect("there is one");
        assert_eq!(std::fs::read(&path).expect("it is there"), b"of another");
    }

    #[test]
    fn a_directory_that_others_have_rights_to_is_warned_of() {
        for (mode, shown) in [(0o755, "mode is 755;"), (0o750, "mode is 750;")] {
            let warning = rights_warning(mode).expect("others have rights");
            assert!(warning.contains(shown), "{warning}");
        }
        assert_eq!(rights_warning(0o700), None);
    }

    #[test]
    fn new_directories_are_made_durable_up_to_one_that_was_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let nested = dir.path().join("a/b/store");
        prepare(&nested, true).expect("it is made");
        assert!(nested.join(FILE_NAME).exists());
    }
}
