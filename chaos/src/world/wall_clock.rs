//! The wall clocks of replicas, which can be set while they run.
//!
//! libfaketime is loaded before the C library and answers in its place what time it is, as a file says that it reads again
//! about once a second. Only the wall clock: the monotonic one, by which everything waits and leases count, stays true.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{ClientRoute, World, WorldError};

/// The library for programs of many threads: the other one reads the file in several at once, and ends the program if
/// that garbles what it reads.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
/// The paths where the library keeps what a program shares with its children, and leaves it if the program is killed.
const SHARED: [&str; 2] = ["/dev/shm/faketime_shm_", "/dev/shm/sem.faketime_sem_"];
const PATIENCE: Duration = Duration::from_secs(2);
/// A creation time has no fractions: on average so much of a second was cut off.
const CUT_OFF: SignedDuration = SignedDuration::from_millis(500);

/// The time of a wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WallClock {
    /// The current time.
    True,
    /// So many seconds more; fewer, if negative.
    Off(i64),
    /// The present when it is set, and from there on twice the time that passes.
    Fast,
}

impl WallClock {
    /// As libfaketime reads it. A rate stays until another one is set, so each line has one.
    fn line(self, now: Timestamp) -> String {
        match self {
            Self::True => "+0 x1\n".to_owned(),
            Self::Off(seconds) => format!("{seconds:+} x1\n"),
            Self::Fast => format!("@{} x2\n", now.strftime("%Y-%m-%d %H:%M:%S")),
        }
    }
}

/// The wall clocks of all replicas of a world.
#[derive(Debug)]
pub(super) struct WallClocks {
    library: PathBuf,
    dir: PathBuf,
    /// Those that have loaded the library.
    processes: Mutex<BTreeSet<u32>>,
}

impl WallClocks {
    /// Clocks that are true, kept in a directory of their own.
    pub(super) fn make(dir: PathBuf, replicas: usize) -> Result<Self, WorldError> {
        fs::create_dir_all(&dir).map_err(WorldError::io("make the directory of clocks"))?;
        let clocks = Self {
            library: library()?,
            dir,
            processes: Mutex::default(),
        };
        for replica in 0..replicas {
            clocks.set(replica, WallClock::True)?;
        }
        Ok(clocks)
    }

    /// The environment of a replica.
    pub(super) fn environment(&self, replica: usize) -> Vec<(&'static str, OsString)> {
        vec![
            ("LD_PRELOAD", self.library.clone().into()),
            ("FAKETIME_TIMESTAMP_FILE", self.file(replica).into()),
            // Seconds, of which it waits for one more.
            ("FAKETIME_CACHE_DURATION", "0".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
            // The times of files are none of its business.
            ("NO_FAKE_STAT", "1".into()),
            // It takes what it reads for local time.
            ("TZ", "UTC".into()),
        ]
    }

    fn file(&self, replica: usize) -> PathBuf {
        self.dir.join(format!("replica-{replica}"))
    }

    fn set(&self, replica: usize, clock: WallClock) -> Result<(), WorldError> {
        let (file, new) = (self.file(replica), self.dir.join("new"));
        let doing = || WorldError::io(format!("write {}", file.display()));
        fs::write(&new, clock.line(Timestamp::now())).map_err(doing())?;
        // Never half of it.
        fs::rename(&new, &file).map_err(doing())
    }

    /// A replica was started as this process.
    pub(super) fn runs_as(&self, process: Option<u32>) {
        self.processes().extend(process);
    }

    fn processes(&self) -> MutexGuard<'_, BTreeSet<u32>> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WallClocks {
    fn drop(&mut self) {
        for process in &*self.processes() {
            for shared in SHARED {
                // Who ended in order has taken it away.
                let _ = fs::remove_file(format!("{shared}{process}"));
            }
        }
    }
}

/// Finds the library where Debian has it, or others.
fn library() -> Result<PathBuf, WorldError> {
    let debian = format!("/usr/lib/{ARCH}-linux-gnu");
    let folders = [&debian, "/usr/lib64", "/usr/lib", "/usr/local/lib"];
    let mut found = folders.iter().map(|folder| Path::new(folder).join(LIBRARY));
    found.find(|file| file.is_file()).ok_or(WorldError::Missing {
        program: "libfaketime",
        install: "scripts/install-tools chaos",
    })
}

impl World {
    /// Sets the wall clock of a replica, of one that does not run too. It shows so about a second later.
    ///
    /// # Errors
    /// If the clocks of this world cannot be set: see [`WorldSettings::wall_clocks`](super::WorldSettings::wall_clocks).
    pub fn set_wall_clock(&self, replica: usize, clock: WallClock) -> Result<(), WorldError> {
        match &self.wall_clocks {
            Some(clocks) if replica < self.replicas.len() => clocks.set(replica, clock),
            _ => Err(WorldError::NoSuch(format!(
                "clock of replica-{replica} that can be set"
            ))),
        }
    }

    /// The lead of a replica's wall clock over ours, half a second more or less: by the creation time of an object
    /// that it makes for a dry run.
    ///
    /// # Errors
    /// If it does not answer within two seconds, or not with that.
    pub async fn wall_clock_lead(&self, replica: usize) -> Result<SignedDuration, WorldError> {
        let address = self.replica_address(replica, ClientRoute::Direct)?;
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "what-time-is-it"}});
        let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
        let made = self.probe.send(address, "POST", path, Some(&object), PATIENCE).await;
        let lead = made.and_then(|(code, body)| {
            let created = created_at(&body).ok_or_else(|| format!("{code}: {}", String::from_utf8_lossy(&body)))?;
            Ok(created.duration_since(Timestamp::now()) + CUT_OFF)
        });
        lead.map_err(|why| WorldError::Answer {
            part: super::Part::Replica(replica).to_string(),
            what: "the time",
            why,
        })
    }

    /// All are true.
    pub(super) fn set_wall_clocks_right(&self) -> Result<(), WorldError> {
        let Some(clocks) = &self.wall_clocks else {
            return Ok(());
        };
        (0..self.replicas.len()).try_for_each(|replica| clocks.set(replica, WallClock::True))
    }
}

fn created_at(object: &[u8]) -> Option<Timestamp> {
    let object: Value = serde_json::from_slice(object).ok()?;
    object["metadata"]["creationTimestamp"].as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_says_at_which_rate_the_clock_goes() {
        let now = "2026-11-22T15:04:05.9Z".parse().expect("a time");
        let line = |clock: WallClock| clock.line(now);
        assert_eq!(line(WallClock::True), "+0 x1\n");
        assert_eq!(line(WallClock::Off(3600)), "+3600 x1\n");
        assert_eq!(line(WallClock::Off(-86_400)), "-86400 x1\n");
        assert_eq!(line(WallClock::Fast), "@2026-11-22 15:04:05 x2\n");
    }

    #[test]
    fn the_time_is_when_an_object_was_created() {
        let object = br#"{"metadata": {"creationTimestamp": "2026-11-22T15:04:05Z"}}"#;
        assert_eq!(
            created_at(object).map(|at| at.to_string()).as_deref(),
            Some("2026-11-22T15:04:05Z")
        );
        assert_eq!(created_at(br#"{"kind": "Status", "metadata": {}}"#), None);
        assert_eq!(created_at(b""), None);
    }
}
