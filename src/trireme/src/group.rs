//! This replica's place in its group: on a thread of its own, handed over when the replica stops.
//!
//! Serving requests must not hold up elections and renewals, so everything of the group runs in a runtime of its
//! own. What comes out of it are leases, which duties watch from wherever they run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use trireme_actors::{ActorSystem, Clock, TaskHandle, Tasks};
use trireme_cluster::{ChangeError, Group, GroupConfig, PeerCertificates};

use crate::build_error::{BuildError, GroupError, read_file};
use crate::reload::Reloader;
use crate::settings::{GroupSettings, PeerFiles};

/// Duties and leadership get this long to go to others. What is not handed over by then moves when it expires.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(8);

/// The handle to the group for any thread. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Changes {
    /// The group's name.
    pub(crate) name: String,
    /// To be looked at. What waits for peers goes through [`run`](Self::run).
    pub(crate) group: Group,
    tasks: Tasks,
}

impl Changes {
    /// Does something with the group on the group's own thread: connections to peers must not be made on one that
    /// serves requests. It goes on to its end even if no caller waits for it any more.
    pub(crate) async fn run<F>(&self, change: impl FnOnce(Group) -> F) -> Result<(), ChangeError>
    where
        F: Future<Output = Result<(), ChangeError>> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let change = change(self.group.clone());
        let _ = self.tasks.spawn_named("change-of-members", async move {
            // The caller may have gone.
            let _ = reply.send(change.await);
        });
        let interrupted = || Err(ChangeError::Unknown("this replica stops".to_owned()));
        answer.await.unwrap_or_else(|_| interrupted())
    }
}

/// A running membership. Dropping it ends it at once.
pub(crate) struct Membership {
    name: String,
    group: Group,
    tasks: Tasks,
    clock: Clock,
    /// The task that all of it runs in.
    _runtime: RuntimeEnding,
}

impl Membership {
    /// Binds the peer port and takes part. Returns whether or not there is a quorum.
    pub(crate) async fn start(settings: &GroupSettings, data_dir: &Path, clock: &Clock) -> Result<Self, BuildError> {
        let files = paths(&settings.certificates);
        let contents = files
            .iter()
            .map(|file| read_file(file))
            .collect::<Result<Vec<_>, _>>()?;
        let config = GroupConfig {
            name: settings.name.clone(),
            directory: data_dir.join("raft"),
            listen: settings.listen.clone(),
            advertise: settings.advertise.clone(),
            peers: settings.peers.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            certificates: certificates(&contents),
        };
        Ok(Self::start_with(config, clock).await?)
    }

    async fn start_with(config: GroupConfig, clock: &Clock) -> Result<Self, GroupError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("trireme-group")
            .enable_all()
            .build()?;
        let tasks = Tasks::new(runtime.handle().clone(), clock.clone());
        let name = config.name.clone();
        let (ours, its_clock) = (tasks.clone(), clock.clone());
        let starting = runtime.spawn(async move { Group::start(config, &ours, its_clock).await });
        let runtime = RuntimeEnding(Some(runtime));
        let started = starting.await;
        let group = started.map_err(GroupError::Panicked)??;
        Ok(Self {
            name,
            group,
            tasks,
            clock: clock.clone(),
            _runtime: runtime,
        })
    }

    /// The group's handle.
    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// Shows peers what the files hold, also when they change.
    ///
    /// # Errors
    /// If what they hold now cannot be used.
    pub(crate) fn follow_files(&self, files: &PeerFiles, system: &ActorSystem) -> Result<(), BuildError> {
        let mut reloader = Reloader::default();
        let group = self.group.clone();
        reloader.load("peer-certificates", paths(files), move |contents| {
            let certificates = certificates(contents);
            Ok(group.exchange_certificates(&certificates).map_err(GroupError::from)?)
        })?;
        reloader.start(system);
        Ok(())
    }

    /// For those who look at the group or change it.
    pub(crate) fn changes(&self) -> Changes {
        Changes {
            name: self.name.clone(),
            group: self.group.clone(),
            tasks: self.tasks.clone(),
        }
    }

    /// Begins to give leases and leadership to others; the task ends when that is done or cannot be.
    pub(crate) fn begin_hand_over(&self) -> TaskHandle {
        let (group, clock) = (self.group.clone(), self.clock.clone());
        self.tasks.spawn_named("hand-over", async move {
            let until = clock.now() + HAND_OVER_PATIENCE;
            match clock.timeout_at(until, group.hand_over()).await {
                Some(handed) => {
                    let (leases, leadership) = (handed.leases, handed.leadership);
                    tracing::info!(leases, leadership, "handed over to the other replicas");
                }
                None => tracing::warn!("the other replicas did not take over in time; leases move when they expire"),
            }
        })
    }

    /// Ends the group's tasks; gives the names of those that did not end in time.
    pub(crate) async fn close(self, patience: Duration) -> Vec<String> {
        self.tasks.shutdown(patience).await
    }
}

fn paths(files: &PeerFiles) -> Vec<PathBuf> {
    vec![files.ca.clone(), files.own.certificate.clone(), files.own.key.clone()]
}

/// From the contents of these [`paths`].
fn certificates(contents: &[Vec<u8>]) -> PeerCertificates {
    let content = |place: usize| contents.get(place).cloned().unwrap_or_default();
    PeerCertificates {
        ca: content(0),
        certificate: content(1),
        key: content(2),
    }
}

/// Ends its runtime without waiting for it: to drop one waits, which async code must not.
struct RuntimeEnding(Option<Runtime>);

impl Drop for RuntimeEnding {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
