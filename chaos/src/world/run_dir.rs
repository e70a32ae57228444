//! The directory of a world.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::WorldError;

/// The run directory: data, certificates, logs. A temporary one goes when this is dropped.
#[derive(Debug)]
pub(super) struct RunDir {
    dir: PathBuf,
    temporary: TempDir,
}

impl RunDir {
    /// Takes `wanted`, which must be empty or absent, or a temporary one, and makes the directory of logs in it.
    pub(super) fn make(wanted: Option<&Path>) -> Result<Self, WorldError> {
        if let Some(Ok(mut entries)) = wanted.map(fs::read_dir)
            && entries.next().is_some()
        {
            let why = "the run directory has files of an earlier run: name another, or empty it";
            return Err(WorldError::Unsupported(why.to_owned()));
        }
        let temporary = TempDir::with_prefix("trireme-chaos-").map_err(WorldError::io("make a directory"))?;
        let dir = wanted.unwrap_or_else(|| temporary.path());
        let logs = dir.join("logs");
        fs::create_dir_all(&logs).map_err(WorldError::io(format!("make {}", logs.display())))?;
        // Relative paths would mean something else to a program that changes its directory.
        let dir = fs::canonicalize(dir).map_err(WorldError::io("find the run directory"))?;
        Ok(Self { dir, temporary })
    }

    /// The path of the directory.
    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// The logs of all parts.
    pub(super) fn logs(&self) -> PathBuf {
        self.dir.join("logs")
    }

    /// A short path, for sockets, whose names have a limit.
    pub(super) fn short(&self) -> &Path {
        self.temporary.path()
    }

    /// Writes a file into it.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf, WorldError> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(WorldError::io(format!("write {}", path.display())))?;
        Ok(path)
    }
}
