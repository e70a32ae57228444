//! Fields of a pod's status that features bring, and that are dropped while these are off.

use serde_json::Value;
use trireme_machinery::{Feature, Features};

use super::container_statuses::LISTS;
use crate::{
    gated::GatedUse,
    values::{items, items_mut, remove},
};

/// The features that bring fields of the status.
const GATED: [GatedUse; 6] = [
    (
        Feature::InPlacePodLevelResourcesVerticalScaling,
        |status| status.get("resources").is_some() || status.get("allocatedResources").is_some(),
        |status| {
            remove(status, "resources");
            remove(status, "allocatedResources");
        },
    ),
    (
        Feature::DraExtendedResource,
        |status| status.get("extendedResourceClaimStatus").is_some(),
        |status| remove(status, "extendedResourceClaimStatus"),
    ),
    (
        Feature::ResourceHealthStatus,
        |status| containers(status).any(|container| !items(container, "allocatedResourcesStatus").is_empty()),
        |status| change_containers(status, |container| remove(container, "allocatedResourcesStatus")),
    ),
    (
        Feature::ResourceHealthStatusMessage,
        has_health_messages,
        drop_health_messages,
    ),
    (
        Feature::ImageVolumeWithDigest,
        |status| {
            let mut mounts = containers(status).flat_map(|container| items(container, "volumeMounts"));
            mounts.any(|mount| mount.get("volumeStatus").is_some())
        },
        |status| {
            change_containers(status, |container| {
                items_mut(container, "volumeMounts").for_each(|mount| remove(mount, "volumeStatus"));
            });
        },
    ),
    (
        Feature::DraNodeAllocatableResources,
        |status| !items(status, "nodeAllocatableResourceClaimStatuses").is_empty(),
        |status| remove(status, "nodeAllocatableResourceClaimStatuses"),
    ),
];

/// Removes fields of features that are off from the status, unless the old one has them (`dropDisabledPodStatusFields`).
pub(super) fn drop_disabled_status(features: Features, pod: &mut Value, old: Option<&Value>) {
    let Some(status) = pod.get_mut("status") else { return };
    let old = old.and_then(|old| old.get("status"));
    for (feature, is_used, drop) in GATED {
        if !features.has(feature) && !old.is_some_and(is_used) {
            drop(status);
        }
    }
}

/// The statuses of all containers.
fn containers(status: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|(list, _)| items(status, list))
}

/// Changes the status of each container.
fn change_containers(status: &mut Value, mut change: impl FnMut(&mut Value)) {
    for (list, _) in LISTS {
        items_mut(status, list).for_each(&mut change);
    }
}

fn has_health_messages(status: &Value) -> bool {
    let resources = containers(status).flat_map(|container| items(container, "allocatedResourcesStatus"));
    let mut parts = resources.flat_map(|resource| items(resource, "resources"));
    parts.any(|part| part.get("message").is_some())
}

fn drop_health_messages(status: &mut Value) {
    change_containers(status, |container| {
        let resources = items_mut(container, "allocatedResourcesStatus");
        let parts = resources.flat_map(|resource| items_mut(resource, "resources"));
        parts.for_each(|part| remove(part, "message"));
    });
}
