//! ValidatingAdmissionPolicyBindings and MutatingAdmissionPolicyBindings
//! (`pkg/registry/admissionregistration/*policybinding`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use super::{
    matching::{validate_match_resources, validate_mutable_operations},
    name_warnings,
};
use crate::{
    checks::{push_invalid, require, validate_optional_label_selector},
    columns::{self, column, described},
    kind::Kind,
    values::{entries, items, text},
};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

/// ValidatingAdmissionPolicyBindings.
pub(crate) fn validating() -> Kind {
    kind("validatingadmissionpolicybindings", PolicyBindings { validating: true })
}

/// MutatingAdmissionPolicyBindings.
pub(crate) fn mutating() -> Kind {
    kind("mutatingadmissionpolicybindings", PolicyBindings { validating: false })
}

fn kind(plural: &'static str, bindings: PolicyBindings) -> Kind {
    let policy = "PolicyName indicates the policy definition which the policy binding binded to";
    let reference = "ParamRef indicates the param resource which sets the configuration param";
    Kind::new("admissionregistration.k8s.io", plural, bindings).columns(vec![
        columns::name(),
        column("PolicyName", "string", described(policy), |object| {
            Value::from(
                object
                    .pointer("/spec/policyName")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            )
        }),
        column("ParamRef", "string", described(reference), |object| {
            Value::from(parameters(object))
        }),
        columns::age(),
    ])
}

/// The parameters that a binding names, or its selector as Go prints it.
fn parameters(object: &Value) -> String {
    let Some(reference) = object.pointer("/spec/paramRef") else {
        return "<unset>".to_owned();
    };
    let name = text(reference, "name");
    if !name.is_empty() {
        let namespace = text(reference, "namespace");
        return format!("{}/{name}", if namespace.is_empty() { "*" } else { namespace });
    }
    let Some(selector) = reference.get("selector") else {
        return "<unset>".to_owned();
    };
    let labels: String = entries(selector, "matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let requirements = items(selector, "matchExpressions").iter().map(|requirement| {
        let values: Vec<&str> = items(requirement, "values").iter().filter_map(Value::as_str).collect();
        format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            text(requirement, "key"),
            text(requirement, "operator"),
            values.join(" ")
        )
    });
    let requirements: String = requirements.collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}

struct PolicyBindings {
    validating: bool,
}

impl Strategy for PolicyBindings {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        if let Some(policy) = require(spec, &path, "policyName", &mut errors) {
            push_invalid(
                &path.child("policyName"),
                policy,
                names::dns1123_subdomain(policy),
                &mut errors,
            );
        }
        if let Some(reference) = spec.get("paramRef") {
            validate_param_ref(reference, &path.child("paramRef"), &mut errors);
        }
        if let Some(resources) = spec.get("matchResources") {
            let at = path.child("matchResources");
            validate_match_resources(resources, &at, &mut errors);
            if !self.validating {
                validate_mutable_operations(resources, &at, &mut errors);
            }
        }
        if self.validating {
            validate_validation_actions(
                items(spec, "validationActions"),
                &path.child("validationActions"),
                &mut errors,
            );
        }
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
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

/// As upstream's `validateParamRef`.
fn validate_param_ref(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const EXCLUSIVE: &str = "name and selector are mutually exclusive";
    let (name, selector) = (text(reference, "name"), reference.get("selector"));
    if !name.is_empty() {
        push_invalid(&path.child("name"), name, names::path_segment_name(name), errors);
        if selector.is_some() {
            errors.push(Error::forbidden(&path.child("name"), EXCLUSIVE));
        }
    }
    validate_optional_label_selector(selector, &path.child("selector"), errors);
    match (name.is_empty(), selector) {
        (false, Some(_)) => errors.push(Error::forbidden(&path.child("selector"), EXCLUSIVE)),
        (true, None) => errors.push(Error::required(path, "one of name or selector must be specified")),
        _ => {}
    }
    let at = path.child("parameterNotFoundAction");
    match reference
        .get("parameterNotFoundAction")
        .and_then(Value::as_str)
        .unwrap_or_default()
    {
        "" => errors.push(Error::required(&at, "")),
        "Allow" | "Deny" => {}
        other => errors.push(Error::not_supported(&at, other, &["Deny", "Allow"])),
    }
}

/// As upstream's `validateValidationActions`.
fn validate_validation_actions(actions: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    if actions.is_empty() {
        errors.push(Error::required(path, "at least one validation action is required"));
    }
    for (index, action) in actions.iter().enumerate() {
        let name = action.as_str().unwrap_or_default();
        if !ACTIONS.contains(&name) {
            errors.push(Error::not_supported(&path.index(index), name, &ACTIONS));
        }
        if actions.iter().take(index).any(|earlier| earlier == action) {
            errors.push(Error::duplicate(&path.index(index), action));
        }
    }
    if ["Deny", "Warn"]
        .iter()
        .all(|action| actions.iter().any(|given| given == action))
    {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(Error::invalid(path, &actions.to_vec().into(), detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn errors() {
        let trial = Trial::new(
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings",
            validating(),
        );
        trial.expect_errors(&[
            (
                named("b", json!({ "policyName": "p", "validationActions": ["Audit"] })),
                &[],
            ),
            (
                named("b", json!({})),
                &[
                    "spec.policyName: Required value",
                    "spec.validationActions: Required value: at least one validation action is required",
                ],
            ),
            (
                named(
                    "b",
                    json!({ "policyName": "p", "validationActions": ["Audit"], "paramRef": {} }),
                ),
                &[
                    "spec.paramRef: Required value: one of name or selector must be specified",
                    "spec.paramRef.parameterNotFoundAction: Required value",
                ],
            ),
        ]);
    }

    #[test]
    fn reserved_names_are_warned_of() {
        let trial = Trial::new(
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings",
            validating(),
        );
        assert_eq!(
            trial.warnings(&named("b.static.k8s.io", json!({})), None),
            [
                "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations \
              and cannot be managed via the API"
            ]
        );
        assert!(trial.warnings(&named("b", json!({})), None).is_empty());
    }
}
