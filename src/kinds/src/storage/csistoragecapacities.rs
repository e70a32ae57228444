//! CSIStorageCapacities (`pkg/registry/storage/csistoragecapacity`).

use serde_json::Value;
use trireme_machinery::field::{ErrorList, Path};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{
        is_invalid_label_selector, validate_class_name, validate_immutable_fields, validate_immutable_texts,
        validate_nonnegative_quantity, validate_tolerated_label_selector,
    },
    kind::Kind,
    pod_template::node_label_advice,
    values::{entries, items, text},
};

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new("storage.k8s.io", "csistoragecapacities", CsiStorageCapacities)
}

struct CsiStorageCapacities;

impl Strategy for CsiStorageCapacities {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_csi_storage_capacity(object, false)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_csi_storage_capacity(new, is_invalid_label_selector(old.get("nodeTopology")));
        validate_immutable_fields(new, old, &["nodeTopology"], &mut errors);
        validate_immutable_texts(new, old, &["storageClassName"], &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let nodes = new.get("nodeTopology").unwrap_or(&Value::Null);
        let mut warnings = Vec::new();
        for (index, expression) in items(nodes, "matchExpressions").iter().enumerate() {
            let key = text(expression, "key");
            let advice = node_label_advice(key);
            warnings
                .extend(advice.map(|advice| format!("nodeTopology.matchExpressions[{index}].key: {key} is {advice}")));
        }
        for (label, _) in entries(nodes, "matchLabels") {
            let advice = node_label_advice(label);
            warnings.extend(advice.map(|advice| format!("nodeTopology.matchLabels.{label}: {advice}")));
        }
        warnings
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// As upstream's `ValidateCSIStorageCapacity`.
fn validate_csi_storage_capacity(object: &Value, tolerate_values: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_tolerated_label_selector(
        object.get("nodeTopology"),
        tolerate_values,
        &Path::new("nodeTopology"),
        &mut errors,
    );
    validate_class_name(
        text(object, "storageClassName"),
        &Path::new("storageClassName"),
        &mut errors,
    );
    // The largest size of a volume is not looked at, in Kubernetes as here.
    if let Some(capacity) = object.get("capacity") {
        validate_nonnegative_quantity(capacity, &Path::new("capacity"), &mut errors);
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn a_capacity_is_of_one_class_at_one_place() {
        let trial = Trial::new("storage.k8s.io", "csistoragecapacities", kind());
        let body = json!({ "metadata": {}, "storageClassName": "s", "capacity": "-1" });
        trial.expect_errors(&[(
            body,
            &["capacity: Invalid value: \"-1\": must be greater than or equal to 0"],
        )]);
        let old = trial
            .create(json!({ "metadata": {}, "storageClassName": "s" }))
            .expect("a valid capacity");
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "capacity": "1Gi" }), &[]),
                (
                    json!({ "storageClassName": "t" }),
                    &["storageClassName: Invalid value: \"t\": field is immutable"],
                ),
            ],
        );
    }

    #[test]
    fn old_labels_of_nodes_are_warned_of() {
        let nodes = json!({
            "matchLabels": { "beta.kubernetes.io/os": "linux" },
            "matchExpressions": [{ "key": "failure-domain.beta.kubernetes.io/zone", "operator": "Exists" }],
        });
        let warnings = [
            "nodeTopology.matchExpressions[0].key: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use \
             \"topology.kubernetes.io/zone\" instead",
            "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ];
        let trial = Trial::new("storage.k8s.io", "csistoragecapacities", kind());
        assert_eq!(trial.warnings(&json!({ "nodeTopology": nodes }), None), warnings);
    }

    #[test]
    fn a_stored_topology_may_keep_values_that_no_label_can_have() {
        let trial = Trial::new("storage.k8s.io", "csistoragecapacities", kind());
        let body = |capacity: &str| {
            let expression = json!({ "key": "a", "operator": "In", "values": ["a b"] });
            let nodes = json!({ "matchExpressions": [expression] });
            json!({ "metadata": {}, "storageClassName": "s", "capacity": capacity, "nodeTopology": nodes })
        };
        assert_eq!(trial.errors(body("1")).len(), 1);
        assert!(trial.update(&trial.decode(body("1")), body("2")).is_ok(), "it may stay");
    }
}
