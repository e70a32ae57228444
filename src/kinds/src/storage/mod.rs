//! `storage.k8s.io`, one file a kind.

pub(crate) mod csidrivers;
pub(crate) mod csinodes;
pub(crate) mod csistoragecapacities;
pub(crate) mod storageclasses;
pub(crate) mod volumeattachments;
pub(crate) mod volumeattributesclasses;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![
        csidrivers::kind(),
        csinodes::kind(),
        csistoragecapacities::kind(),
        storageclasses::kind(),
        volumeattachments::kind(),
        volumeattributesclasses::kind(),
    ]
}
