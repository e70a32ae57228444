//! `apps`, one file a kind.

pub(crate) mod controllerrevisions;
pub(crate) mod daemonsets;
pub(crate) mod deployments;
pub(crate) mod replicasets;
pub(crate) mod statefulsets;
pub(crate) mod workload;

use crate::kind::Kind;
/// What each kind of the group declares of itself.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![
        controllerrevisions::kind(),
        daemonsets::kind(),
        deployments::kind(),
        replicasets::kind(),
        statefulsets::kind(),
    ]
}
