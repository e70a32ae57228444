//! PodDisruptionBudgets (`pkg/registry/policy/poddisruptionbudget`, `pkg/apis/policy/validation`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, LABEL_SELECTOR, PrintedField, PrintedShape},
    names::{self, NameCheck},
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    checks::{is_invalid_label_selector, validate_nonnegative_fields, validate_tolerated_label_selector},
    columns::{self, column, described},
    conditions::validate_conditions,
    kind::Kind,
    values::{integer_at, keep_field},
    workload::{is_not_more_than_100_percent, validate_positive_int_or_percent},
};

/// `policy.PodDisruptionBudgetSpec`.
const SPEC: &[PrintedField] = &[
    ("MinAvailable", "minAvailable", PrintedShape::Plain),
    ("Selector", "selector", PrintedShape::Named(LABEL_SELECTOR)),
    ("MaxUnavailable", "maxUnavailable", PrintedShape::Plain),
    (
        "UnhealthyPodEvictionPolicy",
        "unhealthyPodEvictionPolicy",
        PrintedShape::Plain,
    ),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let bound = |object: &Value, pointer: &str| match object.pointer(pointer) {
        None => Value::from("N/A"),
        Some(Value::String(percent)) => percent.as_str().into(),
        Some(number) => number.to_string().into(),
    };
    let min = described("The minimum number of pods that must be available.");
    let max = described("The maximum number of pods that may be unavailable.");
    let allowed = described("Calculated number of pods that may be disrupted at this time.");
    Kind::new("policy", "poddisruptionbudgets", Budgets).columns(vec![
        columns::name(),
        column("Min Available", "string", min, move |object| {
            bound(object, "/spec/minAvailable")
        }),
        column("Max Unavailable", "string", max, move |object| {
            bound(object, "/spec/maxUnavailable")
        }),
        column("Allowed Disruptions", "integer", allowed, |object| {
            integer_at(object, "/status/disruptionsAllowed").unwrap_or(0).into()
        }),
        columns::age(),
    ])
}

struct Budgets;

impl Strategy for Budgets {
    fn name_check(&self) -> NameCheck {
        names::name_is_path_segment
    }

    fn validates_metadata_of_new(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_pod_disruption_budget(object, false)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_pod_disruption_budget(new, is_invalid_label_selector(old.pointer("/spec/selector")))
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        let none = Value::Null;
        let status = new.get("status").unwrap_or(&none);
        validate_conditions(status, &path.child("conditions"), &mut errors);
        let counters = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"];
        validate_nonnegative_fields(status, &path, &counters, &mut errors);
        errors
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::None
    }
}

/// As upstream's `ValidatePodDisruptionBudget`.
fn validate_pod_disruption_budget(object: &Value, tolerate_values: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("spec");
    let none = Value::Null;
    let spec = object.get("spec").unwrap_or(&none);
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let shown = structs::compact(Some(spec), PrintedShape::Struct(SPEC));
        errors.push(Error::invalid_shown(
            &path,
            shown,
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        if let Some(value) = spec.get(field) {
            validate_positive_int_or_percent(value, &path.child(field), &mut errors);
            is_not_more_than_100_percent(value, &path.child(field), &mut errors);
        }
    }
    validate_tolerated_label_selector(
        spec.get("selector"),
        tolerate_values,
        &path.child("selector"),
        &mut errors,
    );
    let supported = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = spec.get("unhealthyPodEvictionPolicy").and_then(Value::as_str);
    if let Some(policy) = policy.filter(|policy| !supported.contains(policy)) {
        errors.push(Error::not_supported(
            &path.child("unhealthyPodEvictionPolicy"),
            policy,
            &supported,
        ));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn errors_of_spec_and_status() {
        let trial = Trial::new("policy", "poddisruptionbudgets", kind());
        trial.expect_errors(&[
            (named("a", json!({})), &[]),
            (
                named("a", json!({ "minAvailable": 1, "maxUnavailable": "10%", "selector": { "matchLabels": { "a": "b" } } })),
                &[r#"spec: Invalid value: {"MinAvailable":1,"Selector":{"matchLabels":{"a":"b"}},"MaxUnavailable":"10%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set"#],
            ),
            (
                named("a", json!({ "minAvailable": "101%", "unhealthyPodEvictionPolicy": "Z" })),
                &[
                    r#"spec.minAvailable: Invalid value: "101%": must not be greater than 100%"#,
                    r#"spec.unhealthyPodEvictionPolicy: Unsupported value: "Z": supported values: "AlwaysAllow", "IfHealthyBudget""#,
                ],
            ),
            (
                named("a", json!({ "maxUnavailable": -1 })),
                &["spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ]);
        let old = trial.create(named("a", json!({}))).expect("the budget is valid");
        let condition =
            json!({ "type": "a", "status": "X", "reason": "R", "lastTransitionTime": "2024-01-01T00:00:00Z" });
        trial.expect_status_errors(&old, &[(
            json!({ "expectedPods": -1, "conditions": [condition] }),
            &[
                r#"status.conditions[0].status: Unsupported value: "X": supported values: "False", "True", "Unknown""#,
                "status.expectedPods: Invalid value: -1: must be greater than or equal to 0",
            ],
        )]);
    }

    #[test]
    fn a_stored_selector_may_keep_values_that_no_label_can_have() {
        let trial = Trial::new("policy", "poddisruptionbudgets", kind());
        let budget = |value: &str, least: i64| {
            let expression = json!({ "key": "a", "operator": "In", "values": [value] });
            let selector = json!({ "matchExpressions": [expression] });
            named("a", json!({ "minAvailable": least, "selector": selector }))
        };
        assert_eq!(trial.errors(budget("a b", 1)).len(), 1);
        let old = trial.decode(budget("a b", 1));
        assert!(trial.update(&old, budget("a b", 2)).is_ok(), "it may stay");
        let valid = trial.decode(budget("a", 1));
        assert_eq!(
            trial.update(&valid, budget("a b", 1)).map_err(|errors| errors.len()),
            Err(1)
        );
    }
}
