//! The rules of flow schemas: whose requests, for what.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use crate::{
    checks::{not_supported_value, push_invalid, require},
    values::{is_true_at, items, text},
};

const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

/// Validates a rule (`ValidateFlowSchemaPolicyRulesWithSubjects`).
pub(super) fn validate_flow_schema_policy_rules_with_subjects(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let subjects_path = path.child("subjects");
    let subjects = items(rule, "subjects");
    if subjects.is_empty() {
        errors.push(Error::required(
            &subjects_path,
            "subjects must contain at least one value",
        ));
    }
    for (index, subject) in subjects.iter().enumerate() {
        validate_flow_schema_subject(subject, &subjects_path.index(index), errors);
    }
    let (resource_rules, other_rules) = (items(rule, "resourceRules"), items(rule, "nonResourceRules"));
    if resource_rules.is_empty() && other_rules.is_empty() {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(Error::required(path, detail));
    }
    let resource_path = path.child("resourceRules");
    for (index, rule) in resource_rules.iter().enumerate() {
        validate_flow_schema_resource_policy_rule(rule, &resource_path.index(index), errors);
    }
    let other_path = path.child("nonResourceRules");
    for (index, rule) in other_rules.iter().enumerate() {
        validate_flow_schema_non_resource_policy_rule(rule, &other_path.index(index), errors);
    }
}

/// As upstream's `ValidateFlowSchemaSubject`.
fn validate_flow_schema_subject(subject: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    const FIELDS: [(&str, &str); 3] = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = text(subject, "kind");
    let Some((_, own)) = FIELDS.iter().find(|(known, _)| *known == kind) else {
        errors.push(Error::not_supported(
            &path.child("kind"),
            kind,
            &["Group", "ServiceAccount", "User"],
        ));
        return;
    };
    let at = path.child(own);
    match subject.get(own) {
        None => errors.push(Error::required(
            &at,
            &format!("{own} is required when subject kind is '{kind}'"),
        )),
        Some(account) if *own == "serviceAccount" => validate_service_account_subject(account, &at, errors),
        Some(named) => {
            require(named, &at, "name", errors);
        }
    }
    for (other, field) in FIELDS
        .iter()
        .filter(|(other, field)| *other != kind && subject.get(field).is_some())
    {
        let detail = format!("{field} is forbidden when subject kind is not '{other}'");
        errors.push(Error::forbidden(&path.child(field), &detail));
    }
}

/// As upstream's `ValidateServiceAccountSubject`.
fn validate_service_account_subject(account: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(name) = require(account, path, "name", errors).filter(|name| *name != "*") {
        push_invalid(&path.child("name"), name, names::dns1123_subdomain(name), errors);
    }
    let namespace = text(account, "namespace");
    let at = path.child("namespace");
    if namespace.is_empty() {
        errors.push(Error::required(&at, "must specify namespace for service account"));
    } else {
        push_invalid(&at, namespace, names::dns1123_label(namespace), errors);
    }
}

/// A list that must not be empty and in which `*` stands alone; says whether its items are to be looked at.
fn validate_wildcard_list(
    rule: &Value,
    path: &Path<'_>,
    field: &str,
    missing: &str,
    what: &str,
    errors: &mut ErrorList,
) -> bool {
    let list = items(rule, field);
    let at = path.child(field);
    if list.is_empty() {
        errors.push(Error::required(&at, missing));
        return false;
    }
    let has_wildcard = list.iter().any(|item| item == "*");
    if has_wildcard && list.len() > 1 {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&at, &list.to_vec().into(), &detail));
    }
    !has_wildcard
}

/// Of either kind of rule, only the verbs that Kubernetes knows.
fn validate_verbs(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let missing = "verbs must contain at least one value";
    if !validate_wildcard_list(rule, path, "verbs", missing, "verbs", errors) {
        return;
    }
    let verbs = items(rule, "verbs");
    let are_known = verbs.iter().filter_map(Value::as_str).all(|verb| VERBS.contains(&verb));
    if !are_known {
        errors.push(not_supported_value(
            &path.child("verbs"),
            &verbs.to_vec().into(),
            &VERBS,
        ));
    }
}

/// As upstream's `ValidateFlowSchemaResourcePolicyRule`.
fn validate_flow_schema_resource_policy_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, path, errors);
    let missing = "resource rules must supply at least one api group";
    validate_wildcard_list(rule, path, "apiGroups", missing, "api groups", errors);
    let missing = "resource rules must supply at least one resource";
    validate_wildcard_list(rule, path, "resources", missing, "resources", errors);
    if items(rule, "namespaces").is_empty() && is_true_at(rule, "/clusterScope") {
        return;
    }
    let missing = "resource rules that are not cluster scoped must supply at least one namespace";
    if validate_wildcard_list(rule, path, "namespaces", missing, "namespaces", errors) {
        let at = path.child("namespaces");
        for (index, namespace) in items(rule, "namespaces").iter().filter_map(Value::as_str).enumerate() {
            for error in names::dns1123_label(namespace) {
                let detail = format!("each member of this list must be '*' or a DNS-1123 label; {error}");
                errors.push(Error::invalid_str(&at.index(index), namespace, &detail));
            }
        }
    }
}

/// As upstream's `ValidateFlowSchemaNonResourcePolicyRule`.
fn validate_flow_schema_non_resource_policy_rule(rule: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, path, errors);
    let missing = "nonResourceURLs must contain at least one value";
    if validate_wildcard_list(rule, path, "nonResourceURLs", missing, "non-resource URLs", errors) {
        let at = path.child("nonResourceURLs");
        for (index, url) in items(rule, "nonResourceURLs")
            .iter()
            .filter_map(Value::as_str)
            .enumerate()
        {
            if let Some(error) = validate_non_resource_url_path(url) {
                errors.push(Error::invalid_str(&at.index(index), url, error));
            }
        }
    }
}

/// As upstream's `ValidateNonResourceURLPath`.
fn validate_non_resource_url_path(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) => Some("wildcard can only do suffix matching"),
        _ => None,
    }
}
