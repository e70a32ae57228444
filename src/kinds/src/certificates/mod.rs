//! `certificates.k8s.io`.

pub(crate) mod certificatesigningrequests;
pub(crate) mod clustertrustbundles;
mod issued;
mod keys;
pub(crate) mod pem;
pub(crate) mod podcertificaterequests;
mod requested_duration;
mod signing_request_checks;
pub(crate) mod x509;

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![
        certificatesigningrequests::kind(),
        clustertrustbundles::kind(),
        podcertificaterequests::kind(),
    ]
}
