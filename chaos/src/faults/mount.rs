//! Mounts over a directory, for disks that are full or read-only. They need root on Linux.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A mount that is taken away when this is dropped.
#[derive(Debug)]
pub(super) struct Mount {
    dir: PathBuf,
}

impl Mount {
    /// Makes `dir` read-only, with the files that it has. In words why not, if that is not possible.
    pub(super) fn read_only(dir: &Path) -> Result<Self, String> {
        run("mount", ["--bind".as_ref(), dir.as_os_str(), dir.as_os_str()])?;
        let mount = Self { dir: dir.to_owned() };
        run("mount", ["-o".as_ref(), "remount,ro,bind".as_ref(), dir.as_os_str()])?;
        Ok(mount)
    }

    /// Puts an empty disk of so many bytes over `dir`, for who owns that.
    pub(super) fn small(dir: &Path, bytes: u64) -> Result<Self, String> {
        let facts = std::fs::metadata(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let options = format!("size={bytes},mode=700,uid={},gid={}", facts.uid(), facts.gid());
        run(
            "mount",
            [
                "-t".as_ref(),
                "tmpfs".as_ref(),
                "-o".as_ref(),
                options.as_ref(),
                "tmpfs".as_ref(),
                dir.as_os_str(),
            ],
        )?;
        Ok(Self { dir: dir.to_owned() })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a process that is just ending may still have files open there.
        let _ = run("umount", ["-l".as_ref(), self.dir.as_os_str()]);
    }
}

fn run<'a>(program: &str, args: impl IntoIterator<Item = &'a std::ffi::OsStr>) -> Result<(), String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}
