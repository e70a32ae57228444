//! Requests between replicas. Names and fields are read by the next version and by the one before.

use std::collections::{BTreeMap, BTreeSet};

use openraft::error::{Infallible, InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use serde::{Deserialize, Serialize};

use crate::core::{Incarnation, ReplicaDescription, ReplicaId};
use crate::raft::RaftTypes;

/// A request and whom it is for. Addresses stay when disks are lost; ids do not.
#[derive(Serialize, Deserialize)]
pub(crate) struct Envelope {
    /// Only the replica with this id may answer; `None` for any replica at the address.
    #[serde(default)]
    pub(crate) to: Option<ReplicaId>,
    pub(crate) request: Request,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum Request {
    /// Asks for the replica's identity and membership.
    Hello,
    Append(AppendEntriesRequest<RaftTypes>),
    Vote(VoteRequest<ReplicaId>),
    Snapshot(InstallSnapshotRequest<RaftTypes>),
    /// I am alive; what do I hold?
    Renew(Renewal),
    /// I stop in good order.
    Leave {
        replica: ReplicaId,
        incarnation: Incarnation,
    },
    /// Make me a member.
    Join {
        replica: ReplicaId,
        address: String,
    },
    /// Make the replica at this address a member.
    Add {
        address: String,
    },
    /// Take this replica out of the group.
    Remove {
        replica: ReplicaId,
    },
    /// Stand for election now: the leader stops.
    Campaign,
}

/// Sent by every replica to the leader, several times a second.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Renewal {
    pub(crate) replica: ReplicaId,
    pub(crate) facts: ReplicaDescription,
    /// Leases that it acts on no more, by their tokens.
    #[serde(default)]
    pub(crate) yields: BTreeMap<String, u64>,
    /// Floors of the next tokens of these leases, because it is in use outside the group.
    #[serde(default)]
    pub(crate) floors: BTreeMap<String, u64>,
}

#[derive(Serialize, Deserialize)]
pub(crate) enum PeerAnswer {
    Hello(Hello),
    Append(Result<AppendEntriesResponse<ReplicaId>, RaftError<ReplicaId, Infallible>>),
    Vote(Result<VoteResponse<ReplicaId>, RaftError<ReplicaId, Infallible>>),
    Snapshot(Result<InstallSnapshotResponse<ReplicaId>, RaftError<ReplicaId, InstallSnapshotError>>),
    /// The leases of the replica, confirmed by a quorum after its renewal had come in.
    Held(Vec<Grant>),
    Done,
    /// Ask this one instead, if it is known.
    NotLeader {
        leader: Option<String>,
    },
    /// Not in the group's membership (yet): join.
    NotMember,
    /// Removed from the group for good.
    Removed,
    /// A later process of this replica is there, or it has left.
    Over,
    /// Not now, or not at all; try again.
    Refused(String),
    /// It may have been done, or may yet be.
    Unknown(String),
    /// The envelope was for another replica.
    NotMe,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) replica: ReplicaId,
    /// True if it knows of a group, of which it is or was a member.
    pub(crate) has_group: bool,
    /// The first members as its settings name them.
    pub(crate) peers: BTreeSet<String>,
}

/// One lease of the replica that asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) duty: String,
    pub(crate) token: u64,
    /// It is asked to yield it.
    #[serde(default)]
    pub(crate) revoked: bool,
}
