//! Operations on a part.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::process::{LOOK_AGAIN, Process};
use super::{Part, World, WorldError};

/// A debug build on a machine that compiles beside it takes seconds; a hang takes forever.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(60);
/// The time limit of one readiness probe of a part.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// The process of a part: the load balancer's changes with a reload.
enum Held<'a> {
    Own(&'a Process),
    Shared(Arc<Process>),
}

impl std::ops::Deref for Held<'_> {
    type Target = Process;

    fn deref(&self) -> &Process {
        match self {
            Held::Own(process) => process,
            Held::Shared(process) => process,
        }
    }
}

impl World {
    fn process(&self, part: Part) -> Result<Held<'_>, WorldError> {
        Ok(match part {
            Part::Replica(index) => Held::Own(&self.replica(index)?.process),
            Part::Etcd(index) => Held::Own(&self.member(index)?.process),
            Part::Balancer => Held::Shared(self.balancer.process()),
        })
    }

    /// Starts a part on the data that it has, unless it runs. Does not wait until it works; see [`World::wait_ready`].
    ///
    /// # Errors
    /// If its program cannot be started.
    pub async fn launch(&self, part: Part) -> Result<(), WorldError> {
        let process = self.process(part)?;
        process.start().await?;
        if let Part::Replica(index) = part {
            self.links.replica_is(index, process.id());
            if let Some(clocks) = &self.wall_clocks {
                clocks.runs_as(process.id());
            }
        }
        Ok(())
    }

    /// SIGKILL. Returns when it is gone.
    ///
    /// # Errors
    /// If it does not run.
    pub async fn kill(&self, part: Part) -> Result<(), WorldError> {
        self.process(part)?.kill().await
    }

    /// SIGTERM. Returns when it is gone, with what it ended with.
    ///
    /// # Errors
    /// If it does not run, or not end within `patience`; then it runs on.
    pub async fn terminate(&self, part: Part, patience: Duration) -> Result<ExitStatus, WorldError> {
        self.process(part)?.terminate(patience).await
    }

    /// SIGSTOP. Returns when the kernel shows it as stopped.
    ///
    /// # Errors
    /// If it does not run.
    pub async fn pause(&self, part: Part) -> Result<(), WorldError> {
        self.process(part)?.pause().await
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume(&self, part: Part) -> Result<(), WorldError> {
        self.process(part)?.resume()
    }

    /// Returns true if it runs, paused or not.
    pub fn is_running(&self, part: Part) -> bool {
        self.id(part).is_some()
    }

    /// Returns true if the kernel shows it as stopped.
    pub fn is_paused(&self, part: Part) -> bool {
        self.process(part).is_ok_and(|process| process.is_paused())
    }

    /// The id of its process, if it runs.
    pub fn id(&self, part: Part) -> Option<u32> {
        self.process(part).ok()?.id()
    }

    /// Everything that it has written, in all its lives.
    pub fn log(&self, part: Part) -> String {
        self.process(part)
            .map_or_else(|_| String::new(), |process| process.log())
    }

    /// The path of its log.
    ///
    /// # Errors
    /// If there is no such part.
    pub fn log_file(&self, part: Part) -> Result<PathBuf, WorldError> {
        Ok(self.process(part)?.log_file().to_owned())
    }

    /// Waits until a part has ended by itself; says what it ended with.
    ///
    /// # Errors
    /// If it goes on for longer than `patience`.
    pub async fn wait_for_end(&self, part: Part, patience: Duration) -> Result<ExitStatus, WorldError> {
        self.process(part)?.wait_for_end(patience).await
    }

    /// Starts a new load balancer that takes over from the old one, which finishes its connections.
    ///
    /// # Errors
    /// If none runs, or the new one cannot be started.
    pub fn reload_balancer(&self) -> Result<(), WorldError> {
        self.balancer.reload()
    }

    /// Waits until a part does its work: a replica is ready, a member of etcd follows a leader, the load balancer lets a
    /// request through to a replica that is ready.
    ///
    /// # Errors
    /// If it ends or takes more than a minute; shows the end of its log.
    pub async fn wait_ready(&self, part: Part) -> Result<(), WorldError> {
        let end = Instant::now() + START_PATIENCE;
        while !self.is_ready(part).await {
            let process = self.process(part)?;
            process.check_runs("ready")?;
            if Instant::now() > end {
                return Err(process.not_in_time("ready", START_PATIENCE));
            }
            sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Returns true if a part does its work now; see [`World::wait_ready`].
    pub async fn is_ready(&self, part: Part) -> bool {
        let address = match part {
            Part::Etcd(index) => return self.etcd_status(index).await.is_some_and(|status| status.leader != 0),
            Part::Replica(index) => self.replica(index).map(|replica| replica.secure),
            Part::Balancer => Ok(self.balancer.address),
        };
        let Ok(address) = address else {
            return false;
        };
        let answer = self.probe.get(address, "/readyz", LOOK_PATIENCE).await;
        matches!(answer, Ok((200, _)))
    }

    /// Starts every part that does not run, resumes what is paused, heals every link, sets every wall
    /// clock right, and waits until all is ready.
    ///
    /// # Errors
    /// If a part does not come up.
    pub async fn restore(&self) -> Result<(), WorldError> {
        for (_, link) in self.links() {
            link.heal();
        }
        self.set_wall_clocks_right()?;
        for part in self.parts() {
            if self.is_paused(part) {
                self.resume(part)?;
            }
            self.launch(part).await?;
        }
        // The load balancer last, as `parts` has it: it needs a replica, and those need etcd.
        self.wait_for_etcd().await?;
        for part in self.parts() {
            self.wait_ready(part).await?;
        }
        self.wait_for_leader().await
    }
}
