//! The replicas' own logs.

use std::{fs, io};

use crate::history::LogFindings;
use crate::world::World;

/// Reads what the replicas have logged over all their lives.
///
/// # Errors
/// In words, if a log cannot be read.
pub fn read_logs(world: &World) -> Result<LogFindings, String> {
    let mut findings = LogFindings::default();
    let mut read = || -> io::Result<()> {
        for file in fs::read_dir(world.dir().join("logs"))? {
            let file = file?;
            let name = file.file_name().to_string_lossy().into_owned();
            if name.starts_with("replica-") {
                findings.add(&name, &String::from_utf8_lossy(&fs::read(file.path())?));
            }
        }
        Ok(())
    };
    read().map_err(|error| format!("read the logs: {error}"))?;
    Ok(findings)
}
