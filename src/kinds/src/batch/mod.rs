//! `batch`, one file or folder a kind.

pub(crate) mod cronjobs;
pub(crate) mod jobs;
mod schedule;

use crate::kind::Kind;
/// What each kind of the group declares of itself.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![cronjobs::kind(), jobs::kind()]
}
