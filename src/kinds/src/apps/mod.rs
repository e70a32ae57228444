//! `apps`, one file a kind.

pub(crate) mod deployments;
pub(crate) mod replicasets;
mod workload;
