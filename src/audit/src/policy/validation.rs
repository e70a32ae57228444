//! The rules of a policy's fields, as `k8s.io/apiserver/pkg/apis/audit/validation` has them.

use serde_json::json;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::aggregate_errors,
    names,
};

use super::document::{PolicyDocument, ResourcesDocument, RuleDocument};
use crate::level::{AuditLevel, AuditStage};

/// Holds a document against all rules.
pub(super) fn validate_policy(policy: &PolicyDocument) -> Result<(), String> {
    let mut errors = ErrorList::new();
    validate_omit_stages(&policy.omit_stages, &Path::new("omitStages"), &mut errors);
    let rules = Path::new("rules");
    for (index, rule) in policy.rules.iter().enumerate() {
        validate_policy_rule(rule, &rules.index(index), &mut errors);
    }
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    match aggregate_errors(&errors) {
        Some(all) => Err(all),
        None if policy.rules.is_empty() => Err("loaded illegal policy with 0 rules".to_owned()),
        None => Ok(()),
    }
}

fn validate_policy_rule(rule: &RuleDocument, path: &Path<'_>, errors: &mut ErrorList) {
    validate_level(&rule.level, &path.child("level"), errors);
    let urls = path.child("nonResourceURLs");
    validate_non_resource_urls(&rule.non_resource_urls, &urls, errors);
    let resources = path.child("resources");
    for these in &rule.resources {
        validate_resources(these, &resources, errors);
    }
    validate_omit_stages(&rule.omit_stages, &path.child("omitStages"), errors);
    let is_about_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
    if !rule.non_resource_urls.is_empty() && is_about_resources {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(Error::invalid(&urls, &json!(rule.non_resource_urls), why));
    }
}

fn validate_level(level: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if level.is_empty() {
        errors.push(Error::required(path, ""));
    } else if AuditLevel::parse(level).is_none() {
        errors.push(Error::not_supported(
            path,
            level,
            &AuditLevel::ALL.map(AuditLevel::name),
        ));
    }
}

fn validate_non_resource_urls(urls: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    for (index, url) in urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        let at = path.index(index);
        if !url.starts_with('/') {
            let why = "non-resource URL rules must begin with a '/' character";
            errors.push(Error::invalid_str(&at, url, why));
        }
        if url.find('*').is_some_and(|star| star + 1 < url.len()) {
            let why = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.push(Error::invalid_str(&at, url, why));
        }
    }
}

fn validate_resources(these: &ResourcesDocument, path: &Path<'_>, errors: &mut ErrorList) {
    if !these.group.is_empty() && these.group != "*" {
        let wrong = names::name_is_dns_subdomain(&these.group, false);
        if !wrong.is_empty() {
            errors.push(Error::invalid_str(&path.child("group"), &these.group, &wrong.join(",")));
        }
    }
    if !these.resource_names.is_empty() && these.resources.is_empty() {
        let why = "using resourceNames requires at least one resource";
        let at = path.child("resourceNames");
        errors.push(Error::invalid(&at, &json!(these.resource_names), why));
    }
}

fn validate_omit_stages(stages: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    let all = AuditStage::ALL.map(AuditStage::name).join(",");
    for (index, stage) in stages.iter().enumerate() {
        if AuditStage::parse(stage).is_none() {
            let why = format!("allowed stages are {all}");
            errors.push(Error::invalid_str(&path.index(index), stage, &why));
        }
    }
}
