//! The conditions of a definition.

use serde_json::{Value, json};

/// A condition as it is to be.
pub(crate) struct Condition<'a> {
    pub(crate) kind: &'a str,
    pub(crate) is_true: bool,
    pub(crate) reason: &'a str,
    pub(crate) message: &'a str,
}

/// Finds a condition.
pub(crate) fn find<'v>(definition: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = definition.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Reports whether a condition holds.
pub(crate) fn is_true(definition: &Value, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

/// Sets a condition, with the time of `now` if its status changes; true if anything changed.
pub(crate) fn set_condition(definition: &mut Value, wanted: &Condition<'_>, now: &str) -> bool {
    let status = if wanted.is_true { "True" } else { "False" };
    let before = find(definition, wanted.kind).cloned();
    let is_same_status = before.as_ref().is_some_and(|before| before["status"] == status);
    let since = before
        .as_ref()
        .filter(|_| is_same_status)
        .map(|before| before["lastTransitionTime"].clone());
    let condition = json!({
        "type": wanted.kind,
        "status": status,
        "lastTransitionTime": since.unwrap_or_else(|| now.into()),
        "reason": wanted.reason,
        "message": wanted.message,
    });
    if before.as_ref() == Some(&condition) {
        return false;
    }
    if !definition["status"]["conditions"].is_array() {
        definition["status"]["conditions"] = json!([]);
    }
    if let Some(conditions) = definition["status"]["conditions"].as_array_mut() {
        match conditions.iter_mut().find(|condition| condition["type"] == wanted.kind) {
            Some(place) => *place = condition,
            None => conditions.push(condition),
        }
    }
    true
}

/// Takes a condition away.
pub(crate) fn remove_condition(definition: &mut Value, kind: &str) {
    let conditions = definition.pointer_mut("/status/conditions");
    if let Some(conditions) = conditions.and_then(Value::as_array_mut) {
        conditions.retain(|condition| condition["type"] != kind);
    }
}

/// The messages of several errors in one, each once (`utilerrors.NewAggregate`).
pub(crate) fn aggregated(messages: impl IntoIterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for message in messages {
        if !distinct.contains(&message) {
            distinct.push(message);
        }
    }
    match distinct.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
