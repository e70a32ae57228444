//! `policy`, one file a kind.

pub(crate) mod disruption;
pub(crate) mod poddisruptionbudgets;
