//! `scheduling.k8s.io`.

mod group_fields;
pub(crate) mod podgroups;
pub(crate) mod priorityclasses;
pub(crate) mod workloads;

use trireme_machinery::Features;

use crate::kind::Kind;

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(features: Features) -> Vec<Kind> {
    vec![
        podgroups::kind(features),
        priorityclasses::kind(),
        workloads::kind(features),
    ]
}
