//! Conditions that the server itself sets.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::values::{items, struct_mut, text};

/// The condition of a type, if the pod has one.
pub(super) fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    let status = pod.get("status")?;
    items(status, "conditions")
        .iter()
        .find(|condition| text(condition, "type") == kind)
}

/// Sets a condition; the time of its last change is that of the old one if the status stays the same.
pub(super) fn set_condition(pod: &mut Value, now: Timestamp, mut wanted: Value) {
    let kind = text(&wanted, "type").to_owned();
    let old = condition(pod, &kind).filter(|old| text(old, "status") == text(&wanted, "status"));
    let since = old.and_then(|old| old.get("lastTransitionTime")).cloned();
    wanted["lastProbeTime"] = Value::Null;
    wanted["lastTransitionTime"] = since.unwrap_or_else(|| now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into());
    let conditions = struct_mut(pod, "status")
        .entry("conditions")
        .or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    match conditions.iter_mut().find(|condition| text(condition, "type") == kind) {
        Some(old) => *old = wanted,
        None => conditions.push(wanted),
    }
}
