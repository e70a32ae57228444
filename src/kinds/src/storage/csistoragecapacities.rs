//! CSIStorageCapacities (`pkg/registry/storage/csistoragecapacity`).

use serde_json::Value;
use trireme_machinery::field::{ErrorList, Path};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    checks::{push_class_name, push_immutable, push_negative_quantity, push_selector},
    kind::Kind,
    values::text,
};

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    Kind::new(CsiStorageCapacities)
}

struct CsiStorageCapacities;

impl Strategy for CsiStorageCapacities {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        push_selector(&mut errors, object.get("nodeTopology"), &Path::new("nodeTopology"));
        push_class_name(
            &mut errors,
            text(object, "storageClassName"),
            &Path::new("storageClassName"),
        );
        // The largest size of a volume is not looked at, in Kubernetes as here.
        if let Some(capacity) = object.get("capacity") {
            push_negative_quantity(&mut errors, capacity, &Path::new("capacity"));
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        push_immutable(&mut errors, new, old, &["nodeTopology", "storageClassName"]);
        errors
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn repeats_metadata_checks(&self) -> bool {
        false
    }
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
        trial.expect_faults(&[(
            body,
            &["capacity: Invalid value: \"-1\": must be greater than or equal to 0"],
        )]);
        let old = trial
            .create(json!({ "metadata": {}, "storageClassName": "s" }))
            .expect("a valid capacity");
        trial.expect_patch_faults(
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
}
