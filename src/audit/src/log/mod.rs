//! The log backend: a line for each event, in a file that rotates or on standard output.

mod file;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use futures_util::future::BoxFuture;
use trireme_actors::Clock;

use crate::{
    event::AuditEvent,
    sink::{AuditBackend, BackendError},
};
use file::RotatingFile;

/// The form of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditLogFormat {
    /// Some fields for people.
    Legacy,
    /// An object of the API.
    Json,
}

/// `--audit-log-…`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// The file; `-` is standard output.
    pub path: PathBuf,
    /// The form of a line.
    pub format: AuditLogFormat,
    /// The file is rotated before it is larger than so many MiB.
    pub max_size_mib: u64,
    /// Rotated files are kept up to this number; 0 for all.
    pub max_backups: usize,
    /// Rotated files are kept for so many days; 0 for ever.
    pub max_age_days: u64,
    /// True if rotated files are compressed.
    pub compress: bool,
}

/// The reason that there can be no log.
#[derive(Debug, thiserror::Error)]
#[error("the audit log {path} cannot be written")]
pub struct LogError {
    path: PathBuf,
    source: io::Error,
}

/// Writes events into a log.
pub struct LogBackend {
    format: AuditLogFormat,
    out: Arc<Mutex<Output>>,
}

enum Output {
    Standard,
    File(RotatingFile),
}

impl LogBackend {
    /// Opens the log; a file that is there is continued.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn open(settings: &LogSettings, clock: Clock) -> Result<Self, LogError> {
        let out = if settings.path.as_os_str() == "-" {
            Output::Standard
        } else {
            let file = RotatingFile::open(settings, clock).map_err(|source| LogError {
                path: settings.path.clone(),
                source,
            })?;
            Output::File(file)
        };
        Ok(Self {
            format: settings.format,
            out: Arc::new(Mutex::new(out)),
        })
    }
}

impl AuditBackend for LogBackend {
    fn plugin(&self) -> &'static str {
        "log"
    }

    fn write(&self, events: Vec<Arc<AuditEvent>>) -> BoxFuture<'static, Result<(), BackendError>> {
        let (format, out) = (self.format, Arc::clone(&self.out));
        // The actor has a thread of its own, so that nobody else waits for the disk. That another thread wrote, and woke this
        // one, was a third of the thread switches of a server under load.
        Box::pin(async move {
            let mut lines = AuditLines::default();
            events.iter().for_each(|event| lines.push(format, event));
            let written = out.lock().unwrap_or_else(PoisonError::into_inner).write(&lines);
            written.map_err(|error| BackendError(error.to_string()))
        })
    }
}

/// Lines that are written together.
#[derive(Default)]
struct AuditLines {
    text: Vec<u8>,
    /// The end of each line.
    ends: Vec<usize>,
}

impl AuditLines {
    fn push(&mut self, format: AuditLogFormat, event: &AuditEvent) {
        match format {
            AuditLogFormat::Legacy => self.text.extend_from_slice(event.legacy_line().as_bytes()),
            AuditLogFormat::Json => event.write_json(&mut self.text),
        }
        self.text.push(b'\n');
        self.ends.push(self.text.len());
    }
}

impl Output {
    fn write(&mut self, lines: &AuditLines) -> io::Result<()> {
        match self {
            Self::Standard => io::stdout().lock().write_all(&lines.text),
            Self::File(file) => file.write(lines),
        }
    }
}
