//! `apiregistration.k8s.io`

pub(crate) mod apiservices;

use crate::kind::Kind;
/// What each kind of the group declares of itself.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![apiservices::kind()]
}
