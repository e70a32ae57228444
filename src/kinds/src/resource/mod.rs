//! `resource.k8s.io`: devices that drivers offer, and claims on them.

pub(crate) mod deviceclasses;
pub(crate) mod devicetaintrules;
pub(crate) mod resourceclaims;
pub(crate) mod resourceclaimtemplates;
pub(crate) mod resourcepoolstatusrequests;
pub(crate) mod resourceslices;

mod allocation;
mod capacity;
mod claim;
mod device_sizes;
mod devices;
mod gated;
#[cfg(test)]
mod gated_tests;
mod lists;
mod names;
mod selectors;
mod shapes;
mod taints;
#[cfg(test)]
mod tests;
mod v1beta1;

use trireme_machinery::Features;

use crate::kind::Kind;

/// The group's kinds as they declare themselves.
pub(crate) fn kinds(features: Features) -> Vec<Kind> {
    vec![
        deviceclasses::kind(features),
        devicetaintrules::kind(),
        resourceclaims::kind(features),
        resourceclaimtemplates::kind(features),
        resourcepoolstatusrequests::kind(),
        resourceslices::kind(features),
    ]
}
