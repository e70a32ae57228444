//! `networking.k8s.io`, one file a kind.

pub(crate) mod ingressclasses;
pub(crate) mod ingresses;
pub(crate) mod ipaddresses;
pub(crate) mod networkpolicies;
pub(crate) mod servicecidrs;

use trireme_machinery::Features;

use crate::kind::Kind;

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(features: Features) -> Vec<Kind> {
    vec![
        ingressclasses::kind(),
        ingresses::kind(features),
        ipaddresses::kind(),
        networkpolicies::kind(features),
        servicecidrs::kind(features),
    ]
}
