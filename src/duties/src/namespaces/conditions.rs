//! Conditions of a namespace's status about its deletion.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

/// The state of a namespace's content during its deletion.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The reasons that content could not be deleted.
    pub(super) failures: Vec<String>,
    /// `pods.` or `deployments.apps`, and how many of them are left.
    pub(super) remaining: BTreeMap<String, usize>,
    /// The number of those that wait for each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
}

/// A condition with what it says when all is well.
struct ConditionKind {
    name: &'static str,
    reason: &'static str,
    message: &'static str,
}

const DISCOVERY: ConditionKind = ConditionKind {
    name: "NamespaceDeletionDiscoveryFailure",
    reason: "ResourcesDiscovered",
    message: "All resources successfully discovered",
};
const PARSING: ConditionKind = ConditionKind {
    name: "NamespaceDeletionGroupVersionParsingFailure",
    reason: "ParsedGroupVersions",
    message: "All legacy kube types successfully parsed",
};
const CONTENT: ConditionKind = ConditionKind {
    name: "NamespaceDeletionContentFailure",
    reason: "ContentDeleted",
    message: "All content successfully deleted, may be waiting on finalization",
};
const REMAINING: ConditionKind = ConditionKind {
    name: "NamespaceContentRemaining",
    reason: "ContentRemoved",
    message: "All content successfully removed",
};
const FINALIZERS: ConditionKind = ConditionKind {
    name: "NamespaceFinalizersRemaining",
    reason: "ContentHasNoFinalizers",
    message: "All content-preserving finalizers finished",
};

impl Findings {
    /// The conditions that a status should have, if it has others. Those that are not about the deletion stay.
    pub(super) fn outdated(&self, status: &Value, now: Timestamp) -> Option<Vec<Value>> {
        let current = status.get("conditions").and_then(Value::as_array);
        let mut conditions = current.cloned().unwrap_or_default();
        // All resources are known to this server, so nothing can be wrong with discovery.
        let wanted = [
            (&DISCOVERY, None),
            (&PARSING, None),
            (&CONTENT, self.failure()),
            (&REMAINING, self.remaining()),
            (&FINALIZERS, self.finalizers()),
        ];
        let mut changed = false;
        for (kind, trouble) in wanted {
            changed |= kind.set(&mut conditions, trouble, now);
        }
        changed.then_some(conditions)
    }

    fn failure(&self) -> Option<(&'static str, String)> {
        let mut texts = self.failures.clone();
        texts.sort();
        let count = texts.len();
        let message = || {
            let texts = texts.join(", ");
            format!("Failed to delete all resource types, {count} remaining: {texts}")
        };
        (count > 0).then(|| ("ContentDeletionFailed", message()))
    }

    fn remaining(&self) -> Option<(&'static str, String)> {
        let texts = self
            .remaining
            .iter()
            .map(|(resource, count)| format!("{resource} has {count} resource instances"));
        let text = format!("Some resources are remaining: {}", sorted(texts));
        (!self.remaining.is_empty()).then_some(("SomeResourcesRemain", text))
    }

    fn finalizers(&self) -> Option<(&'static str, String)> {
        let texts = self
            .finalizers
            .iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
        let text = format!(
            "Some content in the namespace has finalizers remaining: {}",
            sorted(texts)
        );
        (!self.finalizers.is_empty()).then_some(("SomeFinalizersRemain", text))
    }
}

fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort();
    texts.join(", ")
}

impl ConditionKind {
    /// Sets the condition; says whether it was another.
    fn set(&self, conditions: &mut Vec<Value>, trouble: Option<(&str, String)>, now: Timestamp) -> bool {
        let status = if trouble.is_some() { "True" } else { "False" };
        let (reason, message) = trouble.unwrap_or_else(|| (self.reason, self.message.to_owned()));
        let mut wanted = json!({
            "type": self.name,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let Some(current) = conditions.iter_mut().find(|condition| condition["type"] == self.name) else {
            conditions.push(wanted);
            return true;
        };
        if current["status"] == wanted["status"] {
            wanted["lastTransitionTime"] = current["lastTransitionTime"].clone();
        }
        let changed = *current != wanted;
        *current = wanted;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(conditions: &[Value]) -> Vec<String> {
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        conditions
            .iter()
            .map(|condition| {
                ["type", "status", "reason", "message"]
                    .map(|field| text(condition, field))
                    .join("|")
            })
            .collect()
    }

    #[test]
    fn remaining_content_is_reported_with_the_reasons() {
        let findings = Findings {
            failures: vec!["no".to_owned()],
            remaining: [("pods.".to_owned(), 2), ("deployments.apps".to_owned(), 1)].into(),
            finalizers: [("example.com/hold".to_owned(), 3)].into(),
        };
        let at = |second| Timestamp::from_second(second).expect("a time");
        let first = findings.outdated(&json!({}), at(1)).expect("nothing was said yet");
        assert_eq!(
            texts(&first)[2..],
            [
                "NamespaceDeletionContentFailure|True|ContentDeletionFailed|Failed to delete all resource types, 1 \
                 remaining: no",
                "NamespaceContentRemaining|True|SomeResourcesRemain|Some resources are remaining: deployments.apps has \
                 1 resource instances, pods. has 2 resource instances",
                "NamespaceFinalizersRemaining|True|SomeFinalizersRemain|Some content in the namespace has finalizers \
                 remaining: example.com/hold in 3 resource instances",
            ]
        );
        let status = json!({ "conditions": first });
        assert_eq!(findings.outdated(&status, at(2)), None, "all has been said");
        let last = Findings::default().outdated(&status, at(3)).expect("it is over");
        assert_eq!(
            texts(&last)[3],
            "NamespaceContentRemaining|False|ContentRemoved|All content successfully removed"
        );
        assert_eq!(last[3]["lastTransitionTime"], "1970-01-01T00:00:03Z");
        assert_eq!(
            last[0]["lastTransitionTime"], "1970-01-01T00:00:01Z",
            "discovery was well all the time"
        );
    }
}
