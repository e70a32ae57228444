//! The usage of persistent volume claims (`pkg/quota/v1/evaluator/core/persistent_volume_claims.go`).

use serde_json::Value;
use trireme_machinery::{
    pod_resources::{ResourceList, resource_list},
    quantity::Quantity,
};

use super::evaluators::{Measure, Scopes, one};
use crate::attributes::annotation;

const NAMES: [&str; 2] = ["persistentvolumeclaims", "requests.storage"];
const BY_CLASS: &str = ".storageclass.storage.k8s.io/";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Reports whether a limit of a quota concerns claims.
pub(super) fn counts(name: &str) -> bool {
    let of_class = name.split_once(BY_CLASS).map(|(_, name)| name);
    NAMES.contains(&of_class.unwrap_or(name))
}

/// Measures a claim.
pub(super) fn measure(claim: &Value) -> Measure {
    let mut usage = ResourceList::from([("persistentvolumeclaims".to_owned(), one())]);
    if let Some(storage) = storage(claim) {
        usage.insert("requests.storage".to_owned(), storage);
    }
    let named = claim.pointer("/spec/storageClassName").and_then(Value::as_str);
    let class = annotation(claim, CLASS_ANNOTATION).or(named).unwrap_or_default();
    if !class.is_empty() {
        let of_class: Vec<_> = usage
            .iter()
            .map(|(name, amount)| (format!("{class}{BY_CLASS}{name}"), *amount))
            .collect();
        usage.extend(of_class);
    }
    let classes = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    let classes = classes
        .iter()
        .filter_map(|pointer| claim.pointer(pointer)?.as_str())
        .filter(|class| !class.is_empty());
    Measure {
        usage,
        scopes: Scopes::Claim(classes.map(str::to_owned).collect()),
        ..Measure::default()
    }
}

/// The storage asked for, or more, if more was allocated while the claim grew.
fn storage(claim: &Value) -> Option<Quantity> {
    let amount = |pointer: &str| resource_list(claim.pointer(pointer)).get("storage").copied();
    let asked = amount("/spec/resources/requests")?;
    let allocated = amount("/status/allocatedResources");
    Some(allocated.map_or(asked, |allocated| asked.max(allocated)).round_up(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn storage_counts_once_more_for_its_class() {
        let mut claim = json!({ "spec": {
            "storageClassName": "gold", "resources": { "requests": { "storage": "1500m" } },
        }});
        let shown = |claim: &Value| -> Vec<String> {
            let usage = measure(claim).usage;
            usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
        };
        assert_eq!(
            shown(&claim),
            [
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims=1",
                "gold.storageclass.storage.k8s.io/requests.storage=2",
                "persistentvolumeclaims=1",
                "requests.storage=2",
            ]
        );
        claim["status"] = json!({ "allocatedResources": { "storage": "4" } });
        assert_eq!(shown(&claim)[3], "requests.storage=4");
        assert!(counts("tin.storageclass.storage.k8s.io/requests.storage") && counts("persistentvolumeclaims"));
        assert!(!counts("requests.cpu"));
    }
}
