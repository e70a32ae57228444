//! `certificates.k8s.io`.

pub(crate) mod certificatesigningrequests;
pub(crate) mod pem;
pub(crate) mod x509;
