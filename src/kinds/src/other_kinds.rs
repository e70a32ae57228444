//! Built-in kinds that no resource serves.

use std::collections::HashSet;

use trireme_machinery::{GroupVersion, GroupVersionKind};

/// Versions that are served no longer, with the kinds that kube-apiserver still knows in them.
const RETIRED: &[(&str, &str, &[&str])] = &[
    (
        "apps",
        "v1beta1",
        &["ControllerRevision", "Deployment", "Scale", "StatefulSet"],
    ),
    (
        "apps",
        "v1beta2",
        &[
            "ControllerRevision",
            "DaemonSet",
            "Deployment",
            "ReplicaSet",
            "Scale",
            "StatefulSet",
        ],
    ),
    ("batch", "v1beta1", &["CronJob"]),
    (
        "extensions",
        "v1beta1",
        &[
            "DaemonSet",
            "Deployment",
            "Ingress",
            "NetworkPolicy",
            "ReplicaSet",
            "Scale",
        ],
    ),
    ("networking.k8s.io", "v1beta1", &["Ingress", "IngressClass"]),
    ("policy", "v1beta1", &["Eviction", "PodDisruptionBudget"]),
];

/// Kinds without a resource of their own.
const WITHOUT_RESOURCE: [(&str, &str, &[&str]); 4] = [
    (
        "",
        "v1",
        &[
            "APIGroup",
            "APIGroupList",
            "APIResourceList",
            "APIVersions",
            "List",
            "Status",
        ],
    ),
    ("authentication.k8s.io", "v1", &["TokenRequest"]),
    ("autoscaling", "v1", &["Scale"]),
    ("policy", "v1", &["Eviction"]),
];

/// The built-in kinds that clients may name although no resource serves them: those of the API machinery and of
/// subresources, and retired ones.
pub fn other_kinds() -> HashSet<GroupVersionKind> {
    let rows = RETIRED.iter().chain(&WITHOUT_RESOURCE);
    rows.flat_map(|(group, version, kinds)| {
        let version = GroupVersion::new(group, version);
        kinds.iter().map(move |kind| version.with_kind(kind))
    })
    .collect()
}
