//! `authorization.k8s.io`: what reviews of access must be.

pub mod accessreviews;
