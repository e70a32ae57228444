//! ValidatingAdmissionPolicies and MutatingAdmissionPolicies (`pkg/registry/admissionregistration/*admissionpolicy`).
//!
//! Not checked: whether the path in a status's `fieldRef` is one.

use std::collections::HashSet;

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use super::{
    expressions::{ExpressionScope, validate_cel_condition},
    matching::{validate_match_conditions, validate_match_resources, validate_mutable_operations},
    mutations::validate_mutations,
    name_warnings,
};
use crate::{
    checks::{push_invalid, require, validate_supported},
    columns::{self, column, described},
    conditions::validate_conditions,
    kind::Kind,
    values::{items, keep_field, keep_metadata, text, text_at},
};

const MAX_AUDIT_ANNOTATIONS: usize = 20;
const MAX_AUDIT_EXPRESSION_BYTES: usize = 5 * 1024;
const REASONS: [&str; 3] = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
const NOTHING_TO_DO: &str = "validations or auditAnnotations must contain at least one item";

/// ValidatingAdmissionPolicies.
pub(crate) fn validating() -> Kind {
    let description = "Validations indicates the number of validation rules defined in this configuration";
    kind(
        "validatingadmissionpolicies",
        Policies { mutating: false },
        ("Validations", description, "/spec/validations"),
    )
}

/// MutatingAdmissionPolicies.
pub(crate) fn mutating() -> Kind {
    let description = "Mutation indicates the number of mutations rules defined in this configuration";
    kind(
        "mutatingadmissionpolicies",
        Policies { mutating: true },
        ("Mutations", description, "/spec/mutations"),
    )
}

fn kind(
    plural: &'static str,
    policies: Policies,
    (name, description, rules): (&'static str, &'static str, &'static str),
) -> Kind {
    let count = move |object: &Value| {
        let rules = object.pointer(rules).and_then(Value::as_array);
        Value::from(rules.map_or(0, Vec::len))
    };
    let of_params = "ParamKind specifies the kind of resources used to parameterize this policy";
    Kind::new("admissionregistration.k8s.io", plural, policies).columns(vec![
        columns::name(),
        column(name, "integer", described(description), count),
        column("ParamKind", "string", described(of_params), |object| {
            let params = object.pointer("/spec/paramKind");
            let shown = params.map(|kind| format!("{}/{}", text(kind, "apiVersion"), text(kind, "kind")));
            Value::from(shown.unwrap_or_else(|| "<unset>".to_owned()))
        }),
        columns::age(),
    ])
}

struct Policies {
    mutating: bool,
}

impl Strategy for Policies {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        if !self.mutating {
            object["status"] = json!({});
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        self.validate_policy(object, true)
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let part = |object: &Value, name: &str| object.get("spec").and_then(|spec| spec.get(name)).cloned();
        let mut parts = ["paramKind", "matchConditions"].into_iter();
        self.validate_policy(new, parts.any(|name| part(new, name) != part(old, name)))
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        if !self.mutating {
            keep_field(new, old, "status");
        }
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("status");
        let status = new.get("status").unwrap_or(&Value::Null);
        let checking = status.get("typeChecking").unwrap_or(&Value::Null);
        let at = path.child("typeChecking.expressionWarnings");
        for (index, warning) in items(checking, "expressionWarnings").iter().enumerate() {
            let at = at.index(index);
            require(warning, &at, "warning", &mut errors);
            if text(warning, "fieldRef").trim().is_empty() {
                errors.push(Error::required(&at.child("fieldRef"), ""));
            }
        }
        validate_conditions(status, &path.child("conditions"), &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(new)
    }

    fn status_warnings(&self, new: &Value) -> Vec<String> {
        name_warnings(new)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }

    fn wants_standard_finalizers(&self) -> bool {
        false
    }
}

impl Policies {
    /// Validates a policy. Conditions and parameters that a change leaves as they were are not looked at again.
    fn validate_policy(&self, object: &Value, conditions: bool) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        if require(spec, &path, "failurePolicy", &mut errors).is_some() {
            validate_supported(spec, &path, "failurePolicy", &["Fail", "Ignore"], &mut errors);
        }
        if let Some(kind) = spec.get("paramKind") {
            validate_param_kind(kind, &path.child("paramKind"), &mut errors);
        }
        self.validate_match_constraints(spec, &path.child("matchConstraints"), &mut errors);
        let has_variables = self.mutating || !items(spec, "variables").is_empty();
        let mut scope = ExpressionScope {
            params: spec.get("paramKind").is_some(),
            composed: has_variables.then(Vec::new),
            patches: self.mutating,
        };
        if conditions {
            validate_match_conditions(spec, &path, &scope.of_conditions(), &mut errors);
        }
        scope.validate_variables(spec, &path.child("variables"), &mut errors);
        if self.mutating {
            validate_mutations(spec, &path.child("mutations"), &scope.environment(true), &mut errors);
            if require(spec, &path, "reinvocationPolicy", &mut errors).is_some() {
                validate_supported(spec, &path, "reinvocationPolicy", &["IfNeeded", "Never"], &mut errors);
            }
        } else {
            validate_validations(spec, &path, &scope, &mut errors);
            validate_audit_annotations(object, &path.child("auditAnnotations"), &scope, &mut errors);
        }
        errors
    }

    fn validate_match_constraints(&self, spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        let Some(constraints) = spec.get("matchConstraints") else {
            errors.push(Error::required(path, ""));
            return;
        };
        validate_match_resources(constraints, path, errors);
        if items(constraints, "resourceRules").is_empty() {
            errors.push(Error::required(&path.child("resourceRules"), ""));
        }
        if self.mutating {
            validate_mutable_operations(constraints, path, errors);
        }
    }
}

/// As upstream's `validateParamKind`.
fn validate_param_kind(kind: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(version) = require(kind, path, "apiVersion", errors) {
        validate_group_version(version, &path.child("apiVersion"), errors);
    }
    if let Some(kind) = require(kind, path, "kind", errors) {
        let messages = names::dns1035_label(&kind.to_lowercase());
        if !messages.is_empty() {
            let detail = format!(
                "may have mixed case, but should otherwise match: {}",
                messages.join(",")
            );
            errors.push(Error::invalid_str(&path.child("kind"), kind, &detail));
        }
    }
}

fn validate_group_version(text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let (group, version) = match text.split_once('/') {
        Some((_, version)) if version.contains('/') => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(Error::invalid_str(path, text, &detail));
            return;
        }
        Some((group, version)) => (group, version),
        None => ("", text),
    };
    let mut push = |value: &str, messages: Vec<String>| {
        if !messages.is_empty() {
            errors.push(Error::invalid_str(path, value, &messages.join(",")));
        }
    };
    if !group.is_empty() {
        push(group, names::dns1123_subdomain(group));
    }
    if version.is_empty() {
        push(text, vec!["version must be specified".to_owned()]);
    } else {
        push(version, names::dns1035_label(version));
    }
}

fn validate_validations(spec: &Value, path: &Path<'_>, scope: &ExpressionScope, errors: &mut ErrorList) {
    let validations = items(spec, "validations");
    if validations.is_empty() && items(spec, "auditAnnotations").is_empty() {
        errors.push(Error::required(&path.child("validations"), NOTHING_TO_DO));
        errors.push(Error::required(&path.child("auditAnnotations"), NOTHING_TO_DO));
    }
    let at = path.child("validations");
    for (index, validation) in validations.iter().enumerate() {
        validate_validation(validation, &at.index(index), scope, errors);
    }
}

/// As upstream's `validateValidation`.
fn validate_validation(validation: &Value, path: &Path<'_>, scope: &ExpressionScope, errors: &mut ErrorList) {
    let (at, expression) = (path.child("expression"), text(validation, "expression"));
    if expression.trim().is_empty() {
        errors.push(Error::required(&at, "expression is not specified"));
    } else {
        validate_cel_condition(
            &scope.environment(true),
            (expression, expression),
            &at,
            &["bool"],
            errors,
        );
    }
    let (at, expression) = (path.child("messageExpression"), text(validation, "messageExpression"));
    if !expression.is_empty() && expression.trim().is_empty() {
        errors.push(Error::invalid_str(&at, expression, "must be non-empty if specified"));
    } else if !expression.is_empty() {
        validate_cel_condition(
            &scope.environment(false),
            (expression, expression),
            &at,
            &["string"],
            errors,
        );
    }
    let (at, message) = (path.child("message"), text(validation, "message"));
    if !message.is_empty() && message.trim().is_empty() {
        errors.push(Error::invalid_str(&at, message, "must be non-empty if specified"));
    } else if message.trim().contains(['\n', '\r']) {
        errors.push(Error::invalid_str(&at, message, "must not contain line breaks"));
    }
    if validation.get("reason").is_some() {
        validate_supported(validation, path, "reason", &REASONS, errors);
    }
}

fn validate_audit_annotations(object: &Value, path: &Path<'_>, scope: &ExpressionScope, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let annotations = items(spec, "auditAnnotations");
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let detail = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(Error::invalid(path, &annotations.to_vec().into(), &detail));
    }
    let policy = text_at(object, "/metadata/name");
    let mut seen = HashSet::new();
    for (index, annotation) in annotations.iter().enumerate() {
        let at = path.index(index);
        let (key, at_key) = (text(annotation, "key"), at.child("key"));
        if policy.is_empty() {
            errors.push(Error::invalid_str(&at_key, key, "requires metadata.name be non-empty"));
        } else {
            let whole = format!("{policy}/{key}");
            push_invalid(&at_key, &whole, names::qualified_name(&whole), errors);
        }
        validate_audit_annotation(annotation, &at.child("valueExpression"), scope, errors);
        if !seen.insert(key) {
            errors.push(Error::duplicate(&at_key, &key.into()));
        }
    }
}

/// As upstream's `validateAuditAnnotation`.
fn validate_audit_annotation(annotation: &Value, path: &Path<'_>, scope: &ExpressionScope, errors: &mut ErrorList) {
    let written = text(annotation, "valueExpression");
    let expression = written.trim();
    if expression.is_empty() {
        errors.push(Error::required(path, "valueExpression is not specified"));
    } else if expression.len() > MAX_AUDIT_EXPRESSION_BYTES {
        let detail = format!("must not exceed {MAX_AUDIT_EXPRESSION_BYTES} bytes in length");
        errors.push(Error::required(path, &detail));
    } else {
        let expected = ["string", "null_type"];
        validate_cel_condition(&scope.environment(true), (expression, written), path, &expected, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, merged};

    const GROUP: &str = "admissionregistration.k8s.io";

    fn policy(more: Value) -> Value {
        let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] });
        let base = json!({ "metadata": { "name": "p" }, "spec": { "matchConstraints": { "resourceRules": [rule] } } });
        merged(&base, &json!({ "spec": more }))
    }

    #[test]
    fn what_a_validating_policy_says_is_compiled() {
        let trial = Trial::new(GROUP, "validatingadmissionpolicies", validating());
        let validations = |validation: Value| policy(json!({ "validations": [validation] }));
        trial.expect_errors(&[
            (validations(json!({ "expression": "object.spec.x == 1" })), &[]),
            (validations(json!({ "expression": "'x'" })), &[
                r#"spec.validations[0].expression: Invalid value: "'x'": must evaluate to bool but got string"#,
            ]),
            (validations(json!({ "expression": "true", "message": "a\nb", "reason": "R" })), &[
                r#"spec.validations[0].message: Invalid value: "a\nb": must not contain line breaks"#,
                r#"spec.validations[0].reason: Unsupported value: "R": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge""#,
            ]),
            (validations(json!({ "expression": "true", "messageExpression": "authorizer.x" })), &[
                "spec.validations[0].messageExpression: Invalid value: \"authorizer.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'authorizer' (in container '')\n | authorizer.x\n | ^",
            ]),
            (policy(json!({})), &[
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ]),
            (policy(json!({ "auditAnnotations": [{ "key": "k", "valueExpression": " 1 " }, { "key": "k", "valueExpression": "null" }] })), &[
                r#"spec.auditAnnotations[0].valueExpression: Invalid value: " 1 ": must evaluate to one of [string null_type] but got int"#,
                r#"spec.auditAnnotations[1].key: Duplicate value: "k""#,
            ]),
        ]);
    }

    #[test]
    fn variables_speak_of_those_before_them() {
        let trial = Trial::new(GROUP, "validatingadmissionpolicies", validating());
        let variables = |expression: &str| {
            let variables = json!([{ "name": "a", "expression": "1" }, { "name": "b", "expression": expression }]);
            policy(json!({ "variables": variables, "validations": [{ "expression": "variables.b > 0" }] }))
        };
        trial.expect_errors(&[
            (variables("variables.a + 1"), &[]),
            (variables("'x'"), &[
                "spec.validations[0].expression: Invalid value: \"variables.b > 0\": compilation failed: ERROR: <input>:1:13: found no matching overload for '_>_' applied to '(string, int)'\n | variables.b > 0\n | ............^",
            ]),
            (variables("variables.c"), &[
                "spec.variables[1].expression: Invalid value: \"variables.c\": compilation failed: ERROR: <input>:1:10: undefined field 'c'\n | variables.c\n | .........^",
            ]),
        ]);
    }

    #[test]
    fn a_mutating_policy_makes_objects_or_patches() {
        let trial = Trial::new(GROUP, "mutatingadmissionpolicies", mutating());
        let mutations = |mutation: Value| policy(json!({ "reinvocationPolicy": "Never", "mutations": [mutation] }));
        let apply = |expression: &str| {
            mutations(json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": expression } }))
        };
        trial.expect_errors(&[
            (apply("Object{spec: Object.spec{replicas: 1}}"), &[]),
            (apply("1"), &[
                r#"spec.mutations[0].applyConfiguration.expression: Invalid value: "1": must evaluate to Object but got int"#,
            ]),
            (mutations(json!({ "patchType": "JSONPatch", "jsonPatch": { "expression": "[]" }, "applyConfiguration": {} })), &[
                r#"spec.mutations[0].jsonPatch.expression: Invalid value: "[]": must evaluate to list(JSONPatch) but got list(dyn)"#,
                r#"spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch"#,
            ]),
            (policy(json!({ "reinvocationPolicy": "Z" })), &[
                "spec.mutations: Required value: mutations must contain at least one item",
                r#"spec.reinvocationPolicy: Unsupported value: "Z": supported values: "IfNeeded", "Never""#,
            ]),
        ]);
        let rule = json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["pods"], "resourceNames": ["a/b", "c", "c"] });
        let mut body = apply("Object{}");
        body["spec"]["matchConstraints"]["resourceRules"] = json!([rule]);
        assert_eq!(
            trial.errors(body),
            [
                r#"spec.matchConstraints.resourceRules[0].resourceNames[0]: Invalid value: "a/b": may not contain '/'"#,
                r#"spec.matchConstraints.resourceRules[0].resourceNames[2]: Duplicate value: "c""#,
                r#"spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE""#,
            ]
        );
    }

    #[test]
    fn the_status_is_apart() {
        let trial = Trial::new(GROUP, "validatingadmissionpolicies", validating());
        let body = policy(json!({ "validations": [{ "expression": "true" }] }));
        let old = trial
            .create(merged(&body, &json!({ "status": { "observedGeneration": 1 } })))
            .expect("a valid policy");
        assert_eq!(old["status"], json!({}));
        let warnings = json!({ "typeChecking": { "expressionWarnings": [{ "fieldRef": " ", "warning": "" }] } });
        trial.expect_status_errors(
            &old,
            &[(
                warnings,
                &[
                    "status.typeChecking.expressionWarnings[0].warning: Required value",
                    "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
                ],
            )],
        );
    }

    #[test]
    fn conditions_that_stay_are_not_compiled_again() {
        let trial = Trial::new(GROUP, "validatingadmissionpolicies", validating());
        let body = |expression: &str, validation: &str| {
            let conditions = json!([{ "name": "n", "expression": expression }]);
            policy(json!({ "matchConditions": conditions, "validations": [{ "expression": validation }] }))
        };
        let old = trial.decode(body("params.a == 1", "true"));
        assert!(trial.update(&old, body("params.a == 1", "false")).is_ok());
        assert!(trial.update(&old, body("params.a == 2", "false")).is_err());
    }

    #[test]
    fn conditions_are_compiled_again_when_the_kind_of_parameters_changes() {
        let mutation = json!({ "patchType": "ApplyConfiguration", "applyConfiguration": { "expression": "Object{}" } });
        for (plural, kind, more) in [
            (
                "validatingadmissionpolicies",
                validating(),
                json!({ "validations": [{ "expression": "true" }] }),
            ),
            (
                "mutatingadmissionpolicies",
                mutating(),
                json!({ "reinvocationPolicy": "Never", "mutations": [mutation] }),
            ),
        ] {
            let trial = Trial::new(GROUP, plural, kind);
            let conditions = json!([{ "name": "n", "expression": "gone()" }]);
            let body = policy(merged(&more, &json!({ "matchConditions": conditions })));
            assert_eq!(trial.errors(body.clone()).len(), 1, "{plural}");
            let old = trial.decode(body.clone());
            let changed = |spec: Value| merged(&body, &json!({ "spec": spec }));
            let policy = changed(json!({ "failurePolicy": "Ignore" }));
            assert!(trial.update(&old, policy).is_ok(), "{plural}");
            let kind = json!({ "apiVersion": "v1", "kind": "ConfigMap" });
            let policy = changed(json!({ "paramKind": kind }));
            assert!(trial.update(&old, policy).is_err(), "{plural}");
        }
    }

    #[test]
    fn a_reserved_name_is_warned_of_at_the_status_too() {
        let policies = Policies { mutating: false };
        let policy = json!({ "metadata": { "name": "a.static.k8s.io" } });
        assert_eq!(policies.status_warnings(&policy).len(), 1);
        assert_eq!(policies.status_warnings(&policy), policies.warnings(&policy, None));
    }
}
