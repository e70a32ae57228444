//! The object form of label selectors, `metav1.LabelSelector`: `{matchLabels, matchExpressions}`.

use serde_json::Value;

use super::{LabelSelector, Operator, Requirement, SelectorError};
use crate::{
    Object,
    field::{Error, ErrorList, Path},
    go_text::quote,
    names,
};

/// Checks labels: keys, then values, each error at `path` itself (`ValidateLabels`).
pub fn validate_labels(labels: Option<&Object>, path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (key, value) in labels.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        let of_key = names::qualified_name(key);
        errors.extend(of_key.iter().map(|text| Error::invalid_str(path, key, text)));
        let of_value = names::label_value(value);
        errors.extend(of_value.iter().map(|text| Error::invalid_str(path, value, text)));
    }
    errors
}

/// Checks a selector in object form. `tolerate_values` lets malformed values pass, as stored objects may need.
/// Upstream: `ValidateLabelSelector`.
pub fn validate_label_selector(selector: &Object, tolerate_values: bool, path: &Path<'_>) -> ErrorList {
    let match_labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut errors = validate_labels(match_labels, &path.child("matchLabels"));
    let expressions_path = path.child("matchExpressions");
    for (index, expression) in expressions(selector).enumerate() {
        let at = expressions_path.index(index);
        validate_expression(&expression, tolerate_values, &at, &mut errors);
    }
    errors
}

struct MatchExpression<'a> {
    key: &'a str,
    operator: &'a str,
    values: Vec<&'a str>,
}

impl<'a> MatchExpression<'a> {
    fn of(item: &'a Value) -> Self {
        let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default();
        let values = item.get("values").and_then(Value::as_array);
        Self {
            key: text("key"),
            operator: text("operator"),
            values: values
                .into_iter()
                .flatten()
                .map(|v| v.as_str().unwrap_or_default())
                .collect(),
        }
    }
}

fn expressions(selector: &Object) -> impl Iterator<Item = MatchExpression<'_>> {
    let items = selector.get("matchExpressions").and_then(Value::as_array);
    items.into_iter().flatten().map(MatchExpression::of)
}

/// Checks requirements on labels that stand in a list of their own. An operator that is not known passes: the client may
/// be newer.
pub fn validate_label_requirements(requirements: &[Value], path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, expression) in requirements.iter().map(MatchExpression::of).enumerate() {
        let at = path.index(index);
        validate_count(&expression, &at, &mut errors);
        validate_terms(&expression, false, &at, &mut errors);
    }
    errors
}

/// Checks requirements on fields; any text may be a key.
pub fn validate_field_requirements(requirements: &[Value], path: &Path<'_>) -> ErrorList {
    let mut errors = ErrorList::new();
    for (index, expression) in requirements.iter().map(MatchExpression::of).enumerate() {
        let at = path.index(index);
        if expression.key.is_empty() {
            errors.push(Error::required(&at.child("key"), "must be specified"));
        }
        validate_count(&expression, &at, &mut errors);
    }
    errors
}

fn validate_expression(
    expression: &MatchExpression<'_>,
    tolerate_values: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_count(expression, path, errors);
    if !matches!(expression.operator, "In" | "NotIn" | "Exists" | "DoesNotExist") {
        let why = "not a valid selector operator";
        errors.push(Error::invalid_str(&path.child("operator"), expression.operator, why));
    }
    validate_terms(expression, tolerate_values, path, errors);
}

/// Returns true if there are values if and only if the operator takes some.
fn validate_count(expression: &MatchExpression<'_>, path: &Path<'_>, errors: &mut ErrorList) {
    let values_path = path.child("values");
    match expression.operator {
        "In" | "NotIn" if expression.values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(Error::required(&values_path, detail));
        }
        "Exists" | "DoesNotExist" if !expression.values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&values_path, detail));
        }
        _ => {}
    }
}

fn validate_terms(expression: &MatchExpression<'_>, tolerate_values: bool, path: &Path<'_>, errors: &mut ErrorList) {
    for text in names::qualified_name(expression.key) {
        errors.push(Error::invalid_str(&path.child("key"), expression.key, &text));
    }
    if tolerate_values {
        return;
    }
    for (index, value) in expression.values.iter().enumerate() {
        for text in names::label_value(value) {
            errors.push(Error::invalid_str(&path.child("values").index(index), value, &text));
        }
    }
}

/// Turns the object form into a selector: an absent one selects nothing, an empty one everything.
pub fn compile_label_selector(selector: Option<&Object>) -> Result<LabelSelector, SelectorError> {
    let Some(selector) = selector else {
        return Ok(LabelSelector::nothing());
    };
    let mut requirements = Vec::new();
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    for (key, value) in labels.into_iter().flatten() {
        let value = value.as_str().unwrap_or_default().to_owned();
        requirements.push(Requirement::new(key, Operator::Equals, vec![value])?);
    }
    for expression in expressions(selector) {
        let operator = match expression.operator {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                let why = format!("{} is not a valid label selector operator", quote(other));
                return Err(SelectorError(why));
            }
        };
        let values = expression.values.into_iter().map(str::to_owned).collect();
        requirements.push(Requirement::new(expression.key, operator, values)?);
    }
    Ok(LabelSelector::new(requirements))
}
