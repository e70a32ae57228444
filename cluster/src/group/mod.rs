//! This replica's part in the group.
//!
//! ```text
//!            ┌──────────── each replica ─────────────┐        ┌──────── the leader ────────┐
//!  duty ◄── holdings ◄── renewing ── Renew ──────────────────► referee ── Command ──► Raft ─► GroupState
//!            │             founding ── Hello, Join ──────────► membership ──────────► Raft │
//!            └───────────────────────────────────────┘        └────────────────────────────┘
//! ```
//!
//! No actor of `trireme-actors`: openraft is one already (a task with a mailbox), and a second mailbox in front of it
//! would only add a queue to elections. What happens here happens in named tasks; what is read is published.

mod config;
mod founding;
mod handover;
mod holdings;
mod membership;
mod referee;
mod renewing;
mod service;
mod start;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use openraft::ServerState;
use tokio::sync::watch;
use trireme_actors::Clock;

pub use config::GroupConfig;
pub use handover::HandOver;
pub use membership::ChangeError;
pub use start::StartError;
pub use status::{DutyStatus, MemberStatus, Status};

use self::holdings::Holdings;
use self::referee::Referee;
use crate::core::{Command, CommandOutcome, ReplicaId};
use crate::lease::Duty;
use crate::raft::{Raft, RaftTypes, timing};
use crate::store::{Applied, StoreIdentity};
use crate::tenure::LeaseWatch;
use crate::transport::{PeerCaller, PeerCertificates, PeerTlsError, TlsWire};

#[cfg(test)]
pub(crate) use self::start::ReplicaParts;

/// A replica's membership in its group. Cheap to clone.
#[derive(Clone)]
pub struct Group(Arc<Inner>);

struct Inner {
    config: GroupConfig,
    identity: StoreIdentity,
    raft: Raft,
    applied: watch::Receiver<Arc<Applied>>,
    caller: PeerCaller,
    /// `None` in the simulation, which has a wire of its own.
    tls: Option<TlsWire>,
    clock: Clock,
    holdings: Holdings,
    referee: Referee,
    /// One change of members at a time.
    membership: tokio::sync::Mutex<()>,
    /// Stopping: takes no lease any more.
    is_leaving: AtomicBool,
    /// Stopping to lead: confirms nothing any more, so that followers hear nothing that keeps them with this leader.
    is_silent: AtomicBool,
}

/// The reason that a command was not, or may not have been, agreed on.
#[derive(Debug, thiserror::Error)]
enum ProposeError {
    #[error("this replica does not lead the group")]
    NotLeader,
    #[error("no quorum agreed in time")]
    Unknown,
}

impl Group {
    /// From now on this replica would do `duty`. The watch shows when it holds the lease; it holds none while another
    /// replica does. Asking again for the same duty gives another watch on the same lease.
    pub fn acquire(&self, duty: Duty) -> LeaseWatch {
        self.0.holdings.watch(duty)
    }

    /// This replica's id.
    pub fn id(&self) -> ReplicaId {
        self.0.identity.replica
    }

    /// Shows other certificates to peers, and believes another CA, on all connections that are made from now on.
    ///
    /// # Errors
    /// If they cannot be used; then everything stays as it was.
    pub fn exchange_certificates(&self, certificates: &PeerCertificates) -> Result<(), PeerTlsError> {
        self.0.tls.as_ref().map_or(Ok(()), |tls| tls.exchange(certificates))
    }

    #[cfg(test)]
    pub(crate) fn raft(&self) -> Raft {
        self.0.raft.clone()
    }

    #[cfg(test)]
    pub(crate) fn raft_metrics(&self) -> RaftMetrics {
        self.0.raft.metrics().borrow().clone()
    }

    #[cfg(test)]
    pub(crate) fn applied_state(&self) -> Arc<Applied> {
        self.applied()
    }

    #[cfg(test)]
    pub(crate) fn leading_term(&self) -> Option<u64> {
        self.believed_term()
    }

    #[cfg(test)]
    pub(crate) fn tenures(&self) -> Vec<crate::tenure::Tenure> {
        self.0.holdings.tenures()
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.0.is_leaving.load(Ordering::Relaxed)
    }

    fn is_silent(&self) -> bool {
        self.0.is_silent.load(Ordering::Relaxed)
    }

    fn applied(&self) -> Arc<Applied> {
        Arc::clone(&self.0.applied.borrow())
    }

    /// The term in which this replica believes itself the leader. Only a belief: another may have been elected since.
    fn believed_term(&self) -> Option<u64> {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow();
        (metrics.state == ServerState::Leader && metrics.running_state.is_ok()).then_some(metrics.current_term)
    }

    /// The leader's address, as far as this replica knows.
    fn leader_address(&self) -> Option<String> {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow();
        let leader = metrics.current_leader?;
        let node = metrics.membership_config.membership().get_node(&leader)?;
        Some(node.addr.clone())
    }

    /// Asks a quorum whether this replica leads, and waits until everything that was agreed on before has been applied.
    async fn confirm_leadership(&self) -> Result<(), ProposeError> {
        if self.believed_term().is_none() || self.is_silent() {
            return Err(ProposeError::NotLeader);
        }
        let until = self.0.clock.now() + timing::PROPOSE_TIMEOUT;
        let confirmed = self.0.clock.timeout_at(until, self.0.raft.ensure_linearizable()).await;
        match confirmed {
            Some(Ok(_)) => {
                self.0.referee.confirmed(self.0.clock.now());
                Ok(())
            }
            _ => Err(ProposeError::NotLeader),
        }
    }

    /// Brings a command into the group's log and gives what came of it.
    async fn propose(&self, command: Command) -> Result<CommandOutcome, ProposeError> {
        let until = self.0.clock.now() + timing::PROPOSE_TIMEOUT;
        let written = self.0.clock.timeout_at(until, self.0.raft.client_write(command)).await;
        match written {
            Some(Ok(response)) => {
                // Followers learn with the next message that the entry is committed. Leases move at once if it comes now.
                let _ = self.0.raft.trigger().heartbeat().await;
                Ok(response.data.unwrap_or(CommandOutcome::Done))
            }
            Some(Err(_)) => Err(ProposeError::NotLeader),
            None => Err(ProposeError::Unknown),
        }
    }
}

/// openraft's metrics as this crate names them.
type RaftMetrics = openraft::RaftMetrics<ReplicaId, <RaftTypes as openraft::RaftTypeConfig>::Node>;
