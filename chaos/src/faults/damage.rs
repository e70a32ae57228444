//! Fault 18: a replica finds its Raft directory damaged when it starts.
//!
//! The promise: it refuses to start and says why, or it starts and is right; it never votes on what it cannot trust.
//! Which of the two happened is in the evidence. Healing puts the undamaged files back if the replica refused, as it has
//! then not acted on the damage, and leaves them if it started.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::mount::Mount;
use super::{ActiveFault, Observation, Refusal, skip};
use crate::world::{Part, World, WorldError};

/// The time limit for a damaged replica to refuse or to become ready.
const PATIENCE: Duration = Duration::from_secs(30);
/// In each of so many bytes a bit flips, so that nothing that is in use is spared: a single flip would mostly hit what the
/// store has long given up.
const LINE_BYTES: usize = 64;

/// The damage to the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// Its disk is full.
    Full,
    /// It cannot be written to.
    ReadOnly,
    /// The end of its largest file is cut off, as by a write that was torn.
    TornTail,
    /// Many bits of its largest file are others, all over it.
    BitFlip,
    /// It is gone, as after a new disk: the replica comes back as another one.
    Gone,
}

impl Damage {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Full, Self::ReadOnly, Self::TornTail, Self::BitFlip, Self::Gone];
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "its disk is full",
            Self::ReadOnly => "it is read-only",
            Self::TornTail => "the end of its file is torn off",
            Self::BitFlip => "bits of its file have flipped",
            Self::Gone => "it is gone",
        })
    }
}

#[derive(Debug)]
struct Damaged {
    replica: usize,
    raft: PathBuf,
    /// The damage to the files.
    done: String,
    /// The replica's reaction.
    outcome: DamageOutcome,
    mount: Option<Mount>,
    /// The undamaged files.
    kept: TempDir,
}

/// The reaction of a replica to the damage.
#[derive(Debug, Clone, PartialEq, Eq)]
enum DamageOutcome {
    /// With what it said last.
    Refused(String),
    /// And whether it is the same member of the group.
    Started(bool),
    Neither,
}

pub(super) async fn begin(world: &World, damage: Damage, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let replica = chance.random_range(0..world.replicas().max(1));
    let raft = world.data_dir(replica)?.join("raft");
    if largest_file(&raft).is_err() {
        return skip("the replicas keep no Raft directory");
    }
    let part = Part::Replica(replica);
    let before = identity(world, replica).await;
    world.kill(part).await?;
    let failed = |error| Refusal::Failed(WorldError::Io(format!("damage {}", raft.display()), error));
    let kept = TempDir::with_prefix("trireme-chaos-raft-").map_err(failed)?;
    copy_all(&raft, kept.path()).map_err(failed)?;
    let (done, mount) = match inflict(damage, &raft, kept.path(), chance) {
        Ok(done) => done,
        Err(Inflicting::NotHere(why)) => {
            world.launch(part).await?;
            world.wait_ready(part).await?;
            return skip(why);
        }
        Err(Inflicting::Failed(error)) => return Err(failed(error)),
    };
    let log_before = world.log(part).len();
    world.launch(part).await?;
    let outcome = match outcome(world, part, log_before).await {
        DamageOutcome::Started(_) => DamageOutcome::Started(identity(world, replica).await == before),
        other => other,
    };
    Ok(Box::new(Damaged {
        replica,
        raft,
        done,
        outcome,
        mount,
        kept,
    }))
}

enum Inflicting {
    NotHere(String),
    Failed(io::Error),
}

impl From<io::Error> for Inflicting {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Says what was done.
fn inflict(
    damage: Damage,
    raft: &Path,
    kept: &Path,
    chance: &mut StdRng,
) -> Result<(String, Option<Mount>), Inflicting> {
    Ok(match damage {
        Damage::Full => {
            let mount = Mount::small(raft, bytes_in(kept)?).map_err(Inflicting::NotHere)?;
            put_all(kept, raft)?;
            ("its disk has no page left".to_owned(), Some(mount))
        }
        Damage::ReadOnly => {
            let mount = Mount::read_only(raft).map_err(Inflicting::NotHere)?;
            ("it is mounted read-only".to_owned(), Some(mount))
        }
        Damage::TornTail => {
            let file = largest_file(raft)?;
            let bytes = fs::metadata(&file)?.len();
            let left = bytes - chance.random_range(1..=bytes.div_ceil(4));
            fs::OpenOptions::new().write(true).open(&file)?.set_len(left)?;
            (format!("{left} of {bytes} bytes of {} are left", file.display()), None)
        }
        Damage::BitFlip => {
            let file = largest_file(raft)?;
            let mut bytes = fs::read(&file)?;
            let flipped = bytes
                .chunks_mut(LINE_BYTES)
                .filter_map(|line| flip(line, chance))
                .count();
            fs::write(&file, &bytes)?;
            (format!("{flipped} bits of {} are flipped", file.display()), None)
        }
        Damage::Gone => {
            fs::remove_dir_all(raft)?;
            ("it was removed".to_owned(), None)
        }
    })
}

/// Flips a bit of a byte that carries something, if there is one. Says which byte.
fn flip(line: &mut [u8], chance: &mut StdRng) -> Option<usize> {
    let written: Vec<usize> = (0..line.len()).filter(|at| line.get(*at) != Some(&0)).collect();
    let at = written.choose(chance).copied()?;
    *line.get_mut(at)? ^= 1 << chance.random_range(0..8_u8);
    Some(at)
}

/// The name of a replica in the group, if known.
async fn identity(world: &World, replica: usize) -> Option<String> {
    let facts = world.group_facts(replica).await.ok()?;
    facts["self"].as_str().map(str::to_owned)
}

/// Waits until the replica has refused or is ready.
async fn outcome(world: &World, part: Part, log_before: usize) -> DamageOutcome {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if !world.is_running(part) {
            let log = world.log(part);
            let said = log.get(log_before..).unwrap_or_default().trim();
            return DamageOutcome::Refused(said.lines().last().unwrap_or_default().to_owned());
        }
        if world.is_ready(part).await {
            return DamageOutcome::Started(true);
        }
        sleep(Duration::from_millis(50)).await;
    }
    DamageOutcome::Neither
}

fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
    let entries = entries.collect::<io::Result<Vec<_>>>()?;
    Ok(entries.into_iter().filter(|path| path.is_file()).collect())
}

fn largest_file(dir: &Path) -> io::Result<PathBuf> {
    let files = files(dir)?.into_iter();
    let largest = files.max_by_key(|file| fs::metadata(file).map_or(0, |facts| facts.len()));
    largest.ok_or_else(|| io::ErrorKind::NotFound.into())
}

fn bytes_in(dir: &Path) -> io::Result<u64> {
    files(dir)?.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for file in files(from)? {
        if let Some(name) = file.file_name() {
            fs::copy(&file, to.join(name))?;
        }
    }
    Ok(())
}

/// Copies files to where a replica keeps them, as the owner of its data: in a container that is another user.
fn put_all(from: &Path, raft: &Path) -> io::Result<()> {
    copy_all(from, raft)?;
    let data = fs::metadata(raft.parent().unwrap_or(raft))?;
    for path in files(raft)?.into_iter().chain([raft.to_owned()]) {
        let facts = fs::metadata(&path)?;
        if (facts.uid(), facts.gid()) != (data.uid(), data.gid()) {
            chown(&path, Some(data.uid()), Some(data.gid()))?;
        }
    }
    Ok(())
}

impl Damaged {
    async fn put_back(&mut self, world: &World) -> Result<(), WorldError> {
        let part = Part::Replica(self.replica);
        let io = |error| WorldError::Io(format!("put {} back", self.raft.display()), error);
        let mount = self.mount.take();
        match (&self.outcome, mount) {
            // The files below were never touched.
            (DamageOutcome::Refused(_), Some(mount)) => drop(mount),
            (DamageOutcome::Refused(_), None) => put_all(self.kept.path(), &self.raft).map_err(io)?,
            // What it has written since counts: a vote must not be taken back.
            (_, Some(mount)) => {
                if world.is_running(part) {
                    world.kill(part).await?;
                }
                let newest = TempDir::with_prefix("trireme-chaos-raft-").map_err(io)?;
                copy_all(&self.raft, newest.path()).map_err(io)?;
                drop(mount);
                put_all(newest.path(), &self.raft).map_err(io)?;
            }
            (_, None) => {}
        }
        world.launch(part).await?;
        world.wait_ready(part).await
    }
}

impl ActiveFault for Damaged {
    fn targets(&self) -> Vec<String> {
        vec![Part::Replica(self.replica).to_string()]
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        let made = match &self.outcome {
            DamageOutcome::Refused(said) => format!("it refused to start: {said}"),
            DamageOutcome::Started(true) => "it started all the same".to_owned(),
            DamageOutcome::Started(false) => "it started as another member of the group".to_owned(),
            DamageOutcome::Neither => format!("it neither started nor ended within {PATIENCE:?}"),
        };
        let evidence = format!("{}; {made}", self.done);
        let decided = self.outcome != DamageOutcome::Neither;
        Box::pin(async move { Observation::of(decided, evidence) })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            self.put_back(world).await?;
            Ok(Vec::new())
        })
    }
}
