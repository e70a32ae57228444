//! Files that are either as they were or wholly new, and readable by their owner alone where it matters.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Mode of keys and of what carries one.
pub(super) const PRIVATE: u32 = 0o600;
/// Mode of a key whose reader is another user than its owner and shares a group with it.
pub(super) const GROUP: u32 = 0o640;
/// Mode of certificates and public keys.
pub(super) const PUBLIC: u32 = 0o644;

/// A file could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}")]
pub(crate) struct PkiFileError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> PkiFileError + 'a {
    move |source| PkiFileError {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Makes a directory for its owner alone. One that is there keeps its mode: it may be shared on purpose.
pub(super) fn make_private_dir(path: &Path) -> Result<(), PkiFileError> {
    make_dir(path, 0o700)
}

/// Makes a directory that all may look into. One that is there keeps its mode.
pub(super) fn make_public_dir(path: &Path) -> Result<(), PkiFileError> {
    make_dir(path, 0o755)
}

fn make_dir(path: &Path, mode: u32) -> Result<(), PkiFileError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(failed("make directory", path))
}

/// The text of a file.
pub(super) fn read(path: &Path) -> Result<String, PkiFileError> {
    fs::read_to_string(path).map_err(failed("read", path))
}

/// The text of a file, `None` if there is none.
pub(super) fn read_opt(path: &Path) -> Result<Option<String>, PkiFileError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Replaces a file: a crash leaves the old or the new one, never a part.
pub(super) fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), PkiFileError> {
    replace(path, content, mode).map_err(failed("write", path))
}

/// Replaces a file unless it already has this content; its mode is set right in both cases.
pub(super) fn write_if_different(path: &Path, content: &[u8], mode: u32) -> Result<(), PkiFileError> {
    match read_opt(path)? {
        Some(old) if old.as_bytes() == content => {
            fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed("set the mode of", path))
        }
        _ => write(path, content, mode),
    }
}

fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let scratch = path.with_file_name(name);
    // A leftover of a crash may have any mode; a new file gets the right one before it has content.
    match fs::remove_file(&scratch) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&scratch)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&scratch, path)?;
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
