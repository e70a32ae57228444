//! The replica group: who does singleton work.
//!
//! Knows nothing of Kubernetes. There is one form of group yet, [`Standalone`]: a replica that is alone and so holds
//! every duty itself, without Raft. The group over openraft is not there yet, so several replicas over one etcd must
//! not run duties; `trireme serve` refuses to pretend otherwise.

mod lease;
mod standalone;

pub use lease::{Duty, FencingToken, HeldLease};
pub use standalone::Standalone;
