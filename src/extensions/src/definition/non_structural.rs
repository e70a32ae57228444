//! The condition of definitions whose schemas are not structural (`nonstructuralschema_controller.go`).
//!
//! They come from `apiextensions.k8s.io/v1beta1` and preserve unknown fields: all others are refused unless they are structural.

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::{
    conditions::{Condition, aggregated, remove_condition, set_condition},
    structural::{is_convertible, validate_structural},
};

const KIND: &str = "NonStructuralSchema";

/// Sets the condition with all that is not structural, or takes it away.
pub(crate) fn set_non_structural_condition(definition: &mut Value, now: &str) {
    if definition.pointer("/spec/preserveUnknownFields") != Some(&Value::Bool(true)) {
        remove_condition(definition, KIND);
        return;
    }
    let message = aggregated(violations(definition).iter().map(ToString::to_string));
    let condition = Condition {
        kind: KIND,
        is_true: true,
        reason: "Violations",
        message: &message,
    };
    set_condition(definition, &condition, now);
}

fn violations(definition: &Value) -> ErrorList {
    let path = Path::new("spec");
    let mut errors = vec![Error::invalid(
        &path.child("preserveUnknownFields"),
        &true.into(),
        "must be false",
    )];
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    for (index, version) in versions.into_iter().flatten().enumerate() {
        let schema = version.pointer("/schema/openAPIV3Schema");
        if let Some(schema) = schema.filter(|schema| schema.is_object() && is_convertible(schema)) {
            let versions = path.child("versions");
            let at = versions.index(index);
            let at = at.child("schema");
            validate_structural(schema, &at.child("openAPIV3Schema"), &mut errors);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::conditions::find;

    const NOW: &str = "2026-01-02T03:04:05Z";

    fn definition(keeps_unknown: bool, schema: Value) -> Value {
        json!({"spec": {
            "preserveUnknownFields": keeps_unknown,
            "versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}, {"name": "v2"}],
        }})
    }

    #[test]
    fn what_is_not_structural_stands_in_the_condition_until_it_is() {
        let mut found = definition(true, json!({"properties": {"a": {}}}));
        set_non_structural_condition(&mut found, NOW);
        let at = "spec.versions[0].schema.openAPIV3Schema";
        let message = format!(
            "[spec.preserveUnknownFields: Invalid value: true: must be false, {at}.properties[a].type: Required value: must not be \
             empty for specified object fields, {at}.type: Required value: must not be empty at the root]"
        );
        assert_eq!(
            found["status"]["conditions"],
            json!([{
                "type": "NonStructuralSchema", "status": "True", "lastTransitionTime": NOW,
                "reason": "Violations", "message": message,
            }])
        );
        found["spec"]["preserveUnknownFields"] = false.into();
        set_non_structural_condition(&mut found, NOW);
        assert_eq!(found["status"]["conditions"], json!([]));
    }

    #[test]
    fn a_definition_that_preserves_unknown_fields_is_not_structural() {
        let mut found = definition(true, json!({"type": "object"}));
        set_non_structural_condition(&mut found, NOW);
        let condition = find(&found, KIND).expect("it is set");
        let message = "spec.preserveUnknownFields: Invalid value: true: must be false";
        assert_eq!(condition["message"], message);
        let mut fine = definition(false, json!({"type": "object"}));
        set_non_structural_condition(&mut fine, NOW);
        assert_eq!(fine.get("status"), None);
    }
}
