//! Defaults of a pod's spec that depend on other fields.

use serde_json::{Map, Value, json};
use trireme_machinery::{
    Feature, Features,
    pod_resources::{ListName, aggregate, is_pod_level, listed},
};

use super::{gated::has_resources, image};
use crate::{
    resource_names::is_huge_pages,
    values::{entries, set_default, struct_mut, text},
};

/// Sets the defaults of a template's or a pod's spec. Idempotent.
pub(crate) fn default_spec(pod_spec: &mut Value) {
    let Some(spec) = pod_spec.as_object_mut() else { return };
    mirror_service_account(spec);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        list_mut(spec, list).for_each(|container| default_pull_policy(container, "image", "imagePullPolicy"));
    }
    list_mut(spec, "volumes").for_each(default_volume);
}

/// Sets what only pods have by default, and templates do not.
pub(crate) fn default_pod(features: Features, pod_spec: &mut Value) {
    let host_network = pod_spec.get("hostNetwork").and_then(Value::as_bool).unwrap_or(false);
    let Some(spec) = pod_spec.as_object_mut() else { return };
    set_default(spec, "enableServiceLinks", true);
    if let Some(period) = spec.get_mut("terminationGracePeriodSeconds")
        && period.as_i64().is_some_and(|seconds| seconds < 0)
    {
        *period = 1.into();
    }
    for list in ["initContainers", "containers"] {
        for container in list_mut(spec, list) {
            default_requests(container);
            if host_network {
                default_host_ports(container);
            }
        }
    }
    if features.has(Feature::PodLevelResources) {
        default_huge_page_limits(pod_spec);
        default_pod_level_requests(pod_spec);
    }
}

fn list_mut<'a>(fields: &'a mut Map<String, Value>, name: &str) -> impl Iterator<Item = &'a mut Value> {
    fields.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// `serviceAccount` is the old name of `serviceAccountName`; both are always written, the new one wins.
fn mirror_service_account(spec: &mut Map<String, Value>) {
    let named = ["serviceAccountName", "serviceAccount"].into_iter().find_map(|field| {
        let name = spec.get(field).and_then(Value::as_str).unwrap_or("");
        (!name.is_empty()).then(|| name.to_owned())
    });
    if let Some(name) = named {
        spec.insert("serviceAccountName".into(), name.clone().into());
        spec.insert("serviceAccount".into(), name.into());
    }
}

/// An image whose tag may move is pulled always.
fn default_pull_policy(owner: &mut Value, reference: &str, policy: &str) {
    if !text(owner, policy).is_empty() {
        return;
    }
    let chosen = if image::may_move(text(owner, reference)) {
        "Always"
    } else {
        "IfNotPresent"
    };
    if let Some(fields) = owner.as_object_mut() {
        fields.insert(policy.into(), chosen.into());
    }
}

/// Limits without requests are requests.
fn default_requests(container: &mut Value) {
    let Some(resources) = container.get_mut("resources") else {
        return;
    };
    let Some(limits) = resources
        .get("limits")
        .and_then(Value::as_object)
        .filter(|limits| !limits.is_empty())
    else {
        return;
    };
    let limits = limits.clone();
    let requests = struct_mut(resources, "requests");
    limits
        .into_iter()
        .for_each(|(name, limit)| set_default(requests, &name, limit));
}

/// Sets the limits of huge pages of a pod that has resources as a whole: those of its containers together, unless the pod
/// asks for such pages (`defaultHugePagePodLimits`).
fn default_huge_page_limits(spec: &mut Value) {
    if !has_resources(spec) {
        return;
    }
    let is_asked = |name: &str| {
        spec.pointer("/resources/requests")
            .is_some_and(|list| list.get(name).is_some())
    };
    let mut limits = aggregate(spec, |container| listed(container, ListName::Limits));
    limits.retain(|name, _| is_huge_pages(name) && !is_asked(name));
    if let Some(resources) = spec.get_mut("resources").filter(|_| !limits.is_empty()) {
        let given = struct_mut(resources, "limits");
        let limits = limits.into_iter();
        limits.for_each(|(name, amount)| set_default(given, &name, amount.to_string()));
    }
}

/// Sets the requests of the pod as a whole: what its containers ask for, else its limits.
fn default_pod_level_requests(spec: &mut Value) {
    let Some(resources) = spec.get("resources") else { return };
    if entries(resources, "limits").next().is_none() {
        return;
    }
    let mut defaults: Vec<(String, Value)> = aggregate(spec, |container| listed(container, ListName::Requests))
        .into_iter()
        .filter(|(name, _)| is_pod_level(name) && !name.starts_with("hugepages-"))
        .map(|(name, amount)| (name, amount.to_string().into()))
        .collect();
    let limits = entries(resources, "limits").filter(|(name, _)| is_pod_level(name));
    defaults.extend(limits.map(|(name, limit)| (name.to_owned(), limit.clone())));
    if !defaults.is_empty()
        && let Some(resources) = spec.get_mut("resources")
    {
        let requests = struct_mut(resources, "requests");
        defaults
            .into_iter()
            .for_each(|(name, amount)| set_default(requests, &name, amount));
    }
}

/// Under the host's network a port of a container is the host's.
fn default_host_ports(container: &mut Value) {
    let Some(fields) = container.as_object_mut() else {
        return;
    };
    for port in list_mut(fields, "ports").filter_map(Value::as_object_mut) {
        let Some(number) = port.get("containerPort").cloned() else {
            continue;
        };
        if port.get("hostPort").and_then(Value::as_i64).unwrap_or(0) == 0 {
            port.insert("hostPort".into(), number);
        }
    }
}

/// A volume without a source is an empty directory.
fn default_volume(volume: &mut Value) {
    if let Some(image) = volume.get_mut("image") {
        default_pull_policy(image, "reference", "pullPolicy");
    }
    let Some(fields) = volume.as_object_mut() else { return };
    if fields.keys().all(|key| key == "name") {
        fields.insert("emptyDir".into(), json!({}));
    }
}
