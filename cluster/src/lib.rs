//! The replica group: who does singleton work.
//!
//! Knows nothing of Kubernetes.

mod core;
mod lease;
mod raft;
#[cfg(test)]
mod sim;
mod standalone;
mod store;

pub use core::{Incarnation, ReplicaId};
pub use lease::{Duty, FencingToken, HeldLease};
pub use standalone::Standalone;
