//! The requests that a webhook or policy matches: rules, selectors, conditions.

use serde_json::Value;
use trireme_cel::Environment;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::expressions::validate_cel_condition;
use crate::{
    checks::{push_invalid, require, validate_optional_label_selector, validate_supported},
    values::{items, text},
};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Operations of a mutating policy: there is nothing to change when an object is deleted.
const MUTABLE_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];
const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
const MAX_CONDITIONS: usize = 64;

/// Validates a rule with its operations (`validateRuleWithOperations`).
pub(super) fn validate_rule_with_operations(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("operations");
    let operations = items(rule, "operations");
    if operations.is_empty() {
        errors.push(Error::required(&at, ""));
    }
    validate_lone_wildcard(operations, &at, "operations", errors);
    for (index, operation) in operations.iter().filter_map(Value::as_str).enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&at.index(index), operation, &OPERATIONS));
        }
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let at = path.child(field);
        let list = items(rule, field);
        if list.is_empty() {
            errors.push(Error::required(&at, ""));
        }
        validate_lone_wildcard(list, &at, what, errors);
        for (index, _) in list
            .iter()
            .enumerate()
            .filter(|(_, item)| field == "apiVersions" && *item == "")
        {
            errors.push(Error::required(&at.index(index), ""));
        }
    }
    validate_resources(rule, &path.child("resources"), errors);
    if rule.get("scope").is_some() {
        validate_supported(rule, path, "scope", &SCOPES, errors);
    }
}

fn validate_lone_wildcard(list: &[Value], path: &Path<'_>, what: &str, errors: &mut ErrorList) {
    if list.len() > 1 && list.iter().any(|item| item == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(path, &list.to_vec().into(), &detail));
    }
}

/// As upstream's `validateResources`.
fn validate_resources(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let resources = items(rule, "resources");
    if resources.is_empty() {
        errors.push(Error::required(path, ""));
    }
    let names: Vec<&str> = resources.iter().filter_map(Value::as_str).collect();
    for (index, name) in names.iter().enumerate() {
        if name.is_empty() {
            errors.push(Error::required(&path.index(index), ""));
        }
        let Some((resource, subresource)) = name.split_once('/') else {
            continue;
        };
        for wildcard in [format!("{resource}/*"), format!("*/{subresource}")] {
            if names.iter().take(index).any(|earlier| **earlier == wildcard) {
                let detail = format!("if '{wildcard}' is present, must not specify {name}");
                errors.push(Error::invalid_str(&path.index(index), name, &detail));
            }
        }
    }
    let shown = resources.to_vec().into();
    if names.len() > 1 && names.contains(&"*/*") {
        errors.push(Error::invalid(
            path,
            &shown,
            "if '*/*' is present, must not specify other resources",
        ));
    }
    // Upstream looks at the last resource without a subresource only.
    let last = names.iter().rfind(|name| !name.is_empty() && !name.contains('/'));
    if names.contains(&"*") && last.is_some_and(|last| *last != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(path, &shown, detail));
    }
}

/// Validates a policy's or binding's `MatchResources` (`validateMatchResources`).
pub(super) fn validate_match_resources(resources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if resources.get("matchPolicy").is_some() {
        validate_supported(resources, path, "matchPolicy", &["Equivalent", "Exact"], errors);
    }
    for field in ["namespaceSelector", "objectSelector"] {
        validate_optional_label_selector(resources.get(field), &path.child(field), errors);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let at = path.child(field);
        for (index, rule) in items(resources, field).iter().enumerate() {
            validate_named_rule_with_operations(rule, &at.index(index), errors);
            validate_rule_with_operations(rule, &at.index(index), errors);
        }
    }
}

/// As upstream's `validateNamedRuleWithOperations`.
fn validate_named_rule_with_operations(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("resourceNames");
    let names = items(rule, "resourceNames");
    for (index, name) in names.iter().enumerate() {
        let at = at.index(index);
        let text = name.as_str().unwrap_or_default();
        push_invalid(&at, text, names::path_segment_name(text), errors);
        if names.iter().take(index).any(|earlier| earlier == name) {
            errors.push(Error::duplicate(&at, name));
        }
    }
}

/// Validates the operations that a mutating policy or its binding is for.
pub(super) fn validate_mutable_operations(resources: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("resourceRules.operations");
    let operations = items(resources, "resourceRules")
        .iter()
        .flat_map(|rule| items(rule, "operations"));
    for operation in operations.filter_map(Value::as_str) {
        if !MUTABLE_OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&at, operation, &MUTABLE_OPERATIONS));
        }
    }
}

/// Validates match conditions (`validateMatchConditions`).
pub(super) fn validate_match_conditions(
    holder: &Value,
    path: &Path<'_>,
    environment: &Environment,
    errors: &mut ErrorList,
) {
    let at = path.child("matchConditions");
    let conditions = items(holder, "matchConditions");
    if conditions.len() > MAX_CONDITIONS {
        errors.push(Error::too_many(&at, conditions.len(), MAX_CONDITIONS));
    }
    for (index, condition) in conditions.iter().enumerate() {
        let at = at.index(index);
        let expression = text(condition, "expression").trim();
        let at_expression = at.child("expression");
        if expression.is_empty() {
            errors.push(Error::required(&at_expression, ""));
        } else {
            validate_cel_condition(environment, (expression, expression), &at_expression, &["bool"], errors);
        }
        let Some(name) = require(condition, &at, "name", errors) else {
            continue;
        };
        push_invalid(&at.child("name"), name, names::qualified_name(name), errors);
        if conditions
            .iter()
            .take(index)
            .any(|earlier| text(earlier, "name") == name)
        {
            errors.push(Error::duplicate(&at.child("name"), &name.into()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn subresources_are_reported_once() {
        let mut errors = ErrorList::new();
        let rule = json!({ "resources": ["a/*", "", "a/*", "a/b", "*/b", "c/b"] });
        validate_resources(&rule, &Path::new("resources"), &mut errors);
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "resources[1]: Required value",
                r#"resources[2]: Invalid value: "a/*": if 'a/*' is present, must not specify a/*"#,
                r#"resources[3]: Invalid value: "a/b": if 'a/*' is present, must not specify a/b"#,
                r#"resources[5]: Invalid value: "c/b": if '*/b' is present, must not specify c/b"#,
            ]
        );
    }
}
