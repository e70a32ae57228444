//! `autoscaling`, one module a kind.

pub(crate) mod horizontalpodautoscalers;
pub(crate) mod scale;

use crate::kind::Kind;
/// What each kind of the group declares of itself.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![horizontalpodautoscalers::kind()]
}
