//! The making of the Raft file, so that neither a kill nor a power cut at any moment of it leaves one that looks damaged.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use redb::DatabaseError;
use redb::backends::FileBackend;

use super::StoreError;
use super::file::open_error;

/// The name of the file in the Raft directory.
const FILE_NAME: &str = "raft.redb";
/// The beginning of the name of a file that is being made.
const UNFINISHED: &str = "raft.redb.new-";

/// Makes the Raft directory and an empty file in it unless they are there. Their names are durable.
pub(super) fn prepare(dir: &Path) -> Result<PathBuf, StoreError> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    std::fs::create_dir_all(dir).map_err(|error| io_error(dir, &error))?;
    let path = dir.join(FILE_NAME);
    if !path.try_exists().map_err(|error| io_error(&path, &error))? {
        remove_unfinished(dir);
        make_file(&path, |file| {
            let backend = FileBackend::new(file)?;
            redb::Builder::new().create_with_backend(backend).map(drop)
        })?;
    }
    for dir in missing.into_iter().filter_map(Path::parent).chain([dir]) {
        sync_directory(dir)?;
    }
    Ok(path)
}

/// Opens a file that is there.
pub(super) fn backend(path: &Path) -> Result<FileBackend, StoreError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| io_error(path, &error))?;
    FileBackend::new(file).map_err(|error| open_error(path, error))
}

/// Makes an empty file, under another name first: one whose making was cut short cannot be distinguished from a damaged one.
fn make_file(path: &Path, make: impl FnOnce(File) -> Result<(), DatabaseError>) -> Result<(), StoreError> {
    let new = path.with_file_name(format!("{UNFINISHED}{:08x}", rand::random::<u32>()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(&new);
    let file = file.map_err(|error| io_error(path, &error))?;
    make(file).map_err(|error| open_error(path, error))?;
    // Unlike a rename a link leaves the file of a process alone that was faster.
    match std::fs::hard_link(&new, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => std::fs::rename(&new, path),
        _ => std::fs::remove_file(&new),
    }
    .map_err(|error| io_error(path, &error))
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

fn sync_directory(dir: &Path) -> Result<(), StoreError> {
    let dir = if dir.as_os_str().is_empty() {
        Path::new(".")
    } else {
        dir
    };
    let synced = File::open(dir).and_then(|opened| opened.sync_all());
    synced.map_err(|error| io_error(dir, &error))
}

fn io_error(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Io {
        path: path.display().to_string(),
        why: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::RaftFile;
    use super::*;

    #[test]
    fn a_file_whose_making_was_cut_short_is_made_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let nested = dir.path().join("a/raft");
        std::fs::create_dir_all(&nested).expect("it is made");
        let cut_short = |mut file: File| {
            file.write_all(&[0; 4096]).expect("it is written");
            Err(DatabaseError::Storage(io::Error::other("killed").into()))
        };
        let path = nested.join(FILE_NAME);
        make_file(&path, cut_short).expect_err("it is cut short");
        assert!(!path.exists(), "there is no file that could be taken for a damaged one");
        RaftFile::open(&nested).expect("a replica starts");
        let names = std::fs::read_dir(&nested).expect("it is listed");
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
    }

    #[test]
    fn missing_directories_are_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let nested = dir.path().join("a/b/raft");
        assert_eq!(prepare(&nested).expect("it is made"), nested.join(FILE_NAME));
        assert!(nested.join(FILE_NAME).exists());
    }
}
