//! `autoscaling`, one module a kind.

pub(crate) mod horizontalpodautoscalers;
pub(crate) mod scale;

use trireme_machinery::Features;

use crate::kind::Kind;

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(features: Features) -> Vec<Kind> {
    vec![horizontalpodautoscalers::kind(features)]
}
