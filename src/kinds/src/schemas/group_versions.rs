//! The kinds that every group version has. OpenAPI documents list them with all group versions of a scheme, also with those that
//! are not served.

use serde_json::{Value, json};
use trireme_machinery::scheme::Scheme;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const KINDS: &str = "x-kubernetes-group-version-kind";
const IN_EVERY_VERSION: [&str; 2] = ["DeleteOptions", "WatchEvent"];

/// Lists the group versions of a scheme in the definition of a kind that all of them have.
pub(super) fn add(definition: &mut Value, name: &str, scheme: Scheme) {
    let kind = name.strip_prefix(META).unwrap_or_default();
    if !IN_EVERY_VERSION.contains(&kind) {
        return;
    }
    definition[KINDS] = scheme
        .group_versions()
        .map(|(group, version)| json!({"group": group, "version": version, "kind": kind}))
        .collect();
}
