//! `coordination.k8s.io`

pub(crate) mod leasecandidates;
pub(crate) mod leases;

use trireme_machinery::Features;

use crate::kind::Kind;

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(features: Features) -> Vec<Kind> {
    vec![leasecandidates::kind(), leases::kind(features)]
}
