//! Versions in which kube-apiserver may have stored objects, beside those that are served.
//!
//! They are the versions that kube-apiserver 1.36 still decodes and whose objects differ from the stored version by their
//! name, or by what [`conversion`] turns. Messages of such a version have the tags of the stored one, by whose type they are
//! decoded.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_machinery::GroupVersion;
use trireme_registry::{Conversion, ReadableVersion, ServedVersion};

/// Groups of plurals, with the versions in which they are read.
const READ: &[(&str, &[&str], &[&str])] = &[
    (
        "admissionregistration.k8s.io",
        &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
        &["v1beta1"],
    ),
    (
        "admissionregistration.k8s.io",
        &[
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        ],
        &["v1beta1", "v1alpha1"],
    ),
    ("apiregistration.k8s.io", &["apiservices"], &["v1beta1"]),
    (
        "apps",
        &["controllerrevisions", "deployments", "statefulsets"],
        &["v1beta2", "v1beta1"],
    ),
    ("apps", &["daemonsets", "replicasets"], &["v1beta2"]),
    ("batch", &["cronjobs"], &["v1beta1"]),
    ("certificates.k8s.io", &["certificatesigningrequests"], &["v1beta1"]),
    ("coordination.k8s.io", &["leases"], &["v1beta1"]),
    (
        "flowcontrol.apiserver.k8s.io",
        &["flowschemas", "prioritylevelconfigurations"],
        &["v1beta3", "v1beta2", "v1beta1"],
    ),
    (
        "networking.k8s.io",
        &["ingressclasses", "ipaddresses", "servicecidrs"],
        &["v1beta1"],
    ),
    ("node.k8s.io", &["runtimeclasses"], &["v1beta1"]),
    ("policy", &["poddisruptionbudgets"], &["v1beta1"]),
    (
        "rbac.authorization.k8s.io",
        &["clusterrolebindings", "clusterroles", "rolebindings", "roles"],
        &["v1beta1"],
    ),
    (
        "resource.k8s.io",
        &[
            "deviceclasses",
            "resourceclaims",
            "resourceclaimtemplates",
            "resourceslices",
        ],
        &["v1beta2"],
    ),
    ("scheduling.k8s.io", &["priorityclasses"], &["v1beta1", "v1alpha1"]),
    (
        "storage.k8s.io",
        &["csistoragecapacities", "volumeattachments", "volumeattributesclasses"],
        &["v1beta1", "v1alpha1"],
    ),
    (
        "storage.k8s.io",
        &["csidrivers", "csinodes", "storageclasses"],
        &["v1beta1"],
    ),
];

/// The versions in which objects of a resource are read without being served.
pub(crate) fn readable(
    group: &str,
    plural: &str,
    stored: &ServedVersion,
    served: &[ServedVersion],
) -> Vec<ReadableVersion> {
    let rows = READ
        .iter()
        .filter(|(of, plurals, _)| *of == group && plurals.contains(&plural));
    let versions = rows.flat_map(|(_, _, versions)| versions.iter());
    let versions = versions.map(|version| GroupVersion::new(group, version));
    versions
        .filter(|version| served.iter().all(|served| served.group_version != *version))
        .map(|version| ReadableVersion {
            conversion: conversion(plural, &version),
            group_version: version,
            type_id: stored.type_id,
        })
        .collect()
}

fn conversion(plural: &str, version: &GroupVersion) -> Option<Arc<dyn Conversion>> {
    match (plural, &*version.version) {
        ("prioritylevelconfigurations", "v1beta1" | "v1beta2") => Some(Arc::new(AssuredShares)),
        ("poddisruptionbudgets", "v1beta1") => Some(Arc::new(EmptySelector)),
        _ => None,
    }
}

/// Version 1beta2 of priority levels and those before it speak of assured shares, under the same tag.
struct AssuredShares;

impl Conversion for AssuredShares {
    fn to_stored(&self, object: &mut Value) {
        let limited = object.pointer_mut("/spec/limited").and_then(Value::as_object_mut);
        if let Some(limited) = limited
            && let Some(shares) = limited.remove("assuredConcurrencyShares")
        {
            limited.insert("nominalConcurrencyShares".into(), shares);
        }
    }

    fn to_served(&self, _: &mut Value) {}
}

/// The label that stands for the other meaning of an empty selector.
const EMPTY_SELECTOR: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";

/// An empty selector of a disruption budget selects nothing in version 1beta1, and everything in version 1.
struct EmptySelector;

impl Conversion for EmptySelector {
    fn to_stored(&self, object: &mut Value) {
        let Some(selector) = object
            .pointer_mut("/spec/selector")
            .filter(|selector| selector.is_object())
        else {
            return;
        };
        let part = |name: &str| {
            selector
                .get(name)
                .filter(|part| **part != json!([]) && **part != json!({}))
        };
        let labels = part("matchLabels").filter(|labels| !labels.is_null());
        let expressions = part("matchExpressions").filter(|expressions| !expressions.is_null());
        let expression = |operator: &str| json!([{ "key": EMPTY_SELECTOR, "operator": operator }]);
        match (labels, expressions) {
            (None, None) => *selector = json!({ "matchExpressions": expression("Exists") }),
            (None, Some(all)) if *all == expression("DoesNotExist") => *selector = json!({}),
            _ => {}
        }
    }

    fn to_served(&self, _: &mut Value) {}
}

#[cfg(test)]
mod tests {
    use trireme_machinery::schema::{Shape, TypeTable};
    use trireme_schema::{complete_type_table, type_name};

    use super::*;
    use crate::{builtin::resources, testing::settings};

    #[test]
    fn every_row_is_a_resource() {
        let (_dir, settings) = settings();
        let resources = resources(&settings);
        for (group, plurals, versions) in READ {
            for plural in *plurals {
                let of = resources.iter().find(|definition| {
                    *definition.resource.group == **group && *definition.resource.resource == **plural
                });
                let of = of.unwrap_or_else(|| panic!("{plural}.{group} is no resource"));
                for version in *versions {
                    let version = GroupVersion::new(group, version);
                    let served = of.versions.iter().map(|served| &served.group_version);
                    let readable = of.readable.iter().map(|readable| &readable.group_version);
                    assert_eq!(
                        served.chain(readable).filter(|known| **known == version).count(),
                        1,
                        "{plural} {version}"
                    );
                }
            }
        }
    }

    /// The fields of a type by name, tag and shape, those of the types in it included, under short names.
    fn layout(table: &TypeTable, name: &str, depth: usize) -> Vec<String> {
        let Some(id) = table.find(name).filter(|_| depth < 8) else {
            return Vec::new();
        };
        let fields = table.get(id).fields.iter();
        let mut lines: Vec<String> = fields
            .flat_map(|field| {
                let inner = inner(table, &field.shape, depth);
                let own = format!("{} {}", field.name, field.tag);
                let inner = inner
                    .into_iter()
                    .map(|line| format!("{}.{line}", field.name))
                    .collect::<Vec<_>>();
                std::iter::once(own).chain(inner)
            })
            .collect();
        lines.sort();
        lines
    }

    fn inner(table: &TypeTable, shape: &Shape, depth: usize) -> Vec<String> {
        match shape {
            Shape::Struct(id) => layout(table, &table.get(*id).name, depth + 1),
            Shape::List { item, .. } => inner(table, item, depth),
            Shape::Map { value, .. } => inner(table, value, depth),
            _ => Vec::new(),
        }
    }

    #[test]
    fn messages_have_the_tags_of_the_stored_version() {
        let (_dir, settings) = settings();
        let table = complete_type_table();
        let mut compared = 0;
        for definition in resources(&settings) {
            for version in &definition.readable {
                let GroupVersion { group, version } = &version.group_version;
                let name = type_name(group, version, &definition.kind);
                let known = layout(table, &name, 0);
                if known.is_empty() {
                    continue;
                }
                let stored = layout(table, &definition.stored().type_name, 0);
                let missing: Vec<_> = known.iter().filter(|line| !stored.contains(line)).collect();
                assert!(missing.is_empty(), "{name}: {missing:?}");
                compared += 1;
            }
        }
        assert!(compared >= 9, "only {compared} types are known in another version");
    }

    #[test]
    fn an_empty_selector_goes_on_selecting_nothing() {
        let converted = |selector: Value| {
            let mut budget = json!({ "spec": { "selector": selector } });
            EmptySelector.to_stored(&mut budget);
            budget["spec"]["selector"].take()
        };
        assert_eq!(converted(json!({}))["matchExpressions"][0]["operator"], "Exists");
        let everything = json!({ "matchExpressions": [{ "key": EMPTY_SELECTOR, "operator": "DoesNotExist" }] });
        assert_eq!(converted(everything), json!({}));
        let some = json!({ "matchLabels": { "a": "b" } });
        assert_eq!(converted(some.clone()), some);
        assert_eq!(converted(Value::Null), Value::Null);
    }

    #[test]
    fn assured_shares_are_nominal_ones() {
        let mut level = json!({ "spec": { "type": "Limited", "limited": { "assuredConcurrencyShares": 7 } } });
        AssuredShares.to_stored(&mut level);
        assert_eq!(level["spec"]["limited"], json!({ "nominalConcurrencyShares": 7 }));
    }
}
