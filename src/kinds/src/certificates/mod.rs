//! `certificates.k8s.io`.

pub(crate) mod certificatesigningrequests;
pub(crate) mod pem;
pub(crate) mod x509;

use crate::kind::Kind;
/// What each kind of the group declares of itself.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![certificatesigningrequests::kind()]
}
