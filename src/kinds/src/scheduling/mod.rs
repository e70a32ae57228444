//! `scheduling.k8s.io`.

pub(crate) mod priorityclasses;
