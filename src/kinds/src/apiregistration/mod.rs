//! `apiregistration.k8s.io`

pub(crate) mod apiservices;
