//! `policy`, one file a kind.

pub(crate) mod disruption;
pub(crate) mod poddisruptionbudgets;

use crate::kind::Kind;
/// What each kind of the group declares of itself.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![poddisruptionbudgets::kind()]
}
