//! `policy`, one file a kind.

pub(crate) mod poddisruptionbudgets;
