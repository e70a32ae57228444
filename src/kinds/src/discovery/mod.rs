//! `discovery.k8s.io`.

pub(crate) mod endpointslices;
