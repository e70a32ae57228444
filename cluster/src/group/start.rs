//! Starting: the file, Raft, the peer port and the tasks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use trireme_actors::{Clock, Tasks};

use super::holdings::Holdings;
use super::referee::Referee;
use super::service::PeerService;
use super::status::GroupObservation;
use super::{Group, GroupConfig, Inner};
use crate::core::fence::Timing;
use crate::network::Network;
use crate::raft::{Raft, timing};
use crate::store::{LogStore, RaftFile, StateMachine, StoreError, StoreIdentity};
use crate::transport::{PeerCaller, PeerTlsError, TlsWire, Wire, serve};

/// The reason that a replica cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The Raft directory cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] PeerTlsError),
    /// The peer port cannot be bound.
    #[error("cannot listen for peers on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Raft did not start on what is in the directory.
    #[error("raft does not start: {0}")]
    Raft(String),
}

/// The differences between a replica and a simulated one.
pub(crate) struct ReplicaParts {
    pub(crate) file: RaftFile,
    pub(crate) identity: StoreIdentity,
    pub(crate) wire: Arc<dyn Wire>,
    /// The same wire, if it is one of TLS.
    pub(crate) tls: Option<TlsWire>,
    /// The time for which this replica counts on a renewal.
    pub(crate) as_holder: Timing,
    /// The time for which it grants one as the leader. The same, except where a test breaks it.
    pub(crate) as_leader: Timing,
}

impl Group {
    /// Takes this replica's place in the group, or waits beside it until there is one. Returns when peers can reach it;
    /// [`status`](Self::status) and the leases show whether there is a quorum.
    ///
    /// Raft runs on the runtime that this is called in; give it one that request handling cannot hold up.
    ///
    /// # Errors
    /// If the directory is damaged or in use, a certificate does not fit, or the port cannot be bound.
    pub async fn start(config: GroupConfig, tasks: &Tasks, clock: Clock) -> Result<Self, StartError> {
        let tls = TlsWire::new(&config.name, &config.certificates)?;
        let (file, identity) = RaftFile::open(&config.directory)?;
        let parts = ReplicaParts {
            file,
            identity,
            wire: Arc::new(tls.clone()),
            tls: Some(tls),
            as_holder: timing::LEASES,
            as_leader: timing::LEASES,
        };
        Self::start_on(config, parts, tasks, clock).await
    }

    pub(crate) async fn start_on(
        config: GroupConfig,
        parts: ReplicaParts,
        tasks: &Tasks,
        clock: Clock,
    ) -> Result<Self, StartError> {
        let ReplicaParts {
            file,
            identity,
            wire,
            tls,
            as_holder,
            as_leader,
        } = parts;
        let listener = wire.listen(&config.listen).await;
        let listener = listener.map_err(|source| StartError::Listen {
            address: config.listen.clone(),
            source,
        })?;
        let caller = PeerCaller::new(wire, clock.clone());
        let failed = |error: &dyn std::fmt::Display| StartError::Raft(error.to_string());
        let machine = StateMachine::open(file.clone()).await.map_err(|error| failed(&error))?;
        let applied = machine.applied();
        let network = Network {
            own: identity.replica,
            caller: caller.clone(),
        };
        let settings = timing::config(&config.name)
            .validate()
            .map_err(|error| failed(&error))?;
        let raft = Raft::new(
            identity.replica,
            Arc::new(settings),
            network,
            LogStore::new(file),
            machine,
        );
        let raft = raft.await.map_err(|error| failed(&error))?;
        let group = Self(Arc::new(Inner {
            config,
            identity,
            raft,
            applied,
            caller,
            tls,
            holdings: Holdings::new(clock.clone(), as_holder),
            referee: Referee::new(as_leader),
            clock: clock.clone(),
            membership: tokio::sync::Mutex::new(()),
            is_leaving: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
        }));
        tracing::info!(replica = %identity.replica, incarnation = identity.incarnation.0, "taking part in the replica group");
        let service = PeerService(group.clone());
        let _ = tasks.spawn_named("peer-port", serve(listener, service, tasks.clone(), clock));
        group.spawn_tasks(tasks);
        Ok(group)
    }

    fn spawn_tasks(&self, tasks: &Tasks) {
        let group = self.clone();
        let _ = tasks.spawn_named("group-founding", async move { group.find_group().await });
        let group = self.clone();
        let _ = tasks.spawn_restarting("lease-renewal", move || {
            let group = group.clone();
            async move { group.renew_forever().await }
        });
        let group = self.clone();
        let _ = tasks.spawn_restarting("lease-sweep", move || {
            let group = group.clone();
            async move { group.sweep_forever().await }
        });
        let group = self.clone();
        let mut standing = GroupObservation::default();
        let _ = tasks.every("lease-lapse", timing::SWEEP_PERIOD, move || {
            group.0.holdings.lapse();
            standing = group.tell_changes(standing);
            group.tell_metrics();
        });
    }
}
