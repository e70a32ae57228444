//! `storagemigration.k8s.io`.

pub(crate) mod storageversionmigrations;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![storageversionmigrations::kind()]
}
