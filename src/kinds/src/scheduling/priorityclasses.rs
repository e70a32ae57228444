//! PriorityClasses (`pkg/registry/scheduling/priorityclass`).

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::{number, validate_immutable_fields},
    columns::{self, column, documented},
    kind::Kind,
    pod_template::validate_preemption_policy,
    values::{is_true_at, text, text_at},
};

const TYPE: &str = "io.k8s.api.scheduling.v1.PriorityClass";
const HIGHEST_OF_USERS: i64 = 1_000_000_000;
/// The classes that the server itself makes.
const OF_SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let value = |object: &Value| Value::from(number(object, "value").unwrap_or(0));
    let is_default = |object: &Value| Value::from(is_true_at(object, "/globalDefault"));
    Kind::new("scheduling.k8s.io", "priorityclasses", PriorityClasses).columns(vec![
        columns::name(),
        column("Value", "integer", documented(TYPE, "value"), value),
        column(
            "Global-Default",
            "boolean",
            documented(TYPE, "globalDefault"),
            is_default,
        ),
        columns::age(),
        column(
            "PreemptionPolicy",
            "string",
            documented(TYPE, "preemptionPolicy"),
            |object| Value::from(text(object, "preemptionPolicy")),
        ),
    ])
}

struct PriorityClasses;

impl Strategy for PriorityClasses {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let name = text_at(object, "/metadata/name");
        let value = number(object, "value").unwrap_or(0);
        if name.starts_with("system-") {
            if let Some(why) = system_priority_class_error(name, value, is_true_at(object, "/globalDefault")) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
                );
                errors.push(Error::forbidden(&Path::new("metadata.name"), &detail));
            }
        } else if value > HIGHEST_OF_USERS {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
            errors.push(Error::forbidden(&Path::new("value"), &detail));
        }
        validate_preemption_policy(object, &Path::root(), &mut errors);
        errors
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if number(new, "value") != number(old, "value") {
            errors.push(Error::forbidden(
                &Path::new("value"),
                "may not be changed in an update.",
            ));
        }
        validate_immutable_fields(new, old, &["preemptionPolicy"], &mut errors);
        errors
    }

    fn refuse_deletion(&self, name: &str) -> Option<&'static str> {
        let is_of_system = OF_SYSTEM.iter().any(|(known, _)| *known == name);
        is_of_system.then_some("this is a system priority class and cannot be deleted")
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn is_new_generation(&self, _new: &Value, _old: &Value) -> bool {
        false
    }
}

fn system_priority_class_error(name: &str, value: i64, is_default: bool) -> Option<String> {
    let Some((_, expected)) = OF_SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value != *expected {
        return Some(format!("value of {name} PriorityClass must be {expected}"));
    }
    is_default.then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::Trial;

    #[test]
    fn high_values_and_system_names_are_reserved() {
        let class = |name: &str, value: i64| json!({ "metadata": { "name": name }, "value": value });
        let trial = Trial::new("scheduling.k8s.io", "priorityclasses", kind());
        trial.expect_errors(&[
            (class("a", 1_000_000_000), &[]),
            (class("a", 1_000_000_001), &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
            (class("system-node-critical", 2_000_001_000), &[]),
            (class("system-x", 1), &[
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-x is not a known system priority class",
            ]),
        ]);
        let old = trial.create(class("a", 1)).expect("a valid class");
        trial.expect_patch_errors(
            &old,
            &[
                (json!({ "description": "d" }), &[]),
                (
                    json!({ "value": 2, "preemptionPolicy": "Never" }),
                    &[
                        "value: Forbidden: may not be changed in an update.",
                        "preemptionPolicy: Invalid value: \"Never\": field is immutable",
                    ],
                ),
            ],
        );
    }
}
