//! A history as files.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Mutex,
};

use serde::{Serialize, de::DeserializeOwned};

use super::{
    AccessRecord, AuditRecord, CacheRecord, FaultRecord, History, Op, Run, SampleRecord, TruthRecord, WatchRecord,
};

const RUN: &str = "run.json";
const OPS: &str = "ops.jsonl";
const WATCHES: &str = "watches.jsonl";
const CACHES: &str = "caches.jsonl";
const TRUTH: &str = "truth.jsonl";
const FAULTS: &str = "faults.jsonl";
const SAMPLES: &str = "samples.jsonl";
const ACCESS: &str = "access.jsonl";
const AUDIT: &str = "audit.jsonl";

/// The reason that a history could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file operation failed.
    #[error("cannot use {}", .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// A line is not a record.
    #[error("line {line} of {} is not understood", .path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// The error.
        source: serde_json::Error,
    },
}

/// Writes a history as it happens; shared by all who record.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    ops: HistoryFile,
    watches: HistoryFile,
    caches: HistoryFile,
    truth: HistoryFile,
    faults: HistoryFile,
    samples: HistoryFile,
    access: HistoryFile,
    audit: HistoryFile,
}

impl Recorder {
    /// Makes the directory and empty files in it.
    ///
    /// # Errors
    /// [`HistoryError::Io`].
    pub fn create(dir: &Path) -> Result<Self, HistoryError> {
        std::fs::create_dir_all(dir).map_err(|error| HistoryError::Io(dir.to_owned(), error))?;
        let lines = |name: &str| HistoryFile::create(dir.join(name));
        Ok(Self {
            dir: dir.to_owned(),
            ops: lines(OPS)?,
            watches: lines(WATCHES)?,
            caches: lines(CACHES)?,
            truth: lines(TRUTH)?,
            faults: lines(FAULTS)?,
            samples: lines(SAMPLES)?,
            access: lines(ACCESS)?,
            audit: lines(AUDIT)?,
        })
    }

    /// Writes what the run is; again at its end, when more is known.
    ///
    /// # Errors
    /// [`HistoryError::Io`].
    pub fn run(&self, run: &Run) -> Result<(), HistoryError> {
        let path = self.dir.join(RUN);
        let text = serde_json::to_vec_pretty(run).map_err(io::Error::other);
        let written = text.and_then(|text| std::fs::write(&path, text));
        written.map_err(|error| HistoryError::Io(path, error))
    }

    /// Records a request.
    pub fn op(&self, op: &Op) {
        self.ops.append(op);
    }

    /// Records a part of a watch stream.
    pub fn watch(&self, record: &WatchRecord) {
        self.watches.append(record);
    }

    /// Records a cache's content.
    pub fn cache(&self, record: &CacheRecord) {
        self.caches.append(record);
    }

    /// Records what etcd did.
    pub fn truth(&self, record: &TruthRecord) {
        self.truth.append(record);
    }

    /// Records a fault.
    pub fn fault(&self, record: &FaultRecord) {
        self.faults.append(record);
    }

    /// Records a sample.
    pub fn sample(&self, record: &SampleRecord) {
        self.samples.append(record);
    }

    /// Records a request of a user whose permissions are known.
    pub fn access(&self, record: &AccessRecord) {
        self.access.append(record);
    }

    /// Records an event of an audit log.
    pub fn audit(&self, record: &AuditRecord) {
        self.audit.append(record);
    }

    /// Writes out what is still held back.
    ///
    /// # Errors
    /// [`HistoryError::Io`] with the first failure of any record since the beginning: such a history is not whole.
    pub fn finish(self) -> Result<(), HistoryError> {
        let all = [
            self.ops,
            self.watches,
            self.caches,
            self.truth,
            self.faults,
            self.samples,
            self.access,
            self.audit,
        ];
        all.into_iter().try_for_each(HistoryFile::finish)
    }
}

/// One JSONL file. A failure is kept and reported at the end, so that recording does not disturb what is recorded.
#[derive(Debug)]
struct HistoryFile {
    path: PathBuf,
    file: Mutex<(BufWriter<File>, io::Result<()>)>,
}

impl HistoryFile {
    fn create(path: PathBuf) -> Result<Self, HistoryError> {
        match File::create(&path) {
            Ok(file) => Ok(Self {
                path,
                file: Mutex::new((BufWriter::new(file), Ok(()))),
            }),
            Err(error) => Err(HistoryError::Io(path, error)),
        }
    }

    fn append(&self, record: &impl Serialize) {
        let line = serde_json::to_vec(record).map_err(io::Error::other);
        // A writer that panicked has left whole lines: the lock is held for one write only.
        let mut file = self.file.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (writer, outcome) = &mut *file;
        if outcome.is_ok() {
            *outcome = line.and_then(|mut line| {
                line.push(b'\n');
                writer.write_all(&line)
            });
        }
    }

    fn finish(self) -> Result<(), HistoryError> {
        let (mut writer, outcome) = self.file.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        let outcome = outcome.and_then(|()| writer.flush());
        outcome.map_err(|error| HistoryError::Io(self.path, error))
    }
}

impl History {
    /// Reads a directory that a [`Recorder`] wrote. The last line of a file may be cut off: its writer was killed.
    ///
    /// # Errors
    /// [`HistoryError`], also if a file is missing.
    pub fn read(dir: &Path) -> Result<Self, HistoryError> {
        let path = dir.join(RUN);
        let text = std::fs::read(&path).map_err(|error| HistoryError::Io(path.clone(), error))?;
        let run = serde_json::from_slice(&text).map_err(|source| HistoryError::Line { path, line: 1, source })?;
        Ok(Self {
            run,
            ops: read_lines(dir.join(OPS))?,
            watches: read_lines(dir.join(WATCHES))?,
            caches: read_lines(dir.join(CACHES))?,
            truth: read_lines(dir.join(TRUTH))?,
            faults: read_lines(dir.join(FAULTS))?,
            samples: read_lines(dir.join(SAMPLES))?,
            access: read_lines(dir.join(ACCESS))?,
            audit: read_lines(dir.join(AUDIT))?,
        })
    }

    /// Writes all of it into a directory.
    ///
    /// # Errors
    /// [`HistoryError::Io`].
    pub fn write(&self, dir: &Path) -> Result<(), HistoryError> {
        let recorder = Recorder::create(dir)?;
        recorder.run(&self.run)?;
        self.ops.iter().for_each(|record| recorder.op(record));
        self.watches.iter().for_each(|record| recorder.watch(record));
        self.caches.iter().for_each(|record| recorder.cache(record));
        self.truth.iter().for_each(|record| recorder.truth(record));
        self.faults.iter().for_each(|record| recorder.fault(record));
        self.samples.iter().for_each(|record| recorder.sample(record));
        self.access.iter().for_each(|record| recorder.access(record));
        self.audit.iter().for_each(|record| recorder.audit(record));
        recorder.finish()
    }
}

fn read_lines<T: DeserializeOwned>(path: PathBuf) -> Result<Vec<T>, HistoryError> {
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => return Err(HistoryError::Io(path, error)),
    };
    let whole = text.rfind('\n').map_or("", |end| text.split_at(end).0);
    let records = whole.lines().enumerate().map(|(index, line)| {
        serde_json::from_str(line).map_err(|source| HistoryError::Line {
            path: path.clone(),
            line: index + 1,
            source,
        })
    });
    records.collect()
}
