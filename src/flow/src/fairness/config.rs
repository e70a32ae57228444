//! FlowSchemas and PriorityLevelConfigurations as the limiter reads them (`flowcontrol.apiserver.k8s.io/v1`).

use std::{cmp::Ordering, sync::Arc};

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::defaults;

/// The name of the mandatory level and schema of those who are never held up.
pub(crate) const EXEMPT: &str = "exempt";
/// The name of the mandatory level and schema of what no other schema matches.
pub(crate) const CATCH_ALL: &str = "catch-all";

/// What the limiter works by: all schemas and levels at one moment.
///
/// The mandatory ones are always among them: while the store has none, or has unreadable ones, they are as kube-apiserver
/// fixes them.
#[derive(Debug, Clone, Default)]
pub struct FlowConfig {
    pub(crate) schemas: Vec<Arc<FlowSchema>>,
    pub(crate) levels: Vec<PriorityLevel>,
}

impl FlowConfig {
    /// Reads objects of the API. What is not readable, which validation lets nobody write, is left out and logged.
    pub fn of<'v>(schemas: impl IntoIterator<Item = &'v Value>, levels: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut config = Self {
            schemas: schemas.into_iter().filter_map(read).map(Arc::new).collect(),
            levels: levels.into_iter().filter_map(read).collect(),
        };
        for default in defaults::bootstrap_objects()
            .iter()
            .filter(|default| default.is_mandatory)
        {
            config.complete(&default.object);
        }
        config.schemas.sort_by(|a, b| a.precedes(b));
        config.levels.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        config
    }

    /// Adds a mandatory object that is missing.
    fn complete(&mut self, object: &Value) {
        if object["kind"] == "FlowSchema" {
            let schema: Option<FlowSchema> = read(object);
            let missing = schema.filter(|new| !self.schemas.iter().any(|old| old.name() == new.name()));
            self.schemas.extend(missing.map(Arc::new));
        } else {
            let level: Option<PriorityLevel> = read(object);
            let missing = level.filter(|new| !self.levels.iter().any(|old| old.metadata.name == new.metadata.name));
            self.levels.extend(missing);
        }
    }
}

fn read<T: for<'de> Deserialize<'de>>(object: &Value) -> Option<T> {
    T::deserialize(object)
        .inspect_err(
            |error| tracing::error!(name = %object["metadata"]["name"], %error, "an unreadable flow control object"),
        )
        .ok()
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FlowObjectMeta {
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// Which requests go to which level, and which of them are one flow.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FlowSchema {
    pub(crate) metadata: FlowObjectMeta,
    pub(crate) spec: FlowSchemaSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FlowSchemaSpec {
    pub(crate) priority_level_configuration: LevelReference,
    matching_precedence: i64,
    pub(crate) distinguisher_method: Option<DistinguisherMethod>,
    pub(crate) rules: Vec<FlowRule>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LevelReference {
    pub(crate) name: String,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct DistinguisherMethod {
    #[serde(rename = "type")]
    pub(crate) kind: Distinguisher,
}

/// By what the requests of one schema are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) enum Distinguisher {
    ByUser,
    ByNamespace,
}

/// Subjects and what they ask for. Lists may be `null` in stored objects.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FlowRule {
    pub(crate) subjects: Vec<FlowRuleSubject>,
    pub(crate) resource_rules: Vec<FlowResourceRule>,
    pub(crate) non_resource_rules: Vec<FlowPathRule>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FlowRuleSubject {
    pub(crate) user: Option<Named>,
    pub(crate) group: Option<Named>,
    pub(crate) service_account: Option<ServiceAccountSubject>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub(crate) name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceAccountSubject {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FlowResourceRule {
    pub(crate) verbs: Vec<String>,
    pub(crate) api_groups: Vec<String>,
    pub(crate) resources: Vec<String>,
    pub(crate) cluster_scope: bool,
    #[serde(deserialize_with = "none_if_null")]
    pub(crate) namespaces: Vec<String>,
}

/// Reads a list that is kept as null if it is empty.
fn none_if_null<'de, D: Deserializer<'de>>(list: D) -> Result<Vec<String>, D::Error> {
    Option::deserialize(list).map(Option::unwrap_or_default)
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FlowPathRule {
    pub(crate) verbs: Vec<String>,
    #[serde(rename = "nonResourceURLs")]
    pub(crate) paths: Vec<String>,
}

/// A level: how many requests it lets through at once, and what it does with the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct PriorityLevel {
    pub(crate) metadata: FlowObjectMeta,
    pub(crate) spec: PriorityLevelSpec,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct PriorityLevelSpec {
    /// `None` for the exempt level.
    pub(crate) limited: Option<LimitedLevel>,
    exempt: Option<ExemptLevel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LimitedLevel {
    #[serde(default)]
    nominal_concurrency_shares: u32,
    #[serde(default)]
    lendable_percent: u32,
    borrowing_limit_percent: Option<u32>,
    #[serde(default)]
    limit_response: LimitResponse,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ExemptLevel {
    nominal_concurrency_shares: u32,
    lendable_percent: u32,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct LimitResponse {
    /// `None` to refuse at once.
    queuing: Option<QueueShape>,
}

/// The queues of a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueueShape {
    /// How many there are.
    pub(crate) queues: usize,
    /// Among how many of them a flow may choose.
    pub(crate) hand_size: usize,
    /// How many requests fit into one.
    pub(crate) queue_length_limit: usize,
}

impl FlowSchema {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    /// The order of matching: by precedence, then by name.
    fn precedes(&self, other: &Self) -> Ordering {
        let precedence = self.spec.matching_precedence.cmp(&other.spec.matching_precedence);
        precedence.then_with(|| self.name().cmp(other.name()))
    }
}

impl PriorityLevelSpec {
    pub(crate) fn shares(&self) -> u32 {
        match (&self.limited, &self.exempt) {
            (Some(limited), _) => limited.nominal_concurrency_shares,
            (None, Some(exempt)) => exempt.nominal_concurrency_shares,
            (None, None) => 0,
        }
    }

    pub(crate) fn lendable_percent(&self) -> u32 {
        match (&self.limited, &self.exempt) {
            (Some(limited), _) => limited.lendable_percent,
            (None, Some(exempt)) => exempt.lendable_percent,
            (None, None) => 0,
        }
    }

    pub(crate) fn borrowing_limit_percent(&self) -> Option<u32> {
        self.limited
            .as_ref()
            .and_then(|limited| limited.borrowing_limit_percent)
    }

    pub(crate) fn queuing(&self) -> Option<QueueShape> {
        self.limited.as_ref().and_then(|limited| limited.limit_response.queuing)
    }
}
