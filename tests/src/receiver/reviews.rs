//! The answers of a script that depend on the request: reviews, conversions, and texts with placeholders.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::value_paths::{dig, plain_text};

/// The name of objects by which scenarios find out that their configuration is active.
const PROBE: &str = "ready";

/// The entry that answers reviews of the probe, whatever the script says; it is not remembered.
pub(super) fn of_probe(body: &Value) -> Option<Value> {
    let refused = json!({"allowed": false, "status": {"code": 403, "message": "ready"}});
    (body["request"]["name"] == PROBE).then(|| json!({"review": refused, "record": false}))
}

/// The text of an answer to a request with this body, path and query.
pub(super) fn text_of(entry: &Value, body: &Value, path: &str, query: &str) -> String {
    let known = Known::of(entry, body, path, query);
    let filled = match (entry.get("review"), entry.get("body")) {
        (Some(review), _) => known.fill(&known.review(review)),
        (None, Some(body)) => known.fill(body),
        (None, None) => return plain_text(&known.fill(entry.get("raw").unwrap_or(&Value::from("")))),
    };
    filled.to_string()
}

/// A text in which placeholders are replaced by what is in the request.
pub(super) fn fill_text(text: &str, path: &str, query: &str) -> String {
    text.replace("${path}", path).replace("${query}", query)
}

/// The values that placeholders stand for.
struct Known(Value);

impl Known {
    fn of(entry: &Value, body: &Value, path: &str, query: &str) -> Self {
        let mut known = body.as_object().cloned().unwrap_or_default();
        known.insert("path".to_owned(), path.into());
        known.insert("query".to_owned(), query.into());
        if let Some(rules) = entry.get("convert") {
            known.insert("converted".to_owned(), converted(rules, &body["request"]));
        }
        Self(known.into())
    }

    /// A whole review with this response.
    fn review(&self, response: &Value) -> Value {
        let mut fields = Map::from_iter([("uid".to_owned(), json!("${request.uid}"))]);
        fields.extend(response.as_object().cloned().unwrap_or_default());
        if let Some(patch @ Value::Array(_)) = response.get("patch") {
            let patch = STANDARD.encode(self.fill(patch).to_string());
            fields.insert("patch".to_owned(), patch.into());
            fields.entry("patchType").or_insert_with(|| "JSONPatch".into());
        }
        json!({"apiVersion": self.0["apiVersion"], "kind": self.0["kind"], "response": fields})
    }

    /// A text that is nothing but one placeholder takes the value with its type.
    fn fill(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_string(text),
            Value::Array(items) => items.iter().map(|item| self.fill(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(key, field)| (key.clone(), self.fill(field)))
                .collect::<Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }

    fn fill_string(&self, text: &str) -> Value {
        let found = |place: &str| dig(&self.0, place).cloned().unwrap_or_default();
        let whole = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
        if let Some(place) = whole.filter(|place| !place.contains('}')) {
            return found(place);
        }
        let mut pieces = text.split("${");
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            match piece.split_once('}') {
                Some((place, rest)) => filled += &(in_text(&found(place)) + rest),
                None => filled += &format!("${{{piece}"),
            }
        }
        filled.into()
    }
}

/// A value within a text, as the recordings have it.
fn in_text(value: &Value) -> String {
    if value.is_null() {
        "None".to_owned()
    } else {
        plain_text(value)
    }
}

/// The objects of a conversion review in the version that is wished, by the rules of that version.
fn converted(rules: &Value, request: &Value) -> Value {
    let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let version = wanted.rsplit('/').next().unwrap_or_default();
    let mut objects = request["objects"].as_array().cloned().unwrap_or_default();
    for object in objects.iter_mut().filter(|object| object["apiVersion"] != wanted) {
        object["apiVersion"] = wanted.into();
        for rule in rules[version].as_array().into_iter().flatten() {
            follow(rule, object);
        }
    }
    objects.into()
}

/// Moves a field, or sets one.
fn follow(rule: &Value, object: &mut Value) {
    let (place, value) = match rule["move"].as_str() {
        Some(from) => (&rule["to"], taken(object, from)),
        None => (&rule["set"], Some(rule["value"].clone())),
    };
    if let (Some(place), Some(value)) = (place.as_str(), value) {
        let slot = place.split('.').fold(object, |value, key| {
            if !value.is_object() {
                *value = json!({});
            }
            &mut value[key]
        });
        *slot = value;
    }
}

/// Takes a field out, and the object that it was in if nothing is left of that.
fn taken(object: &mut Value, place: &str) -> Option<Value> {
    let (parent, key) = place.rsplit_once('.').unwrap_or(("", place));
    let pointer = |place: &str| {
        place
            .split('.')
            .filter(|key| !key.is_empty())
            .map(|key| format!("/{key}"))
            .collect()
    };
    let at: String = pointer(parent);
    let fields = object.pointer_mut(&at)?.as_object_mut()?;
    let value = fields.remove(key)?;
    if fields.is_empty() && !parent.is_empty() {
        let (above, emptied) = parent.rsplit_once('.').unwrap_or(("", parent));
        let at: String = pointer(above);
        object.pointer_mut(&at)?.as_object_mut()?.remove(emptied);
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::text_of;

    fn answer(entry: &Value, body: &Value) -> Value {
        serde_json::from_str(&text_of(entry, body, "/x", "timeout=1s")).expect("JSON")
    }

    #[test]
    fn reviews_are_answered_by_what_was_asked() {
        let asked = json!({"apiVersion": "v", "kind": "K", "request": {"uid": "u", "n": 3}});
        let entry = json!({"review": {"allowed": true, "warnings": ["${path}?${query} ${request.n}"], "patch": [{"value": "${request.n}"}]}});
        let response = json!({
            "uid": "u", "allowed": true, "warnings": ["/x?timeout=1s 3"], "patchType": "JSONPatch",
            "patch": "W3sidmFsdWUiOjN9XQ==",
        });
        let expected = json!({"apiVersion": "v", "kind": "K", "response": response});
        assert_eq!(answer(&entry, &asked), expected);
    }

    #[test]
    fn objects_are_converted_by_the_rules_of_the_wished_version() {
        let rules = json!({"v2": [{"move": "spec.a.b", "to": "spec.c"}, {"set": "d.e", "value": 1}]});
        let entry = json!({"convert": rules, "body": {"all": "${converted}"}});
        let old = json!({"apiVersion": "g/v1", "spec": {"a": {"b": 2}}});
        let asked = json!({"request": {"desiredAPIVersion": "g/v2", "objects": [old]}});
        let expected = json!({"all": [{"apiVersion": "g/v2", "spec": {"c": 2}, "d": {"e": 1}}]});
        assert_eq!(answer(&entry, &asked), expected);
    }
}
