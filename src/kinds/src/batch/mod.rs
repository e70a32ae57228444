//! `batch`, one file or folder a kind.

pub(crate) mod cronjobs;
pub(crate) mod jobs;
mod schedule;

use crate::{kind::Kind, pod_template::Capabilities};

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(capabilities: Capabilities) -> Vec<Kind> {
    vec![cronjobs::kind(capabilities), jobs::kind(capabilities)]
}
