//! The members of the group: each replica's id, address, version and incarnation, and whether it is live.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// Names a replica for as long as its Raft directory exists: random, made with the directory and stored in it. A
/// replica that lost its directory has lost its votes with it, and must not be taken for the one that cast them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReplicaId(pub u64);

impl fmt::Display for ReplicaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<u64> for ReplicaId {
    fn from(number: u64) -> Self {
        Self(number)
    }
}

impl std::str::FromStr for ReplicaId {
    type Err = std::num::ParseIntError;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u64::from_str_radix(text, 16).map(Self)
    }
}

/// Counts the starts of a replica on its directory, so that a process is distinguished from the one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(pub u64);

/// The description that a replica gives of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplicaDescription {
    pub(crate) incarnation: Incarnation,
    /// The address at which its peers reach it, `host:port`.
    pub(crate) address: String,
    /// Its software version, for people.
    pub(crate) version: String,
    /// The duties that it would do.
    pub(crate) duties: BTreeSet<String>,
}

/// The standing of a replica in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Standing {
    /// It renews, and takes leases.
    Live,
    /// It goes on renewing, but gives up its leases because it is about to be removed.
    Retiring,
    /// It has not renewed for too long. It may come back as it is.
    Expired,
    /// It said good-bye. Only a new incarnation comes back.
    Left,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Replica {
    pub(crate) facts: ReplicaDescription,
    pub(crate) standing: Standing,
}

impl Replica {
    /// Returns true if it is expected to renew, and so can be overdue.
    pub(crate) fn renews(&self) -> bool {
        matches!(self.standing, Standing::Live | Standing::Retiring)
    }

    /// Returns true if it may be given a lease on `duty`.
    pub(crate) fn takes(&self, duty: &str) -> bool {
        self.standing == Standing::Live && self.facts.duties.contains(duty)
    }
}

/// All replicas that have ever entered and were not removed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Directory {
    pub(crate) replicas: BTreeMap<ReplicaId, Replica>,
    /// Ids that may never enter again. They are random, so this grows by one per removal only.
    pub(crate) removed: BTreeSet<ReplicaId>,
}

/// The result of [`Directory::enter`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DirectoryEntry {
    /// It is in, as a new process: whatever its former process held is free.
    Anew,
    /// It is in, as the process it was.
    Again,
    /// It was removed from the group.
    Removed,
    /// A later process of it has entered, or it has said good-bye.
    Over,
}

impl Directory {
    pub(crate) fn enter(&mut self, id: ReplicaId, facts: ReplicaDescription) -> DirectoryEntry {
        if self.removed.contains(&id) {
            return DirectoryEntry::Removed;
        }
        let Some(known) = self.replicas.get_mut(&id) else {
            let standing = Standing::Live;
            self.replicas.insert(id, Replica { facts, standing });
            return DirectoryEntry::Anew;
        };
        let is_new = facts.incarnation > known.facts.incarnation;
        let is_over = known.standing == Standing::Left && !is_new;
        if is_over || facts.incarnation < known.facts.incarnation {
            return DirectoryEntry::Over;
        }
        if is_new || known.standing == Standing::Expired {
            known.standing = Standing::Live;
        }
        known.facts = facts;
        if is_new {
            DirectoryEntry::Anew
        } else {
            DirectoryEntry::Again
        }
    }

    /// Sets how `id` stands, if it is still this process of it.
    pub(crate) fn set_standing(&mut self, id: ReplicaId, incarnation: Incarnation, standing: Standing) -> bool {
        match self.replicas.get_mut(&id) {
            Some(replica) if replica.facts.incarnation == incarnation && replica.renews() => {
                replica.standing = standing;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn remove(&mut self, id: ReplicaId) {
        self.replicas.remove(&id);
        self.removed.insert(id);
    }
}
