//! The status of the group for people and dashboards.

use std::time::Duration;

use openraft::ServerState;
use serde::Serialize;

use super::{Group, RaftMetrics};
use crate::core::directory::Standing as InDirectory;
use crate::core::{Incarnation, ReplicaId};
use crate::raft::timing;

/// The group as this replica sees it. A follower's view may be behind the leader's.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// This replica.
    pub replica: ReplicaId,
    /// Which of its processes.
    pub incarnation: Incarnation,
    /// Raft's term.
    pub term: u64,
    /// The leader, as far as this replica knows.
    pub leader: Option<ReplicaId>,
    /// True if this replica leads and a quorum has confirmed it within the last second.
    pub is_leader: bool,
    /// True if a leader that a quorum had confirmed has answered this replica within the ttl of a lease. Without it
    /// this replica holds nothing, and its view of others may be long outdated.
    pub has_quorum: bool,
    /// On the leader: how long ago a quorum confirmed it.
    pub last_quorum_ack: Option<Duration>,
    /// All members of the group.
    pub members: Vec<MemberStatus>,
    /// Every duty that a replica would do.
    pub duties: Vec<DutyStatus>,
    /// The error that stopped Raft on this replica, if it has stopped: it takes no part until it is started again.
    pub raft_error: Option<String>,
}

/// A member of the group.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Its id.
    pub replica: ReplicaId,
    /// The address at which its peers reach it.
    pub address: String,
    /// Its software version, once it has renewed.
    pub version: Option<String>,
    /// True if it renews its leases.
    pub is_live: bool,
    /// True if it counts for the quorum; if not, it is still catching up.
    pub is_voter: bool,
}

/// A duty and its lease.
#[derive(Clone, Debug, Serialize)]
pub struct DutyStatus {
    /// Its name.
    pub duty: String,
    /// The holder of the lease.
    pub holder: Option<ReplicaId>,
    /// The newest fencing token.
    pub token: u64,
    /// True if the holder is asked to yield it to another.
    pub revoked: bool,
}

/// The state of the group at the last look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupObservation {
    leader: Option<ReplicaId>,
    has_quorum: bool,
    has_raft_error: bool,
}

impl Group {
    /// The group as this replica sees it now.
    pub fn status(&self) -> Status {
        let metrics = self.0.raft.metrics().borrow().clone();
        let last_quorum_ack = self.0.referee.last_quorum_ack(self.0.clock.now());
        let last_quorum_ack = last_quorum_ack.filter(|_| metrics.state == ServerState::Leader);
        Status {
            replica: self.id(),
            incarnation: self.0.identity.incarnation,
            term: metrics.current_term,
            leader: metrics.current_leader,
            is_leader: last_quorum_ack.is_some_and(|ago| ago <= timing::CONFIRMED_FOR),
            has_quorum: self.0.holdings.has_quorum(),
            last_quorum_ack,
            members: self.members(&metrics),
            duties: self.duties(),
            raft_error: metrics.running_state.err().map(|raft_error| raft_error.to_string()),
        }
    }

    fn members(&self, metrics: &RaftMetrics) -> Vec<MemberStatus> {
        let applied = self.applied();
        let membership = metrics.membership_config.membership();
        let nodes = membership.nodes().map(|(id, node)| {
            let known = applied.group.directory.replicas.get(id);
            MemberStatus {
                replica: *id,
                address: node.addr.clone(),
                version: known.map(|known| known.facts.version.clone()),
                is_live: known.is_some_and(|known| matches!(known.standing, InDirectory::Live | InDirectory::Retiring)),
                is_voter: membership.voter_ids().any(|voter| voter == *id),
            }
        });
        nodes.collect()
    }

    pub(crate) fn duties(&self) -> Vec<DutyStatus> {
        let applied = self.applied();
        let leases = applied.group.leases.iter().map(|(duty, lease)| DutyStatus {
            duty: duty.to_owned(),
            holder: lease.holder.map(|holder| holder.replica),
            token: lease.token,
            revoked: lease.revoked,
        });
        leases.collect()
    }

    /// Logs what has changed in how the group stands since `before`; gives how it stands now.
    pub(crate) fn tell_changes(&self, before: GroupObservation) -> GroupObservation {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow();
        let has_quorum = self.0.holdings.has_quorum();
        let leader = metrics.current_leader.filter(|_| has_quorum);
        let has_raft_error = metrics.running_state.is_err();
        let now = GroupObservation {
            leader: leader.or(before.leader),
            has_quorum,
            has_raft_error,
        };
        if has_quorum && now != before {
            let leader = now.leader.map(|leader| leader.to_string());
            tracing::info!(term = metrics.current_term, leader, "the replica group has a quorum");
        }
        if before.has_quorum && !has_quorum && !self.is_leaving() {
            tracing::warn!("no quorum: nothing is heard from a leader of the replica group, duties stop here");
        }
        if let (Err(raft_error), false) = (&metrics.running_state, before.has_raft_error) {
            tracing::error!(error = %raft_error, "Raft has stopped: this replica takes no part until it is started again");
        }
        now
    }

    pub(crate) fn tell_metrics(&self) {
        let metrics = self.0.raft.metrics();
        let metrics = metrics.borrow();
        let ack = self.0.referee.last_quorum_ack(self.0.clock.now());
        let is_leader = metrics.state == ServerState::Leader && ack.is_some_and(|ago| ago <= timing::CONFIRMED_FOR);
        metrics::gauge!("trireme_cluster_is_leader").set(f64::from(u8::from(is_leader)));
        // Exact below 2^53; a term is an election.
        metrics::counter!("trireme_cluster_elections_total").absolute(metrics.current_term);
        let term = u32::try_from(metrics.current_term).unwrap_or(u32::MAX);
        metrics::gauge!("trireme_cluster_term").set(f64::from(term));
        let held = u32::try_from(self.0.holdings.count()).unwrap_or(u32::MAX);
        metrics::gauge!("trireme_cluster_leases_held").set(f64::from(held));
        let has_quorum = self.0.holdings.has_quorum();
        metrics::gauge!("trireme_cluster_has_quorum").set(f64::from(u8::from(has_quorum)));
    }
}
