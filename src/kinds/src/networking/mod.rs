//! `networking.k8s.io`, one file a kind.

pub(crate) mod ingressclasses;
pub(crate) mod ingresses;
pub(crate) mod ipaddresses;
pub(crate) mod networkpolicies;
pub(crate) mod servicecidrs;
