//! The kinds that every group version has. OpenAPI documents list them with all group versions of a scheme of Kubernetes, also
//! with those that are not served.

use serde_json::{Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const KINDS: &str = "x-kubernetes-group-version-kind";
const IN_EVERY_VERSION: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// A scheme of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    /// That of clients (`k8s.io/client-go/kubernetes/scheme`).
    Clients,
    /// That of kube-apiserver with all servers in it.
    Server,
}

/// The groups that clients do not know.
const OF_SERVER: [&str; 4] = [
    "admission.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "imagepolicy.k8s.io",
];

const GROUP_VERSIONS: &[(&str, &[&str])] = &[
    ("", &["v1"]),
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1", "v1beta1", "v1beta2", "v1beta3"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1beta1"]),
];

/// Lists the group versions of a scheme in the definition of a kind that all of them have.
pub(super) fn add(definition: &mut Value, name: &str, scheme: Scheme) {
    let kind = name.strip_prefix(META).unwrap_or_default();
    if !IN_EVERY_VERSION.contains(&kind) {
        return;
    }
    let known = |group: &&str| scheme == Scheme::Server || !OF_SERVER.contains(group);
    definition[KINDS] = GROUP_VERSIONS
        .iter()
        .filter(|(group, _)| known(group))
        .flat_map(|(group, versions)| versions.iter().map(move |version| (group, version)))
        .map(|(group, version)| json!({"group": group, "version": version, "kind": kind}))
        .collect();
}
