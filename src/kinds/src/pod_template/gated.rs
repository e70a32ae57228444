//! Features of pods and templates: their fields, which are dropped while they are off, and what of them a change is
//! validated with.

use serde_json::Value;
use trireme_machinery::{Feature, Features};

use super::{
    annotations,
    check::{CONTAINER_LISTS, is_true},
    scheduling,
    security::Capabilities,
};
use crate::{
    gated::GatedUse,
    values::{at, entries, items, items_mut, remove, text},
};

/// The features that bring fields of the spec.
const GATED: [GatedUse; 9] = [
    (
        Feature::GenericWorkload,
        |spec| spec.get("schedulingGroup").is_some(),
        |spec| remove(spec, "schedulingGroup"),
    ),
    (
        Feature::ClusterTrustBundleProjection,
        |spec| is_projected(spec, "clusterTrustBundle"),
        |spec| drop_projected(spec, "clusterTrustBundle"),
    ),
    (
        Feature::PodCertificateRequest,
        |spec| is_projected(spec, "podCertificate"),
        |spec| drop_projected(spec, "podCertificate"),
    ),
    (Feature::ContainerStopSignals, has_stop_signals, drop_stop_signals),
    (Feature::ContainerRestartRules, has_restart_rules, drop_restart_rules),
    (Feature::EnvFiles, has_file_keys, drop_file_keys),
    (
        Feature::HostnameOverride,
        |spec| spec.get("hostnameOverride").is_some(),
        |spec| remove(spec, "hostnameOverride"),
    ),
    (Feature::PodLevelResources, has_resources, |spec| {
        remove(spec, "resources")
    }),
    (
        Feature::MatchLabelKeysInPodTopologySpread,
        has_label_keys,
        drop_label_keys,
    ),
];

/// Removes fields of features that are off from the pod's spec that is there, unless the old one has them
/// (`DropDisabledTemplateFields`).
pub(crate) fn drop_disabled_at(capabilities: Capabilities, object: &mut Value, old: Option<&Value>, pod_spec: &str) {
    let Some(spec) = object.pointer_mut(pod_spec) else {
        return;
    };
    let old = old.and_then(|old| at(old, pod_spec));
    for (feature, is_used, drop) in GATED {
        if !capabilities.features.has(feature) && !old.is_some_and(is_used) {
            drop(spec);
        }
    }
}

/// A feature, the state that an old object turns it to, and what of its metadata and spec that is for.
type Switch = (Feature, bool, fn(&Value, &Value) -> bool);

/// The features that an old pod or template turns on (`true`) or off for the validation of its changes, each with what
/// of its metadata and spec it is for.
const SWITCHES: [Switch; 9] = [
    (Feature::ContainerRestartRules, true, |_, spec| has_restart_rules(spec)),
    (Feature::RestartAllContainersOnContainerExits, true, |_, spec| {
        has_rules_for_all(spec)
    }),
    (Feature::EnvFiles, true, |_, spec| has_file_keys(spec)),
    (Feature::SelinuxMount, true, |_, spec| {
        at(spec, "/securityContext/seLinuxChangePolicy").is_some_and(|policy| !policy.is_null())
    }),
    (Feature::TaintTolerationComparisonOperators, true, |_, spec| {
        let mut tolerations = items(spec, "tolerations").iter();
        tolerations.any(|toleration| matches!(text(toleration, "operator"), "Lt" | "Gt"))
    }),
    (Feature::UserNamespacesHostNetworkSupport, true, |_, spec| {
        is_true(spec, "hostNetwork") && spec.get("hostUsers") == Some(&Value::Bool(false))
    }),
    (Feature::PodDeletionCost, false, |metadata, _| {
        annotations::invalid_deletion_cost(metadata).is_some()
    }),
    (
        Feature::MatchLabelKeysInPodTopologySpreadSelectorMerge,
        false,
        |_, spec| scheduling::has_invalid_label_keys(spec, true),
    ),
    (
        Feature::MatchLabelKeysInPodTopologySpreadSelectorMerge,
        true,
        |_, spec| scheduling::has_invalid_label_keys(spec, false),
    ),
];

/// The features by which a change of an old pod or template is validated, so that what was allowed stays allowed
/// (`GetValidationOptionsFromPodSpecAndMeta`).
pub(super) fn features_in_change_of(features: Features, old: &Value) -> Features {
    let none = Value::Null;
    let part = |name: &str| old.get(name).unwrap_or(&none);
    let (metadata, spec) = (part("metadata"), part("spec"));
    let switches = SWITCHES.iter();
    let switched: Vec<Feature> = switches
        .filter(|(feature, state, applies)| features.has(*feature) != *state && applies(metadata, spec))
        .map(|(feature, ..)| *feature)
        .collect();
    if switched.is_empty() {
        return features;
    }
    let is_switched = |gate: &str| {
        let mut all = Feature::ALL.iter();
        all.any(|(feature, of, _)| *of == gate && switched.contains(feature))
    };
    Features::of_gates(|gate| features.has_gate(gate) != is_switched(gate))
}

/// All containers of a spec.
fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|list| items(spec, list))
}

/// Changes each container of a spec.
fn change_containers(spec: &mut Value, mut change: impl FnMut(&mut Value)) {
    for list in CONTAINER_LISTS {
        items_mut(spec, list).for_each(&mut change);
    }
}

/// Reports whether a volume has a source of this sort.
fn is_projected(pod_spec: &Value, source: &str) -> bool {
    let sources = items(pod_spec, "volumes")
        .iter()
        .filter_map(|volume| volume.get("projected"));
    let mut sources = sources.flat_map(|projected| items(projected, "sources"));
    sources.any(|of_volume| of_volume.get(source).is_some())
}

fn drop_projected(spec: &mut Value, source: &str) {
    for volume in items_mut(spec, "volumes") {
        let sources = volume.pointer_mut("/projected/sources").and_then(Value::as_array_mut);
        for of_volume in sources.into_iter().flatten() {
            remove(of_volume, source);
        }
    }
}

fn has_stop_signals(spec: &Value) -> bool {
    containers(spec).any(|container| at(container, "/lifecycle/stopSignal").is_some())
}

fn drop_stop_signals(spec: &mut Value) {
    change_containers(spec, |container| {
        let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else {
            return;
        };
        if lifecycle.remove("stopSignal").is_some() && lifecycle.is_empty() {
            remove(container, "lifecycle");
        }
    });
}

/// Reports whether an init container has a policy of its own other than that of sidecars.
fn is_policy_of_rules(container: &Value) -> bool {
    let policy = container.get("restartPolicy").and_then(Value::as_str);
    policy.is_some_and(|policy| policy != "Always")
}

/// Policies of containers come with their rules, but for that of sidecars (`containerRestartRulesInUse`).
fn has_restart_rules(spec: &Value) -> bool {
    let of_init = |container: &Value| is_policy_of_rules(container) || has_rules(container);
    let of_main = |container: &Value| container.get("restartPolicy").is_some();
    items(spec, "initContainers").iter().any(of_init) || items(spec, "containers").iter().any(of_main)
}

fn has_rules(container: &Value) -> bool {
    !items(container, "restartPolicyRules").is_empty()
}

fn drop_restart_rules(spec: &mut Value) {
    for list in CONTAINER_LISTS {
        for container in items_mut(spec, list) {
            remove(container, "restartPolicyRules");
            if list != "initContainers" || is_policy_of_rules(container) {
                remove(container, "restartPolicy");
            }
        }
    }
}

/// Reports whether a container's end may restart all of them, or a sidecar has rules (`restartAllContainersActionInUse`).
fn has_rules_for_all(spec: &Value) -> bool {
    let restarts_all = |container: &Value| {
        let mut rules = items(container, "restartPolicyRules").iter();
        rules.any(|rule| text(rule, "action") == "RestartAllContainers")
    };
    let of_init = |container: &Value| {
        restarts_all(container) || text(container, "restartPolicy") == "Always" && has_rules(container)
    };
    items(spec, "containers").iter().any(restarts_all) || items(spec, "initContainers").iter().any(of_init)
}

fn has_file_keys(spec: &Value) -> bool {
    let mut variables = containers(spec).flat_map(|container| items(container, "env"));
    variables.any(|variable| at(variable, "/valueFrom/fileKeyRef").is_some())
}

fn drop_file_keys(spec: &mut Value) {
    change_containers(spec, |container| {
        let sources = items_mut(container, "env").filter_map(|variable| variable.get_mut("valueFrom"));
        sources.for_each(|source| remove(source, "fileKeyRef"));
    });
}

/// Reports whether there are resources of the pod as a whole (`podLevelResourcesInUse`).
pub(crate) fn has_resources(spec: &Value) -> bool {
    let resources = spec.get("resources").unwrap_or(&Value::Null);
    ["requests", "limits"]
        .iter()
        .any(|list| entries(resources, list).next().is_some())
}

fn has_label_keys(spec: &Value) -> bool {
    let mut constraints = items(spec, "topologySpreadConstraints").iter();
    constraints.any(|constraint| !items(constraint, "matchLabelKeys").is_empty())
}

fn drop_label_keys(spec: &mut Value) {
    items_mut(spec, "topologySpreadConstraints").for_each(|constraint| remove(constraint, "matchLabelKeys"));
}
