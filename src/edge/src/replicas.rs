//! The replica group as `/debug/replicas` shows and changes it. The composition root knows the group; this room
//! knows how it looks to a client. `trireme cluster` reads the same types back.

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use trireme_machinery::ApiError;

/// The replica group, as this replica sees it and can have it changed.
pub trait Replicas: Send + Sync {
    /// The present state of the group; never waits.
    fn view(&self) -> GroupView;

    /// Makes the replica at this address (`host:port` of its peer port) a member.
    fn add(&self, address: String) -> BoxFuture<'static, Result<(), ApiError>>;

    /// Takes the replica with this id out for good.
    fn remove(&self, replica: String) -> BoxFuture<'static, Result<(), ApiError>>;
}

/// The group and this replica's store, as this replica sees them. A follower may be a moment behind the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupView {
    /// The group's name; `None` for a replica that is alone.
    pub group: Option<String>,
    /// The id of the replica that answers.
    #[serde(rename = "self")]
    pub replica: Option<String>,
    /// The leader; `None` while none is known, and without a quorum.
    pub leader: Option<String>,
    /// Raft's term.
    pub term: u64,
    /// True if a quorum has confirmed a leader to this replica within the ttl of a lease.
    pub quorum: bool,
    /// The error for which this replica takes no part until it is started again, if there is one.
    pub raft_error: Option<String>,
    /// All members of the group.
    pub members: Vec<MemberView>,
    /// Every duty that a replica would do.
    pub duties: Vec<DutyView>,
    /// The store.
    pub store: StoreView,
    /// The caches of this replica.
    pub resources: Vec<ResourceView>,
}

/// A member of the group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    /// Its id, for as long as its Raft directory exists.
    pub id: String,
    /// The address at which its peers reach it.
    pub address: String,
    /// Its software version, once it has renewed.
    pub version: Option<String>,
    /// True if it counts for the quorum; if not, it is catching up.
    pub voter: bool,
    /// True if it renews its leases; `None` without a quorum, when that is unknown.
    pub alive: Option<bool>,
}

/// A duty and its lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DutyView {
    /// Its name.
    pub duty: String,
    /// The id of who holds the lease; `None` if none does, without a quorum, and for a replica that is alone.
    pub holder: Option<String>,
    /// The newest fencing token; `None` if none was given out yet.
    pub token: Option<u64>,
    /// True if the replica that answers holds the lease now, by its own clock.
    pub held: bool,
}

/// The store of all objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreView {
    /// Its revision when it was asked last, which happens twice a second; `None` if it has not answered yet.
    pub revision: Option<i64>,
}

/// The cache of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceView {
    /// `deployments.apps`
    pub resource: String,
    /// Up to which revision of the store the cache knows everything; `None` until it is loaded.
    pub revision: Option<i64>,
    /// By how many revisions it is behind the store.
    pub lag: Option<i64>,
}
