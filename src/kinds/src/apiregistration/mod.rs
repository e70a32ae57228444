//! `apiregistration.k8s.io`

pub(crate) mod apiservices;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![apiservices::kind()]
}
