//! `storage.k8s.io`, one file a kind.

pub(crate) mod csidrivers;
pub(crate) mod csinodes;
pub(crate) mod csistoragecapacities;
pub(crate) mod storageclasses;
pub(crate) mod volumeattachments;
pub(crate) mod volumeattributesclasses;

use trireme_machinery::Features;

use crate::kind::Kind;

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(features: Features) -> Vec<Kind> {
    vec![
        csidrivers::kind(features),
        csinodes::kind(),
        csistoragecapacities::kind(),
        storageclasses::kind(),
        volumeattachments::kind(),
        volumeattributesclasses::kind(),
    ]
}
