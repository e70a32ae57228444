//! The selectors of a review of access, as the authorizers look at them (`ResourceAttributesFrom`).

use serde_json::Value;
use trireme_auth::RequestSelectors;
use trireme_machinery::selector::{FieldSelector, FieldTerm, LabelSelector, Operator, Requirement};

use super::{text, texts};

/// The selectors of `spec.resourceAttributes`, as far as they are understood.
#[derive(Default)]
pub(super) struct ReviewedSelectors {
    fields: Option<FieldSelector>,
    labels: Option<LabelSelector>,
}

impl ReviewedSelectors {
    /// Reads them.
    pub(super) fn of(resource: &Value) -> Self {
        Self {
            fields: resource.get("fieldSelector").and_then(field_selector),
            labels: resource.get("labelSelector").and_then(label_selector),
        }
    }

    /// The form that authorizers look at.
    pub(super) fn requested(&self) -> RequestSelectors<'_> {
        RequestSelectors {
            fields: self.fields.as_ref().filter(|fields| !fields.is_everything()),
            labels: self.labels.as_ref().filter(|labels| !labels.is_everything()),
        }
    }
}

fn requirements(selector: &Value) -> impl Iterator<Item = &Value> {
    let requirements = selector.get("requirements").and_then(Value::as_array);
    requirements.into_iter().flatten()
}

fn field_selector(selector: &Value) -> Option<FieldSelector> {
    match text(selector, "rawSelector") {
        "" => Some(FieldSelector::new(
            requirements(selector).filter_map(field_term).collect(),
        )),
        raw => FieldSelector::parse(raw).ok(),
    }
}

/// A comparison with one value; more cannot be said of a field.
fn field_term(requirement: &Value) -> Option<FieldTerm> {
    let negated = match text(requirement, "operator") {
        "In" => false,
        "NotIn" => true,
        _ => return None,
    };
    let values: [String; 1] = texts(requirement, "values").try_into().ok()?;
    let [value] = values;
    Some(FieldTerm {
        field: text(requirement, "key").to_owned(),
        value,
        negated,
    })
}

fn label_selector(selector: &Value) -> Option<LabelSelector> {
    match text(selector, "rawSelector") {
        "" => Some(LabelSelector::new(
            requirements(selector).filter_map(label_requirement).collect(),
        )),
        raw => LabelSelector::parse(raw).ok(),
    }
}

fn label_requirement(requirement: &Value) -> Option<Requirement> {
    let operator = match text(requirement, "operator") {
        "In" => Operator::In,
        "NotIn" => Operator::NotIn,
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        _ => return None,
    };
    Requirement::new(text(requirement, "key"), operator, texts(requirement, "values")).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn requires(fields: Value, field: &str, value: &str) -> bool {
        let selectors = ReviewedSelectors::of(&json!({"fieldSelector": fields}));
        selectors.requested().require_field(field, value)
    }

    #[test]
    fn requirements_are_those_of_a_query() {
        assert!(requires(
            json!({"rawSelector": "spec.nodeName=n,status.phase!=Running"}),
            "spec.nodeName",
            "n"
        ));
        let term = |operator: &str, values: &[&str]| json!({"requirements": [{"key": "f", "operator": operator, "values": values}]});
        assert!(requires(term("In", &["n"]), "f", "n"));
        for (operator, values) in [("In", &["n", "m"][..]), ("NotIn", &["n"]), ("Later", &["n"])] {
            assert!(!requires(term(operator, values), "f", "n"), "{operator} {values:?}");
        }
        assert!(!requires(json!({"rawSelector": "f in (n)"}), "f", "n"));
    }

    #[test]
    fn a_selector_that_is_not_understood_selects_everything() {
        let labels = |labels: Value| {
            let selectors = ReviewedSelectors::of(&json!({"labelSelector": labels}));
            selectors.requested().labels.map(ToString::to_string)
        };
        assert_eq!(labels(json!({"rawSelector": "a in ("})), None);
        assert_eq!(
            labels(json!({"requirements": [{"key": "a", "operator": "Later"}]})),
            None
        );
        let known = json!({"requirements": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "c", "operator": "Exists"}]});
        assert_eq!(labels(known).as_deref(), Some("a in (b),c"));
    }
}
