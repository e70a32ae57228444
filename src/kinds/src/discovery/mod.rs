//! `discovery.k8s.io`.

pub(crate) mod endpointslices;

use trireme_machinery::Features;

use crate::kind::Kind;

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(features: Features) -> Vec<Kind> {
    vec![endpointslices::kind(features)]
}
