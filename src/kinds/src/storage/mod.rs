//! `storage.k8s.io`, one file a kind.

pub(crate) mod csidrivers;
pub(crate) mod csinodes;
pub(crate) mod csistoragecapacities;
#[cfg(test)]
#[path = "/tmp/kreplay_b.rs"]
mod kreplay_b;
pub(crate) mod storageclasses;
pub(crate) mod volumeattachments;
pub(crate) mod volumeattributesclasses;
