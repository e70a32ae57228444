//! Values that a request set itself and that the recording shows as a placeholder only: they have to come back as they were
//! sent.
//!
//! Recorded answers have placeholders where servers differ: uids, times, addresses, ports, tokens, revisions. Where the request
//! names the value at the same place, the server has no choice, and a placeholder would hide that it made one. A time may come
//! back in UTC. Bodies that are sent as a text, and JSON patches, are not looked into: their values stay masked.

use jiff::Timestamp;
use serde_json::Value;

/// The placeholders of values that a request can set.
const PLACEHOLDERS: &[&str] = &["<uid>", "<time>", "<ip>", "<port>", "<token>", "<rv>"];
/// The one list in the object's own `metadata` whose values are the client's; all else there is the server's.
const OWNERS: &str = "ownerReferences";

/// The differences between what a request set and what came back, where the recorded answer has a placeholder.
pub(super) fn lost(request: &Value, recorded: &Value, answer: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    walk(request, recorded, answer, "", &mut differences);
    differences
}

fn walk(request: &Value, recorded: &Value, answer: &Value, path: &str, differences: &mut Vec<String>) {
    match (request, recorded) {
        (Value::Object(fields), Value::Object(_)) => {
            for (name, field) in fields.iter().filter(|(name, _)| !is_servers(path, name)) {
                let below = format!("{path}.{name}");
                walk(field, &recorded[name], &answer[name], &below, differences);
            }
        }
        (Value::Array(items), Value::Array(_)) => {
            for (number, item) in items.iter().enumerate() {
                let below = format!("{path}[{number}]");
                walk(item, &recorded[number], &answer[number], &below, differences);
            }
        }
        (set, Value::String(recorded))
            if is_literal(set) && !is_same(set, answer) && PLACEHOLDERS.contains(&recorded.as_str()) =>
        {
            differences.push(format!("{path}: the request set {set}, got {answer}"));
        }
        _ => {}
    }
}

fn is_servers(path: &str, name: &str) -> bool {
    path == ".metadata" && name != OWNERS
}

/// Returns true for a value that is set and not put together from values of the run.
fn is_literal(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty() && !text.contains("${"),
        Value::Number(number) => number.as_i64() != Some(0),
        _ => false,
    }
}

/// Returns true for equal values and for two spellings of one time.
fn is_same(set: &Value, answer: &Value) -> bool {
    set == answer || time(set).is_some_and(|time_set| Some(time_set) == time(answer))
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lost;

    #[test]
    fn a_time_may_come_back_in_utc_but_must_be_the_same() {
        let request = json!({"timeAdded": "2024-01-01T01:00:00+01:00"});
        let recorded = json!({"timeAdded": "<time>"});
        let answer = |time: &str| json!({"timeAdded": time});
        assert_eq!(
            lost(&request, &recorded, &answer("2024-01-01T00:00:00Z")),
            Vec::<String>::new()
        );
        assert_eq!(lost(&request, &recorded, &answer("2024-01-01T01:00:00Z")).len(), 1);
    }

    #[test]
    fn only_the_metadata_of_the_object_itself_is_the_servers() {
        let at = |time: &str| {
            json!({
                "metadata": {"creationTimestamp": time},
                "spec": {"template": {"metadata": {"creationTimestamp": time}}},
            })
        };
        let (request, recorded) = (at("2020-01-01T00:00:00Z"), at("<time>"));
        assert_eq!(
            lost(&request, &recorded, &at("2026-01-02T03:04:05Z")),
            [
                ".spec.template.metadata.creationTimestamp: the request set \"2020-01-01T00:00:00Z\", got \
                 \"2026-01-02T03:04:05Z\""
            ]
        );
    }

    #[test]
    fn tokens_and_revisions_of_other_objects_must_come_back() {
        let of = |token: &str, revision: &str| {
            json!({
                "metadata": {"resourceVersion": revision},
                "involvedObject": {"resourceVersion": revision},
                "spec": {"token": token},
            })
        };
        let (request, recorded) = (of("user-token", "5"), of("<token>", "<rv>"));
        let mut answer = of("user-token", "5");
        answer["metadata"]["resourceVersion"] = "12".into();
        assert_eq!(lost(&request, &recorded, &answer), Vec::<String>::new());
        assert_eq!(
            lost(&request, &recorded, &of("another", "12")),
            [
                ".involvedObject.resourceVersion: the request set \"5\", got \"12\"",
                ".spec.token: the request set \"user-token\", got \"another\"",
            ]
        );
    }

    #[test]
    fn what_a_request_set_must_come_back() {
        let uid = "00000000-0000-4000-8000-00000000000a";
        let request = json!({
            "metadata": {"uid": uid, "ownerReferences": [{"uid": uid}, {"uid": "${kept}"}]},
            "spec": {"clusterIP": "10.96.0.9", "ports": [{"nodePort": 30001}, {"nodePort": 0}], "clusterIPs": []},
        });
        let recorded = json!({
            "metadata": {"uid": "<uid>", "ownerReferences": [{"uid": "<uid>"}, {"uid": "<uid>"}]},
            "spec": {"clusterIP": "<ip>", "ports": [{"nodePort": "<port>"}, {"nodePort": "<port>"}], "clusterIPs": ["<ip>"]},
        });
        let mut answer = json!({
            "metadata": {"uid": "another", "ownerReferences": [{"uid": uid}, {"uid": "kept"}]},
            "spec": {"clusterIP": "10.96.0.9", "ports": [{"nodePort": 30001}, {"nodePort": 30002}], "clusterIPs": ["10.96.0.9"]},
        });
        assert_eq!(lost(&request, &recorded, &answer), Vec::<String>::new());
        answer["spec"]["ports"][0]["nodePort"] = 30003.into();
        answer["metadata"]["ownerReferences"][0]["uid"] = "another".into();
        assert_eq!(
            lost(&request, &recorded, &answer),
            [
                format!(".metadata.ownerReferences[0].uid: the request set \"{uid}\", got \"another\""),
                ".spec.ports[0].nodePort: the request set 30001, got 30003".to_owned(),
            ]
        );
    }
}
