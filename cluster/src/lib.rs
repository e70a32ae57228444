//! The replica group: who does singleton work.
//!
//! Knows nothing of Kubernetes. A replica is either alone ([`Standalone`]: it holds every duty, without Raft) or one of
//! a [`Group`] that agrees by Raft on who holds which duty, under a fencing token that only grows. Duties see both as a
//! [`LeaseWatch`].
//!
//! ```text
//! group      what a replica does: find its group, renew, referee as leader, hand over     tasks
//!   ├─ core        the rules: directory, leases, fence                                    values only
//!   ├─ network     openraft's calls to peers
//!   ├─ raft        openraft's configuration: types, timing
//!   ├─ store       vote, log, snapshot in one redb file                                   disk
//!   └─ transport   calls over mutual TLS                                                  network
//! ```
//!
//! Promises: at most one replica at a time believes that it holds a duty's lease; tokens never come twice;
//! without a quorum no replica holds anything. The decisions and their reasons are in `docs/adr/0002-replica-group.md`.

mod core;
mod group;
mod lease;
mod network;
mod raft;
mod rpc;
#[cfg(test)]
mod sim;
mod standalone;
mod store;
mod tenure;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod testing;
mod transport;

pub use core::{Incarnation, ReplicaId};
pub use group::{ChangeError, DutyStatus, Group, GroupConfig, HandOver, MemberStatus, StartError, Status};
pub use lease::{Duty, FencingToken, HeldLease};
pub use standalone::Standalone;
pub use store::StoreError;
pub use tenure::{LeaseWatch, Tenure};
pub use transport::{PeerCertificates, PeerTlsError};
