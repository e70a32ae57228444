//! The file of a policy as it was written.

use serde::Deserialize;
use serde_json::Value;
use trireme_machinery::yaml;

use super::{AuditPolicy, AuditRule, GroupResources, RequestAuditConfig};
use crate::level::{AuditLevel, AuditStage, Stages};

const API_VERSION: &str = "audit.k8s.io/v1";

/// A policy; what is absent is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PolicyDocument {
    pub(super) rules: Vec<RuleDocument>,
    pub(super) omit_stages: Vec<String>,
    pub(super) omit_managed_fields: bool,
}

/// A rule of one.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RuleDocument {
    pub(super) level: String,
    pub(super) users: Vec<String>,
    pub(super) user_groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) resources: Vec<ResourcesDocument>,
    pub(super) namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(super) non_resource_urls: Vec<String>,
    pub(super) omit_stages: Vec<String>,
    pub(super) omit_managed_fields: Option<bool>,
}

/// Resources of a group.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourcesDocument {
    pub(super) group: String,
    pub(super) resources: Vec<String>,
    pub(super) resource_names: Vec<String>,
}

/// Reads a document. Unknown fields are left out of account, and nulls are absent, as in kube-apiserver.
pub(super) fn read(text: &[u8]) -> Result<PolicyDocument, String> {
    let decoded = yaml::decode(text).map_err(|error| format!("failed decoding: {error}"))?;
    let mut value = decoded.value;
    check_kind(&value)?;
    drop_nulls(&mut value);
    serde_json::from_value(value).map_err(|error| format!("failed decoding: {error}"))
}

fn check_kind(value: &Value) -> Result<(), String> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (API_VERSION, "Policy" | "") => Ok(()),
        ("", "Policy" | "") => {
            Err("unknown group version field audit.k8s.io/__internal, Kind=Policy in policy".to_owned())
        }
        (API_VERSION, kind @ ("Event" | "EventList" | "PolicyList")) => Err(format!(
            "failed decoding: converting (v1.{kind}) to (audit.Policy): unknown conversion"
        )),
        (version, kind) => Err(format!(
            "failed decoding: no kind \"{kind}\" is registered for version \"{version}\" in scheme \
             \"pkg/audit/scheme.go:30\""
        )),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

impl PolicyDocument {
    /// The policy that a valid document describes.
    pub(super) fn into_policy(self) -> AuditPolicy {
        let omit_stages = stages(&self.omit_stages);
        let omit_managed_fields = self.omit_managed_fields;
        let rules = self.rules.into_iter();
        AuditPolicy {
            rules: rules
                .map(|rule| rule.into_rule(omit_stages, omit_managed_fields))
                .collect(),
            omit_stages,
            omit_managed_fields,
        }
    }
}

impl RuleDocument {
    fn into_rule(self, omit_stages: Stages, omit_managed_fields: bool) -> AuditRule {
        let resources = self.resources.into_iter().map(|these| GroupResources {
            group: these.group,
            resources: these.resources,
            resource_names: these.resource_names,
        });
        AuditRule {
            config: RequestAuditConfig {
                level: AuditLevel::parse(&self.level).unwrap_or(AuditLevel::None),
                omit_stages: stages(&self.omit_stages).union(omit_stages),
                omit_managed_fields: self.omit_managed_fields.unwrap_or(omit_managed_fields),
            },
            users: self.users,
            user_groups: self.user_groups,
            verbs: self.verbs,
            resources: resources.collect(),
            namespaces: self.namespaces,
            non_resource_urls: self.non_resource_urls,
        }
    }
}

fn stages(names: &[String]) -> Stages {
    names.iter().filter_map(|name| AuditStage::parse(name)).collect()
}
