//! Faults 5, 6, 9 and 10: SIGSTOP and SIGCONT.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

use super::task::Task;
use super::{ActiveFault, Observation, Refusal, skip};
use crate::world::{ClientRoute, Part, World, WorldError};

/// The time for which a probe of a paused process waits for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(500);
/// The lengths of the pauses of fault 6, in milliseconds.
const BRIEF_MS: std::ops::RangeInclusive<u64> = 100..=900;

#[derive(Debug)]
struct Pause {
    parts: Vec<Part>,
}

pub(super) async fn leader(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    match world.settled_raft_leader().await {
        Some(index) => pause(world, vec![Part::Replica(index)]).await,
        None => skip("no replica leads a group"),
    }
}

pub(super) async fn etcd_leader(world: &World) -> Result<Box<dyn ActiveFault>, Refusal> {
    match world.etcd_leader().await {
        Some(index) => pause(world, vec![Part::Etcd(index)]).await,
        None => skip("no member of etcd leads"),
    }
}

pub(super) async fn etcd_quorum(world: &World, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let mut members: Vec<Part> = (0..world.etcd_members()).map(Part::Etcd).collect();
    members.shuffle(chance);
    // So many that the others are less than a majority.
    members.truncate(members.len().div_ceil(2));
    pause(world, members).await
}

async fn pause(world: &World, parts: Vec<Part>) -> Result<Box<dyn ActiveFault>, Refusal> {
    for part in &parts {
        world.pause(*part).await?;
    }
    Ok(Box::new(Pause { parts }))
}

/// Returns true if a part does not answer what it would answer if it ran.
pub(super) async fn is_silent(world: &World, part: Part) -> bool {
    match part {
        Part::Etcd(index) => world.etcd_status(index).await.is_none(),
        Part::Replica(index) => match world.replica_address(index, ClientRoute::Direct) {
            Ok(address) => world.probe().get(address, "/livez", SILENCE).await.is_err(),
            Err(_) => false,
        },
        Part::Balancer => world.balancer_statuses().await.is_err(),
    }
}

/// A part that another fault has ended is not paused any more.
pub(super) fn resume(world: &World, part: Part) -> Result<(), WorldError> {
    match world.resume(part) {
        Err(WorldError::NotRunning(_)) => Ok(()),
        other => other,
    }
}

impl ActiveFault for Pause {
    fn targets(&self) -> Vec<String> {
        self.parts.iter().map(ToString::to_string).collect()
    }

    fn observe<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(async {
            for part in &self.parts {
                if !world.is_paused(*part) || !is_silent(world, *part).await {
                    return Observation::NotSeen(format!("{part} is not stopped, or it answers"));
                }
            }
            Observation::Seen("the kernel shows them as stopped, and probes got no answer".to_owned())
        })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            for part in &self.parts {
                resume(world, *part)?;
            }
            for part in &self.parts {
                world.wait_ready(*part).await?;
            }
            Ok(Vec::new())
        })
    }
}

/// Pauses the leader, whichever replica that is, again and again.
#[derive(Debug)]
struct Stutter {
    first: usize,
    pauses: Arc<std::sync::atomic::AtomicU64>,
    task: Task<Result<(), WorldError>>,
}

pub(super) async fn leader_briefly(world: &Arc<World>, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    let Some(first) = world.settled_raft_leader().await else {
        return skip("no replica leads a group");
    };
    let pauses = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let (count, world) = (Arc::clone(&pauses), Arc::clone(world));
    let mut chance = StdRng::seed_from_u64(chance.random());
    let task = Task::spawn(|mut stop| async move {
        loop {
            // Between elections the last one known has to do.
            let leader = Part::Replica(world.raft_leader().await.unwrap_or(first));
            world.pause(leader).await?;
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let goes_on = stop.pause(Duration::from_millis(chance.random_range(BRIEF_MS))).await;
            resume(&world, leader)?;
            if !goes_on || !stop.pause(Duration::from_millis(chance.random_range(BRIEF_MS))).await {
                return Ok(());
            }
        }
    });
    Ok(Box::new(Stutter { first, pauses, task }))
}

impl ActiveFault for Stutter {
    fn targets(&self) -> Vec<String> {
        vec![Part::Replica(self.first).to_string()]
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        // Each of them returned only after the kernel showed the process as stopped.
        let pauses = self.pauses.load(std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move { Observation::of(pauses > 1, format!("{pauses} pauses, each seen in /proc")) })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            let note = match self.task.end().await {
                Some(Ok(())) => Vec::new(),
                Some(Err(error)) => vec![format!("the pauses ended early: {}", super::text_of(error))],
                None => vec!["the pauses ended in a panic".to_owned()],
            };
            for replica in 0..world.replicas() {
                let part = Part::Replica(replica);
                resume(world, part)?;
                world.wait_ready(part).await?;
            }
            Ok(note)
        })
    }
}
