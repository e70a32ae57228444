//! Fault 25: random faults, two at a time, until it is healed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::network::{Cut, Where};
use super::task::{Stop, Task};
use super::{ActiveFault, Fault, InstallVerdict, Observation, text_of};
use crate::world::{World, WorldError};

/// The durations of two faults, in milliseconds.
const HOLD_MS: std::ops::RangeInclusive<u64> = 2_000..=6_000;
/// In between the world has time to come to rest, so that the next two start from there.
const REST: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Diary {
    seen: usize,
    lines: Vec<String>,
}

#[derive(Debug)]
struct Mix {
    diary: Arc<Mutex<Diary>>,
    task: Task<Result<(), WorldError>>,
}

pub(super) fn begin(world: &Arc<World>, chance: &mut StdRng) -> Box<dyn ActiveFault> {
    let diary = Arc::<Mutex<Diary>>::default();
    let chance = StdRng::seed_from_u64(chance.random());
    let (world, lines) = (Arc::clone(world), Arc::clone(&diary));
    let task = Task::spawn(|stop| stir(world, chance, lines, stop));
    Box::new(Mix { diary, task })
}

/// Faults of processes.
fn strokes() -> Vec<Fault> {
    vec![
        Fault::KillReplica,
        Fault::KillLeader,
        Fault::KillAllButOne,
        Fault::PauseLeader,
        Fault::KillEtcdFollower,
        Fault::KillEtcdLeader,
        Fault::PauseEtcdLeader,
    ]
}

/// Faults of links and of the store.
fn weathers() -> Vec<Fault> {
    vec![
        Fault::CutFromEtcd,
        Fault::CutPeers(Cut::Symmetric),
        Fault::CutPeers(Cut::OneWay),
        Fault::CutPeers(Cut::Bridge),
        Fault::Delay {
            place: Where::Everywhere,
            delay: Duration::from_millis(20),
            jitter: Duration::from_millis(20),
        },
        Fault::Loss {
            place: Where::Everywhere,
            probability: 0.02,
        },
        Fault::ResetStorm(Where::Everywhere),
        Fault::CompactOften,
    ]
}

fn note(diary: &Mutex<Diary>, line: String, is_seen: bool) {
    let mut diary = diary.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    diary.seen += usize::from(is_seen);
    diary.lines.push(line);
}

/// One of each list at a time, so that two never fight over one part.
async fn stir(
    world: Arc<World>,
    mut chance: StdRng,
    diary: Arc<Mutex<Diary>>,
    mut stop: Stop,
) -> Result<(), WorldError> {
    loop {
        let pair = [
            strokes().choose(&mut chance).cloned(),
            weathers().choose(&mut chance).cloned(),
        ];
        let mut active = Vec::new();
        for fault in pair.into_iter().flatten() {
            // Boxed, as a mix is a fault itself.
            match Box::pin(fault.install(&world, &mut chance)).await {
                InstallVerdict::Installed(installed) => active.push(installed),
                InstallVerdict::Skipped(why) | InstallVerdict::Indeterminate(why) => {
                    note(&diary, format!("{fault}: not done: {why}"), false)
                }
            }
        }
        let goes_on = stop.pause(Duration::from_millis(chance.random_range(HOLD_MS))).await;
        for installed in active {
            let fault = installed.fault().to_string();
            let healed = Box::pin(installed.heal(&world)).await?;
            note(
                &diary,
                format!("{fault}: {:?}", healed.observed),
                healed.observed.is_seen(),
            );
        }
        if !goes_on || !stop.pause(REST).await {
            return Ok(());
        }
    }
}

impl Mix {
    fn diary(&self) -> (usize, Vec<String>) {
        let diary = self.diary.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        (diary.seen, diary.lines.clone())
    }
}

impl ActiveFault for Mix {
    fn targets(&self) -> Vec<String> {
        vec!["anything".to_owned()]
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        let (seen, lines) = self.diary();
        Box::pin(
            async move { Observation::of(seen > 1, format!("{seen} of {} faults were seen to bite", lines.len())) },
        )
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            let end = match self.task.end().await {
                Some(Ok(())) => None,
                Some(Err(error)) => Some(text_of(error)),
                None => Some("it panicked".to_owned()),
            };
            world.restore().await?;
            match end {
                None => Ok(self.diary().1),
                Some(why) => Err(WorldError::Unsupported(format!("the mix ended early: {why}"))),
            }
        })
    }
}
