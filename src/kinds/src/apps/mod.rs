//! `apps`, one file a kind.

pub(crate) mod controllerrevisions;
pub(crate) mod daemonsets;
pub(crate) mod deployments;
pub(crate) mod replicasets;
pub(crate) mod statefulsets;
pub(crate) mod workload;
