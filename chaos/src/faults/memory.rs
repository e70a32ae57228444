//! Fault 21: a memory limit, by a control group of version 1.
//!
//! The limit follows the replica's use downwards and leaves it next to nothing, while large requests make it grow: so it
//! hits the limit, and the kernel first takes back what it can and, if that is not enough, kills it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::json;

use super::task::{Stop, Task};
use super::{ActiveFault, Observation, Refusal, skip};
use crate::world::{ClientRoute, Part, Probe, World, WorldError};

/// The path where Linux mounts it.
const CONTROLLER: &str = "/sys/fs/cgroup/memory";
/// The memory that a replica may have beyond its use.
const HEADROOM_BYTES: u64 = 256 << 10;
/// Between two adjustments of the limit, and two bursts of requests.
const PERIOD: Duration = Duration::from_millis(200);
/// Requests of a burst.
const BURST: usize = 16;
/// Of each of them: below the server's limit for an object.
const REQUEST_BYTES: usize = 900 * 1024;
const REQUEST_PATIENCE: Duration = Duration::from_secs(2);
const NO_LIMIT: &str = "-1";
/// The kernel moves the killed out of a group a moment after they are gone.
const REMOVAL_ATTEMPTS: usize = 100;

#[derive(Debug)]
struct Limited {
    replica: usize,
    group: Arc<ControlGroup>,
    task: Task<()>,
}

/// A control group that goes when this is dropped.
#[derive(Debug)]
struct ControlGroup {
    dir: PathBuf,
}

impl ControlGroup {
    fn make(name: &str) -> io::Result<Self> {
        let dir = Path::new(CONTROLLER).join(name);
        fs::create_dir(&dir)?;
        Ok(Self { dir })
    }

    fn write(&self, file: &str, value: &str) -> io::Result<()> {
        fs::write(self.dir.join(file), value)
    }

    fn number(&self, file: &str) -> io::Result<u64> {
        let text = fs::read_to_string(self.dir.join(file))?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// The number of processes that the kernel has killed here for want of memory.
    fn kills(&self) -> u64 {
        let text = fs::read_to_string(self.dir.join("memory.oom_control")).unwrap_or_default();
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.and_then(|kills| kills.trim().parse().ok()).unwrap_or(0)
    }

    /// Lets everything out, to the group above.
    fn release(&self) {
        let tasks = fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        for task in tasks.lines() {
            // Fails only for one that has just ended.
            let _ = fs::write(Path::new(CONTROLLER).join("cgroup.procs"), task);
        }
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        self.release();
        for _ in 0..REMOVAL_ATTEMPTS {
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub(super) async fn limit(world: &World, chance: &mut StdRng) -> Result<Box<dyn ActiveFault>, Refusal> {
    if !Path::new(CONTROLLER).join("memory.limit_in_bytes").exists() {
        return skip(format!("there are no control groups of version 1 at {CONTROLLER}"));
    }
    let replica = chance.random_range(0..world.replicas().max(1));
    let part = Part::Replica(replica);
    let group = match ControlGroup::make(&format!("trireme-chaos-{}-{replica}", std::process::id())) {
        Ok(group) => group,
        Err(error) => return skip(format!("no control group can be made: {error}")),
    };
    let failed = |error| Refusal::Failed(WorldError::Io(format!("limit the memory of {part}"), error));
    // Memory counts for the group in which it was first used, so the replica starts anew there.
    world.kill(part).await?;
    world.launch(part).await?;
    let id = world.id(part).ok_or_else(|| WorldError::NotRunning(part.to_string()))?;
    group.write("cgroup.procs", &id.to_string()).map_err(failed)?;
    world.wait_ready(part).await?;
    let group = Arc::new(group);
    let (squeezed, probe) = (Arc::clone(&group), world.probe().clone());
    let address = world.replica_address(replica, ClientRoute::Direct)?;
    let task = Task::spawn(|stop| squeeze(squeezed, probe, address, stop));
    Ok(Box::new(Limited { replica, group, task }))
}

/// Lowers the limit as far as it goes, and makes the replica grow.
async fn squeeze(group: Arc<ControlGroup>, probe: Probe, address: SocketAddr, mut stop: Stop) {
    let mut limit_bytes = u64::MAX;
    while stop.pause(PERIOD).await {
        let usage_bytes = group.number("memory.usage_in_bytes").unwrap_or(u64::MAX);
        let lower = usage_bytes.saturating_add(HEADROOM_BYTES);
        // The kernel refuses a limit below what it cannot take back.
        if lower < limit_bytes && group.write("memory.limit_in_bytes", &lower.to_string()).is_ok() {
            limit_bytes = lower;
        }
        join_all((0..BURST).map(|_| push(&probe, address))).await;
    }
}

/// A large request without effect. What becomes of it is the replica's business.
async fn push(probe: &Probe, address: SocketAddr) {
    let text = "x".repeat(REQUEST_BYTES);
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "push-"}, "data": {"text": text}});
    let path = "/api/v1/namespaces/default/configmaps?dryRun=All";
    let _ = probe.send(address, "POST", path, Some(&body), REQUEST_PATIENCE).await;
}

impl ActiveFault for Limited {
    fn targets(&self) -> Vec<String> {
        vec![Part::Replica(self.replica).to_string()]
    }

    fn observe<'a>(&'a mut self, _: &'a World) -> BoxFuture<'a, Observation> {
        Box::pin(async {
            let (hits, kills) = (self.group.number("memory.failcnt").unwrap_or(0), self.group.kills());
            let evidence = format!("the limit was hit {hits} times; the kernel killed {kills} times");
            Observation::of(hits > 0 || kills > 0, evidence)
        })
    }

    fn heal<'a>(&'a mut self, world: &'a World) -> BoxFuture<'a, Result<Vec<String>, WorldError>> {
        Box::pin(async {
            let part = Part::Replica(self.replica);
            self.task.end().await;
            let kills = self.group.kills();
            let lifted = self.group.write("memory.limit_in_bytes", NO_LIMIT);
            lifted.map_err(|error| WorldError::Io(format!("give {part} memory again"), error))?;
            self.group.release();
            // It may be dying at this moment, and would be taken for alive.
            if world.is_running(part) {
                world.kill(part).await?;
            }
            world.launch(part).await?;
            world.wait_ready(part).await?;
            Ok(vec![format!("the kernel killed it {kills} times for want of memory")])
        })
    }
}
