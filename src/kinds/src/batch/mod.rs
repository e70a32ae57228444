//! `batch`, one file or folder a kind.

pub(crate) mod cronjobs;
pub(crate) mod jobs;
mod schedule;
