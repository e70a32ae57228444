//! Holds the rules in CEL of a schema against the schema.

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::{
    field_paths::find_field,
    internals::shown_rule,
    structural::{flag, text},
};
use crate::{
    rules::{RuleProblem, compile_errors},
    structural::Structural,
};

const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

fn rules_of(schema: &Value) -> &[Value] {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    rules.map_or(&[], Vec::as_slice)
}

/// Validates what rules say of themselves.
pub(super) fn validate_rule_texts(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let has_newlines = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in rules_of(schema).iter().enumerate() {
        let rules = path.child("x-kubernetes-validations");
        let at = rules.index(index);
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        if expression.is_empty() {
            errors.push(Error::required(&at.child("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(Error::invalid_str(&at.child("message"), message, detail));
        } else if has_newlines(message.trim()) {
            errors.push(Error::invalid_str(
                &at.child("message"),
                message,
                "must not contain line breaks",
            ));
        } else if has_newlines(expression) && message.trim().is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(Error::required(&at.child("message"), detail));
        }
        let message_expression = text(rule, "messageExpression");
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.push(Error::required(&at.child("messageExpression"), detail));
        }
        let reason = text(rule, "reason");
        if rule.get("reason").is_some() && !REASONS.contains(&reason) {
            errors.push(Error::not_supported(&at.child("reason"), reason, &REASONS));
        }
        let field_path = text(rule, "fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(Error::invalid_str(&at.child("fieldPath"), field_path, detail));
        }
        if has_newlines(field_path) {
            errors.push(Error::invalid_str(
                &at.child("fieldPath"),
                field_path,
                "must not contain line breaks",
            ));
        }
        if !field_path.is_empty() && find_field(schema, field_path, true).is_err() {
            errors.push(Error::invalid_str(
                &at.child("fieldPath"),
                field_path,
                "must be a valid path",
            ));
        }
    }
}

/// Compiles the rules of a schema; `uncorrelatable` is where values can no longer be compared with old ones.
pub(super) fn validate_rules(
    schema: &Value,
    is_resource: bool,
    uncorrelatable: Option<&str>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let rules = rules_of(schema);
    if !rules.is_empty() {
        let structural = Structural::parse(schema);
        let mut speaks_of_old = Vec::new();
        for found in compile_errors(&structural, is_resource) {
            let list = path.child("x-kubernetes-validations");
            let at = list.index(found.index);
            let rule = rules.get(found.index).unwrap_or(&Value::Null);
            match found.problem {
                RuleProblem::Rule(why) => errors.push(Error::invalid_shown(&at.child("rule"), shown_rule(rule), &why)),
                RuleProblem::Message(why) => {
                    errors.push(Error::invalid_shown(
                        &at.child("messageExpression"),
                        shown_rule(rule),
                        &why,
                    ));
                }
                RuleProblem::UsesOldSelf => {
                    speaks_of_old.push(found.index);
                    if let Some(within) = uncorrelatable {
                        let detail = format!(
                            "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
                        );
                        errors.push(Error::invalid_str(&at.child("rule"), text(rule, "rule"), &detail));
                    }
                }
            }
        }
        for (index, rule) in rules.iter().enumerate() {
            if let Some(optional) = rule.get("optionalOldSelf").filter(|_| !speaks_of_old.contains(&index)) {
                let list = path.child("x-kubernetes-validations");
                let at = list.index(index);
                let detail = "may not be set if oldSelf is not used in rule";
                errors.push(Error::invalid(&at.child("optionalOldSelf"), optional, detail));
            }
        }
    }
    let here = path.to_string();
    let of_properties = match text(schema, "x-kubernetes-map-type") {
        "atomic" => uncorrelatable.or(Some(&here)),
        _ => uncorrelatable,
    };
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let properties = path.child("properties");
        let is_embedded = flag(property, "x-kubernetes-embedded-resource");
        validate_rules(property, is_embedded, of_properties, &properties.key(name), errors);
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|part| part.is_object()) {
        validate_rules(
            additional,
            false,
            uncorrelatable,
            &path.child("additionalProperties"),
            errors,
        );
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        let of_items = match text(schema, "x-kubernetes-list-type") {
            "map" => uncorrelatable,
            _ => uncorrelatable.or(Some(&here)),
        };
        let is_embedded = flag(items, "x-kubernetes-embedded-resource");
        validate_rules(items, is_embedded, of_items, &path.child("items"), errors);
    }
}
