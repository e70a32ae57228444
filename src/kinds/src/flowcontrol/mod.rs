//! `flowcontrol.apiserver.k8s.io`, one file a kind.

pub(crate) mod flowschemas;
pub(crate) mod prioritylevelconfigurations;
mod rules;

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use crate::values::{items, text};

use crate::kind::Kind;
/// The group's kinds as they declare themselves.
pub(crate) fn kinds() -> Vec<Kind> {
    vec![flowschemas::kind(), prioritylevelconfigurations::kind()]
}

/// Conditions of a status: each has a type, and no type comes twice.
fn validate_status_conditions(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status.conditions");
    let conditions = object
        .get("status")
        .map_or(&[][..], |status| items(status, "conditions"));
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let condition_type = text(condition, "type");
        if conditions
            .iter()
            .take(index)
            .any(|earlier| text(earlier, "type") == condition_type)
        {
            errors.push(Error::duplicate(&at.child("type"), &condition_type.into()));
        }
        if condition_type.is_empty() {
            errors.push(Error::required(&at.child("type"), ""));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn conditions_have_types_of_their_own() {
        let object = json!({"status": {"conditions": [{}, {"type": "a"}, {}]}});
        let errors: Vec<String> = validate_status_conditions(&object)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            errors,
            [
                "status.conditions[0].type: Required value",
                "status.conditions[2].type: Duplicate value: \"\"",
                "status.conditions[2].type: Required value",
            ]
        );
    }
}
