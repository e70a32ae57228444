//! `coordination.k8s.io`

pub(crate) mod leasecandidates;
pub(crate) mod leases;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![leasecandidates::kind(), leases::kind()]
}
