//! `storage.k8s.io`, one file a kind.

pub(crate) mod csidrivers;
pub(crate) mod csinodes;
pub(crate) mod csistoragecapacities;
pub(crate) mod storageclasses;
pub(crate) mod volumeattachments;
pub(crate) mod volumeattributesclasses;

use crate::kind::Kind;
/// What each kind of the group declares of itself.
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
