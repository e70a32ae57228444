//! `storage.k8s.io`, one file a kind.

pub(crate) mod csidrivers;
pub(crate) mod csinodes;
pub(crate) mod csistoragecapacities;
pub(crate) mod storageclasses;
pub(crate) mod volumeattachments;
pub(crate) mod volumeattributesclasses;
