//! Takes out of an answer what no two servers share: uids, revisions, times, allotted addresses, tokens, ages; and what is
//! random in kube-apiserver: the order of `managedFields` within a second, of the managers that an apply conflicts with.

use std::sync::LazyLock;

use regex::{NoExpand, Regex};
use serde_json::{Map, Value};

use crate::receiver::Receiver;

/// Replaces what varies by a placeholder.
#[derive(Debug)]
pub(super) struct Normalizer {
    namespace: String,
    /// The end of the namespace as the ids of OpenAPI operations have it, for a group such as `ref-0a1b.example.com`.
    in_operation_ids: String,
    keeps_managers: bool,
    /// Texts of the scenario's receiver, and what stands for them.
    hidden: Vec<(String, &'static str)>,
    receiver_port: Option<u16>,
}

// Compiled once: in a debug build that takes far longer than the requests.
static COMPILED: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    PATTERNS
        .iter()
        .map(|(pattern, with)| (compile(pattern), *with))
        .collect()
});
static AGE: LazyLock<Regex> = LazyLock::new(|| compile(r"^(\d+[ydhms]|\d+ms)+$"));

fn compile(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a valid pattern")
}

/// Fields whose value is replaced as a whole when it is set.
const VOLATILE: &[(&str, &str)] = &[
    ("resourceVersion", "<rv>"),
    ("continue", "<continue>"),
    ("clusterIP", "<ip>"),
    ("nodePort", "<port>"),
    ("token", "<token>"),
    ("healthCheckNodePort", "<port>"),
    ("serverAddress", "<address>"),
    ("storageVersionHash", "<hash>"),
    // Of `/version`.
    ("buildDate", "<time>"),
    ("compiler", "<compiler>"),
    ("gitCommit", "<commit>"),
    ("gitTreeState", "<state>"),
    ("gitVersion", "<version>"),
    ("goVersion", "<version>"),
];

/// Lists whose order is random in kube-apiserver.
const UNORDERED: &[&str] = &["resourceRules", "nonResourceRules", "managedFields"];

/// Replaced wherever they occur in a text, in this order. The namespace is replaced after the first two.
const PATTERNS: &[(&str, &str)] = &[
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<uid>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
    (r"hash=[0-9A-F]{32,}", "hash=<hash>"),
    (r"serverAddress: \S+", "serverAddress: <address>"),
    (r"(X509SHA256=)[0-9a-f]{64}", "${1}<hash>"),
    (r"\bgen-[a-z0-9]{5}\b", "gen-<rand>"),
    // Any of the webhooks that wait for this object may be the first.
    (
        r#"admission webhook "[^"]*" denied the request: ready$"#,
        r#"admission webhook "<any>" denied the request: ready"#,
    ),
    (r"(kube-api-access-)[a-z0-9]{5}", "${1}<rand>"),
    (
        r"\b(too old resource version: |Too large resource version: |current: )\d+( \(\d+\))?",
        "${1}<rv>",
    ),
    (r"(ResourceVersion in record \()\d+", "${1}<rv>"),
    (r#"(\\*"resourceVersion\\*":\\*")\d+"#, "${1}<rv>"),
];

impl Normalizer {
    /// For a scenario that ran in `namespace`, with or without its `managedFields`.
    pub(super) fn new(namespace: &str, keeps_managers: bool) -> Self {
        Self {
            keeps_managers,
            namespace: namespace.to_owned(),
            in_operation_ids: in_operation_ids(namespace),
            hidden: Vec::new(),
            receiver_port: None,
        }
    }

    /// Replaces what differs from one receiver to the next.
    pub(super) fn hide(&mut self, receiver: &Receiver) {
        self.hidden = receiver.hidden();
        self.receiver_port = Some(receiver.port());
    }

    /// A whole answer.
    pub(super) fn apply(&self, value: &Value) -> Value {
        self.value(value, None)
    }

    fn value(&self, value: &Value, key: Option<&str>) -> Value {
        match value {
            Value::Object(fields) => fields
                .iter()
                .filter(|(key, _)| self.keeps_managers || *key != "managedFields")
                .map(|(key, field)| (self.name(key), self.value(field, Some(key))))
                .collect::<Map<_, _>>()
                .into(),
            Value::Array(items) if key == Some("clusterIPs") => items
                .iter()
                .map(|item| if item == "None" { item.clone() } else { "<ip>".into() })
                .collect(),
            Value::Array(items) => {
                let mut items: Vec<Value> = items.iter().map(|item| self.value(item, key)).collect();
                if key.is_some_and(|key| UNORDERED.contains(&key)) || is_conflicts(&items) {
                    items.sort_by_cached_key(Value::to_string);
                }
                items.into()
            }
            scalar => self.scalar(scalar, key),
        }
    }

    /// The name of a field: field sets have uids and namespaces in theirs.
    fn name(&self, key: &str) -> String {
        let (uid, placeholder) = &COMPILED[0];
        let key = uid.replace_all(key, *placeholder);
        key.replace(&self.namespace, "<ns>")
    }

    fn scalar(&self, value: &Value, key: Option<&str>) -> Value {
        let is_set = !value.is_null() && value != "" && value != "None" && *value != 0;
        if let Some((_, with)) = VOLATILE.iter().find(|(name, _)| key == Some(name) && is_set) {
            return (*with).into();
        }
        let Value::String(text) = value else {
            let is_port = self.receiver_port.is_some_and(|port| *value == port);
            return if is_port { "<hook>".into() } else { value.clone() };
        };
        let mut text = text.clone();
        for (hidden, with) in &self.hidden {
            text = text.replace(hidden, with);
        }
        for (number, (pattern, with)) in COMPILED.iter().enumerate() {
            if number == 2 {
                text = text.replace(&self.namespace, "<ns>");
                text = text.replace(&self.in_operation_ids, "ef<Ns>Ex");
            }
            text = pattern.replace_all(&text, *with).into_owned();
        }
        if matches!(key, None | Some("cells")) {
            text = AGE.replace(&text, NoExpand("<age>")).into_owned();
        }
        text.into()
    }
}

/// `efC3a7Ex` for `ref-c3a7`.
fn in_operation_ids(namespace: &str) -> String {
    let (_, end) = namespace.split_once('-').unwrap_or_default();
    let (first, rest) = end.split_at_checked(1).unwrap_or_default();
    format!("ef{}{rest}Ex", first.to_ascii_uppercase())
}

/// True for the causes of an apply that conflicts with several managers.
fn is_conflicts(causes: &[Value]) -> bool {
    !causes.is_empty() && causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Normalizer;

    #[test]
    fn what_varies_is_replaced_and_the_rest_stays() {
        let answer = json!({
            "metadata": {"name": "ref-1-x", "resourceVersion": "12", "managedFields": [{"manager": "b"}, {"manager": "a", "time": "2026-01-02T03:04:05Z", "fieldsV1": {
                    "k:{\"uid\":\"00000000-0000-4000-8000-00000000000a\"}": {}}}], "uid": "00000000-0000-4000-8000-00000000000a"},
            "spec": {"clusterIP": "None", "clusterIPs": ["None", "10.96.0.9"], "nodePort": 30001, "replicas": 0},
            "rows": [{"cells": ["a", "12m", 3]}],
            "message": "too old resource version: 5 (9), at 2026-01-02T03:04:05Z",
        });
        let expected = json!({
            "metadata": {"name": "<ns>-x", "resourceVersion": "<rv>", "managedFields": [
                {"manager": "a", "time": "<time>", "fieldsV1": {"k:{\"uid\":\"<uid>\"}": {}}}, {"manager": "b"}], "uid": "<uid>"},
            "spec": {"clusterIP": "None", "clusterIPs": ["None", "<ip>"], "nodePort": "<port>", "replicas": 0},
            "rows": [{"cells": ["a", "<age>", 3]}],
            "message": "too old resource version: <rv>, at <time>",
        });
        assert_eq!(Normalizer::new("ref-1", true).apply(&answer), expected);
    }
}
