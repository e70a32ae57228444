//! A file that is put aside when it is full, under the names that lumberjack gives: `audit.log` becomes
//! `audit-2026-11-22T22-37-09.160.log`, with `.gz` behind it once it is compressed.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    mem,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use flate2::{Compression, write::GzEncoder};
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use trireme_actors::Clock;

use super::{AuditLines, LogSettings};

const MIB: u64 = 1024 * 1024;
/// The default of lumberjack.
const DEFAULT_MIB: u64 = 100;
/// The time in a rotated file's name.
const STAMP: &str = "%Y-%m-%dT%H-%M-%S.%3f";
const COMPRESSED: &str = ".gz";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The file that is written to.
pub(super) struct RotatingFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    max_bytes: u64,
    keep: Keep,
    /// True until old files were tidied up for the first time.
    is_untidy: bool,
    /// Held while old files are tidied up, so that none is compressed twice.
    tidying: Arc<Mutex<()>>,
    clock: Clock,
}

/// The retention of rotated files.
#[derive(Clone)]
struct Keep {
    max_backups: usize,
    max_age: Option<Duration>,
    compress: bool,
}

impl RotatingFile {
    /// Opens the file, which is made if there is none, in a folder that is made if there is none. Only the owner may read it.
    pub(super) fn open(settings: &LogSettings, clock: Clock) -> io::Result<Self> {
        let path = settings.path.clone();
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        let file = append_to(&path)?;
        let max_mib = match settings.max_size_mib {
            0 => DEFAULT_MIB,
            mib => mib,
        };
        Ok(Self {
            bytes: file.metadata()?.len(),
            file,
            path,
            max_bytes: max_mib.saturating_mul(MIB),
            keep: Keep {
                max_backups: settings.max_backups,
                max_age: (settings.max_age_days > 0)
                    .then(|| DAY.saturating_mul(u32::try_from(settings.max_age_days).unwrap_or(u32::MAX))),
                compress: settings.compress,
            },
            is_untidy: true,
            tidying: Arc::default(),
            clock,
        })
    }

    /// Appends lines with one write for as many as the file has room for; a fresh file begins with a whole line. Old files are
    /// tidied up when the first lines are written, and at each rotation.
    pub(super) fn write(&mut self, lines: &AuditLines) -> io::Result<()> {
        if mem::take(&mut self.is_untidy) {
            self.tidy_up(self.clock.wall());
        }
        let mut begin = 0;
        let mut end = 0;
        for line_end in lines.ends.iter().copied() {
            let bytes = self.bytes.saturating_add(length(line_end - begin));
            if bytes > self.max_bytes && self.bytes.saturating_add(length(end - begin)) > 0 {
                self.append(&lines.text[begin..end])?;
                self.rotate()?;
                begin = end;
            }
            end = line_end;
        }
        self.append(&lines.text[begin..end])
    }

    fn append(&mut self, text: &[u8]) -> io::Result<()> {
        self.file.write_all(text)?;
        self.bytes = self.bytes.saturating_add(length(text.len()));
        Ok(())
    }

    fn rotate(&mut self) -> io::Result<()> {
        let now = self.clock.wall();
        fs::rename(&self.path, backup_name(&self.path, now))?;
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        self.tidy_up(now);
        Ok(())
    }

    fn tidy_up(&self, now: SystemTime) {
        let (path, keep, tidying) = (self.path.clone(), self.keep.clone(), Arc::clone(&self.tidying));
        // Compressing takes seconds, and the requests of this moment wait for their lines.
        drop(tokio::task::spawn_blocking(move || {
            let _turn = tidying.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = tidy(&path, &keep, now) {
                tracing::warn!(%error, path = %path.display(), "old audit logs could not be tidied up");
            }
        }));
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// The parts of the name before and after the time.
fn around_time(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| extension.to_string_lossy());
    let extension = extension.map_or_else(String::new, |extension| format!(".{extension}"));
    (format!("{stem}-"), extension)
}

fn backup_name(path: &Path, now: SystemTime) -> PathBuf {
    let (before, after) = around_time(path);
    let now = Timestamp::try_from(now).unwrap_or(Timestamp::UNIX_EPOCH);
    path.with_file_name(format!("{before}{}{after}", now.strftime(STAMP)))
}

/// The moment at which a file was rotated, by its name.
fn rotated_at(path: &Path, name: &str) -> Option<Timestamp> {
    let (before, after) = around_time(path);
    let name = name.strip_suffix(COMPRESSED).unwrap_or(name);
    let stamp = name.strip_prefix(&before)?.strip_suffix(&after)?;
    let (seconds, millis) = stamp.split_once('.')?;
    let at = DateTime::strptime("%Y-%m-%dT%H-%M-%S", seconds).ok()?;
    let millis: i64 = millis.parse().ok()?;
    let at = at.to_zoned(TimeZone::UTC).ok()?.timestamp();
    at.checked_add(jiff::SignedDuration::from_millis(millis)).ok()
}

/// Deletes what is too much or too old, and compresses the rest.
fn tidy(path: &Path, keep: &Keep, now: SystemTime) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut rotated: Vec<(Timestamp, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if let Some(at) = rotated_at(path, &entry.file_name().to_string_lossy()) {
            rotated.push((at, entry.path()));
        }
    }
    rotated.sort_by(|one, other| other.cmp(one));
    let oldest = keep.max_age.and_then(|age| now.checked_sub(age));
    let oldest = oldest.and_then(|oldest| Timestamp::try_from(oldest).ok());
    for (index, (at, file)) in rotated.iter().enumerate() {
        let is_too_much = keep.max_backups > 0 && index >= keep.max_backups;
        if is_too_much || oldest.is_some_and(|oldest| *at < oldest) {
            fs::remove_file(file)?;
        } else if keep.compress && !file.to_string_lossy().ends_with(COMPRESSED) {
            compress(file)?;
        }
    }
    Ok(())
}

/// The compressed file has its name once it is whole.
fn compress(file: &Path) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(COMPRESSED);
    let mut partial = name.clone();
    partial.push(".partial");
    let out = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&partial)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    io::copy(&mut File::open(file)?, &mut encoder)?;
    encoder.finish()?.sync_all()?;
    fs::rename(&partial, &name)?;
    fs::remove_file(file)
}

#[cfg(test)]
mod tests {
    use std::{io::Read as _, os::unix::fs::PermissionsExt as _};

    use flate2::read::GzDecoder;
    use tempfile::TempDir;
    use trireme_actors::ManualClock;

    use super::*;
    use crate::log::AuditLogFormat;

    fn settings(folder: &TempDir) -> LogSettings {
        LogSettings {
            path: folder.path().join("new/audit.log"),
            format: AuditLogFormat::Json,
            max_size_mib: 1,
            max_backups: 0,
            max_age_days: 0,
            compress: false,
        }
    }

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.path().join("new")).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| {
                entry
                    .expect("it can be read")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        names
    }

    fn lines(texts: &[&[u8]]) -> AuditLines {
        let mut lines = AuditLines::default();
        for text in texts {
            lines.text.extend_from_slice(text);
            lines.ends.push(lines.text.len());
        }
        lines
    }

    fn keep(max_backups: usize, max_age: Option<Duration>, compress: bool) -> Keep {
        Keep {
            max_backups,
            max_age,
            compress,
        }
    }

    #[tokio::test]
    async fn a_full_file_is_put_aside_under_the_time_and_a_fresh_one_begun() {
        let folder = TempDir::new().expect("a folder");
        let clock = ManualClock::new();
        clock.set_wall(SystemTime::UNIX_EPOCH + Duration::from_millis(1_795_387_029_160));
        let mut file = RotatingFile::open(&settings(&folder), clock.into()).expect("it opens");
        let line = [b'x'; 700_000];
        file.write(&lines(&[&line])).expect("it is written");
        assert_eq!(names(&folder), ["audit.log"]);
        file.write(&lines(&[&line])).expect("it is written");
        assert_eq!(names(&folder), ["audit-2026-11-22T22-37-09.160.log", "audit.log"]);
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(&folder.path().join("new/audit.log")), 0o600);
        assert_eq!(mode(&folder.path().join("new")), 0o700);
    }

    #[tokio::test]
    async fn lines_that_come_together_are_divided_where_the_file_is_full() {
        let folder = TempDir::new().expect("a folder");
        let clock = ManualClock::new();
        clock.set_wall(SystemTime::UNIX_EPOCH + DAY);
        let mut file = RotatingFile::open(&settings(&folder), clock.into()).expect("it opens");
        let large = |byte| vec![byte; 400_000];
        let (first, second, third) = (large(b'1'), large(b'2'), large(b'3'));
        file.write(&lines(&[&first, &second, &third, b"4"]))
            .expect("it is written");
        let read = |name: &str| fs::read(folder.path().join("new").join(name)).expect("it is there");
        assert!(read("audit-1970-01-02T00-00-00.000.log") == [first, second].concat());
        assert!(read("audit.log") == [third, b"4".to_vec()].concat());
    }

    #[tokio::test]
    async fn a_line_larger_than_a_file_has_one_of_its_own() {
        let folder = TempDir::new().expect("a folder");
        let clock = ManualClock::new();
        clock.set_wall(SystemTime::UNIX_EPOCH + DAY);
        let mut file = RotatingFile::open(&settings(&folder), clock.into()).expect("it opens");
        let huge = vec![b'x'; 2_000_000];
        file.write(&lines(&[&huge, b"after"])).expect("it is written");
        assert_eq!(names(&folder), ["audit-1970-01-02T00-00-00.000.log", "audit.log"]);
        assert_eq!(
            fs::read(folder.path().join("new/audit.log")).expect("it is there"),
            b"after"
        );
    }

    #[tokio::test]
    async fn a_file_that_is_there_is_continued() {
        let folder = TempDir::new().expect("a folder");
        for _ in 0..2 {
            let mut file = RotatingFile::open(&settings(&folder), ManualClock::new().into()).expect("it opens");
            file.write(&lines(&[b"line\n"])).expect("it is written");
        }
        let text = fs::read_to_string(folder.path().join("new/audit.log")).expect("it is there");
        assert_eq!(text, "line\nline\n");
    }

    #[tokio::test]
    async fn old_files_are_tidied_up_when_a_server_writes_first() {
        let folder = TempDir::new().expect("a folder");
        let mut settings = settings(&folder);
        settings.max_age_days = 2;
        settings.compress = true;
        fs::create_dir(folder.path().join("new")).expect("it is made");
        let now = SystemTime::UNIX_EPOCH + DAY * 100;
        for age in [1, 3] {
            fs::write(backup_name(&settings.path, now - DAY * age), "old").expect("it is written");
        }
        let clock = ManualClock::new();
        clock.set_wall(now);
        let mut file = RotatingFile::open(&settings, clock.into()).expect("it opens");
        file.write(&lines(&[b"line\n"])).expect("it is written");
        let tidied = ["audit-1970-04-10T00-00-00.000.log.gz", "audit.log"];
        while names(&folder) != tidied {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn old_files_go_and_the_others_are_compressed() {
        let folder = TempDir::new().expect("a folder");
        let path = settings(&folder).path;
        fs::create_dir(folder.path().join("new")).expect("it is made");
        let now = SystemTime::UNIX_EPOCH + DAY * 100;
        for age in 1..=4 {
            fs::write(backup_name(&path, now - DAY * age), "old").expect("it is written");
        }
        fs::write(&path, "new").expect("it is written");
        fs::write(path.with_file_name("audit-notes.log"), "mine").expect("it is written");
        tidy(&path, &keep(3, None, false), now).expect("it is tidied");
        assert_eq!(names(&folder).len(), 5);
        tidy(&path, &keep(3, Some(DAY * 2), true), now).expect("it is tidied");
        assert_eq!(
            names(&folder),
            [
                "audit-1970-04-09T00-00-00.000.log.gz",
                "audit-1970-04-10T00-00-00.000.log.gz",
                "audit-notes.log",
                "audit.log"
            ]
        );
        let mut text = String::new();
        let compressed = File::open(path.with_file_name("audit-1970-04-10T00-00-00.000.log.gz")).expect("it opens");
        GzDecoder::new(compressed)
            .read_to_string(&mut text)
            .expect("it is gzip");
        assert_eq!(text, "old");
    }
}
