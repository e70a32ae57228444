//! `certificates.k8s.io`.

pub(crate) mod certificatesigningrequests;
mod pem;
