//! `policy`, one file a kind.

pub(crate) mod disruption;
pub(crate) mod poddisruptionbudgets;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![poddisruptionbudgets::kind()]
}
