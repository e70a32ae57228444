//! One run of one experiment: a world, load, one fault, and the history of it all.
//!
//! ```text
//!   start ─ load ─── warm ── fault ──── heal ──── tail ── settle ─ final writes and reads ─ caches ─ stop
//!                   │≥ 5 s │ at a seeded moment │ ≥ 10 s │
//!                            └─ rest ── the next fault, if there are more
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use tokio::sync::watch;
use tokio::time::sleep;

use super::experiments::Experiment;
use crate::faults::{Active, Fault, InstallVerdict, WrongClock};
use crate::history::{FaultRecord, FaultResult, PromisedLimits, Recorder, Run};
use crate::traffic::{
    Addresses, Desk, INTERNAL, Phase, Traffic, read_logs, record_audit, record_caches, record_the_end,
};
use crate::truth::Truth;
use crate::world::{World, WorldSettings};

/// Steady load before anything happens.
const WARM_UP: Duration = Duration::from_secs(5);
/// The fault comes at any moment in this time after it.
const MOMENT_MS: std::ops::Range<u64> = 0..1_000;
/// Between the heal of one fault and the next: longer than the time after which all must be well, so that each is judged
/// for itself.
const REST: Duration = Duration::from_secs(6);
/// Load after the last heal.
const TAIL: Duration = Duration::from_secs(10);
/// The time limit for streams to bring the last writes.
const SETTLE: Duration = Duration::from_secs(2);
/// Between two looks whether a fault bites.
const LOOK: Duration = Duration::from_millis(200);
/// The least memory budget of a replica: what a debug build under this load stays below by far.
const RSS_BUDGET_BYTES: u64 = 1 << 30;

/// The context of a run.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) server: PathBuf,
    pub(super) target: crate::world::WorldTarget,
    /// True if the replicas form a group.
    pub(super) group: bool,
    pub(super) commit: String,
}

/// Runs an experiment and leaves its history in `dir`.
///
/// # Errors
/// In words, if it could not be done; that says nothing about the server.
pub(super) async fn run(setup: &Setup, experiment: &Experiment, seed: u64, dir: &Path) -> Result<(), String> {
    let world = Arc::new(world(setup, experiment, seed).await?);
    let recorder = Recorder::create(dir).map_err(|error| error.to_string())?;
    let recorder = Arc::new(recorder);
    let (phase, heard) = watch::channel(Phase::Load);
    let desk = Desk::new(recorder.clone(), heard);
    let mut about = about(setup, experiment, seed);
    let outcome = under_load(&world, &desk, &phase, experiment, &mut about).await;
    about.ended = about.ended.max(about.warm);
    let logged = read_logs(&world);
    about.logs = logged.as_ref().ok().cloned();
    recorder.run(&about).map_err(|error| error.to_string())?;
    let logs = keep_logs(&world, dir);
    drop(desk);
    drop(world);
    let recorder = Arc::into_inner(recorder).ok_or("a task still records")?;
    recorder.finish().map_err(|error| error.to_string())?;
    outcome.and(logs).and(logged.map(drop))
}

/// The world that every experiment starts from.
pub(super) fn settings(setup: &Setup) -> WorldSettings {
    let mut settings = WorldSettings::new(&setup.server);
    settings.target = setup.target;
    settings.group = setup.group;
    settings
}

async fn world(setup: &Setup, experiment: &Experiment, seed: u64) -> Result<World, String> {
    let mut settings = settings(setup);
    settings.seed = seed;
    experiment.faults.iter().for_each(|fault| fault.prepare(&mut settings));
    World::start(settings).await.map_err(|error| chain(&error))
}

fn about(setup: &Setup, experiment: &Experiment, seed: u64) -> Run {
    Run {
        experiment: experiment.name.to_owned(),
        seed,
        commit: setup.commit.clone(),
        world: setup.target.to_string(),
        left_out: experiment.left_out.clone(),
        internal: INTERNAL.iter().map(ToString::to_string).collect(),
        limits: PromisedLimits {
            rss_budget: RSS_BUDGET_BYTES,
            ..PromisedLimits::default()
        },
        ..Run::default()
    }
}

async fn under_load(
    world: &Arc<World>,
    desk: &Desk,
    phase: &watch::Sender<Phase>,
    experiment: &Experiment,
    about: &mut Run,
) -> Result<(), String> {
    let seed = about.seed;
    let mut chance = StdRng::seed_from_u64(seed);
    let addresses = Addresses::of(world)?;
    about.replicas = addresses.replica_names();
    let truth = Truth::begin(desk, &world.etcd_addresses());
    Traffic::prepare(desk, &addresses).await?;
    let mut traffic = Traffic::start(desk, world, &addresses, experiment.pace, seed);
    about.warm = desk.now();
    sleep(WARM_UP + Duration::from_millis(chance.random_range(MOMENT_MS))).await;
    let harmed = harm_in_turn(world, desk, experiment, &addresses, &mut chance).await;
    sleep(TAIL).await;
    about.ended = desk.now();
    phase.send_replace(Phase::Settle);
    traffic.settled().await?;
    record_the_end(desk, &addresses, seed).await;
    let written = truth.newest().await.ok_or("etcd does not report its revision")?;
    sleep(SETTLE).await;
    record_caches(desk, &addresses).await;
    phase.send_replace(Phase::Stop(written));
    traffic.ended().await?;
    // The servers have gone on writing what is theirs, and caches may know of it.
    let newest = truth.newest().await.ok_or("etcd does not report its revision")?;
    truth.end(desk, newest).await?;
    record_audit(desk, world, &addresses)?;
    harmed
}

/// Throws one fault after the other.
async fn harm_in_turn(
    world: &Arc<World>,
    desk: &Desk,
    experiment: &Experiment,
    addresses: &Addresses,
    chance: &mut StdRng,
) -> Result<(), String> {
    for (place, fault) in experiment.faults.iter().enumerate() {
        if place > 0 {
            sleep(REST).await;
        }
        let name = match experiment.faults.len() {
            1 => experiment.name.to_owned(),
            _ => fault.to_string(),
        };
        harm(world, desk, (name, fault), addresses, chance).await?;
    }
    Ok(())
}

/// Throws a fault, holds it, heals it, and records that.
async fn harm(
    world: &Arc<World>,
    desk: &Desk,
    (name, fault): (String, &Fault),
    addresses: &Addresses,
    chance: &mut StdRng,
) -> Result<(), String> {
    let at = desk.now();
    let mut record = FaultRecord {
        name,
        at,
        until: at,
        planned: matches!(
            fault,
            Fault::RollingRestart { .. } | Fault::WallClock(WrongClock::BeforeCertificates)
        ),
        kills_replicas: matches!(
            fault,
            Fault::KillReplica | Fault::KillLeader | Fault::KillAllButOne | Fault::KillAllReplicas
        ),
        times_only: matches!(fault, Fault::WallClock(wrong) if WrongClock::JUMPS.contains(wrong)),
        read_only: matches!(fault, Fault::NoSpace),
        ..FaultRecord::default()
    };
    match fault.install(world, chance).await {
        InstallVerdict::Installed(active) => {
            record.at = desk.moment(active.began());
            record.late = active.late_write();
            record.deposes = record.late.is_some();
            let control = active.control();
            record.slow_watchers = control.map(|span| desk.moment(span.start)..desk.moment(span.end));
            let names = addresses.replica_names();
            let touched = active.targets();
            record.target = named(&touched, &names).join(", ");
            if matches!(fault, Fault::CutFromEtcd) {
                record.unready = named(&touched, &names);
            }
            hold(world, desk, active, record).await
        }
        InstallVerdict::Skipped(why) => {
            record.result = FaultResult::Skipped;
            record.detail = why;
            desk.recorder.fault(&record);
            Ok(())
        }
        InstallVerdict::Indeterminate(why) => {
            record.result = FaultResult::Indeterminate;
            record.detail = why;
            desk.recorder.fault(&record);
            world.restore().await.map_err(|error| chain(&error))
        }
    }
}

async fn hold(world: &Arc<World>, desk: &Desk, mut active: Active, mut record: FaultRecord) -> Result<(), String> {
    let until = tokio::time::Instant::now() + active.fault().hold();
    while tokio::time::Instant::now() < until && !active.observe(world).await.is_seen() {
        sleep(LOOK).await;
    }
    tokio::time::sleep_until(until).await;
    active.done().await;
    // A healed part works again when `heal` returns; what is wrong in between still is the fault's doing, and what is well
    // is not.
    record.lifted = Some(desk.now());
    let healed = active.heal(world).await;
    record.until = desk.now();
    match healed {
        Ok(healed) => {
            record.observed = healed.observed.is_seen();
            record.guarded.clone_from(&healed.guarded);
            record.detail = format!("{:?}; {}", healed.observed, healed.notes.join("; "));
            desk.recorder.fault(&record);
            Ok(())
        }
        Err(error) => {
            record.result = FaultResult::Indeterminate;
            record.detail = chain(&error);
            desk.recorder.fault(&record);
            Err(format!("the world does not come back: {}", record.detail))
        }
    }
}

/// Replicas by their addresses, everything else as it is called.
fn named(touched: &[String], replicas: &[String]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for part in touched {
        let replica = (0..)
            .zip(replicas)
            .find(|(index, _): &(usize, _)| part.starts_with(&format!("replica-{index}")));
        let name = replica.map_or(part, |(_, address)| address);
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The logs of all parts are the first thing that is wanted when a run shows something.
fn keep_logs(world: &World, dir: &Path) -> Result<(), String> {
    let copy = || -> std::io::Result<()> {
        std::fs::create_dir_all(dir.join("logs"))?;
        for file in std::fs::read_dir(world.dir().join("logs"))? {
            let file = file?;
            std::fs::copy(file.path(), dir.join("logs").join(file.file_name()))?;
        }
        Ok(())
    };
    copy().map_err(|error| format!("keep the logs: {error}"))
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_named_by_their_addresses() {
        let replicas = ["a:1".to_owned(), "b:2".to_owned()];
        let touched = ["replica-1 → etcd-0", "replica-1 → etcd-1", "etcd-2"].map(str::to_owned);
        assert_eq!(named(&touched, &replicas), ["b:2", "etcd-2"]);
    }
}
