//! `apps`, one file a kind.

pub(crate) mod controllerrevisions;
pub(crate) mod daemonsets;
pub(crate) mod deployments;
pub(crate) mod replicasets;
pub(crate) mod statefulsets;

use crate::{kind::Kind, pod_template::Capabilities};

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(capabilities: Capabilities) -> Vec<Kind> {
    vec![
        controllerrevisions::kind(),
        daemonsets::kind(capabilities),
        deployments::kind(capabilities),
        replicasets::kind(capabilities),
        statefulsets::kind(capabilities),
    ]
}
