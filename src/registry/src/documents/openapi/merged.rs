//! OpenAPI 2 documents of other servers within that of this one (`kube-openapi/pkg/aggregator`).

use serde_json::Value;
use trireme_machinery::Object;

const REFERENCE: &str = "#/definitions/";
/// Says which kinds a definition is of: each server lists its own.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// Adds paths, shared parameters and definitions of `other`. A definition that has the name of a different one gets another name.
pub(super) fn add(document: &mut Value, other: &Value) {
    let mut other = other.clone();
    let Some(ours) = document.get_mut("definitions").and_then(Value::as_object_mut) else {
        return;
    };
    let theirs = other.get("definitions").and_then(Value::as_object);
    let renamed: Vec<(String, String)> = theirs
        .into_iter()
        .flatten()
        .map(|(name, definition)| (name.clone(), free_name(ours, name, definition)))
        .filter(|(name, free)| name != free)
        .collect();
    rename(&mut other, &renamed);
    if let Some(definitions) = other.get_mut("definitions").and_then(Value::as_object_mut) {
        for (name, definition) in std::mem::take(definitions) {
            let new_name = renamed.iter().find(|(old, _)| *old == name);
            let name = new_name.map_or(name, |(_, new)| new.clone());
            ours.entry(name).or_insert(definition);
        }
    }
    // The name of a shared parameter has the hash of its contents.
    for part in ["paths", "parameters"] {
        let ours = document.get_mut(part).and_then(Value::as_object_mut);
        if let (Some(ours), Some(Value::Object(theirs))) = (ours, other.get_mut(part).map(Value::take)) {
            for (name, entry) in theirs {
                ours.entry(name).or_insert(entry);
            }
        }
    }
}

/// The first of `name`, `name_v2`, `name_v3`, … that nothing else has.
fn free_name(ours: &Object, name: &str, definition: &Value) -> String {
    let mut candidate = name.to_owned();
    let mut count = 1;
    while ours.get(&candidate).is_some_and(|known| !is_same(known, definition)) {
        count += 1;
        candidate = format!("{name}_v{count}");
    }
    candidate
}

fn is_same(one: &Value, other: &Value) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else {
        return one == other;
    };
    let fields = |definition: &Object| definition.keys().filter(|key| *key != KINDS).count();
    let equal = |(key, value): (&String, &Value)| key == KINDS || other.get(key) == Some(value);
    fields(one) == fields(other) && one.iter().all(equal)
}

/// Lets references follow the new names.
fn rename(value: &mut Value, renamed: &[(String, String)]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, renamed)),
        Value::Object(fields) => {
            for (key, field) in fields {
                match field.as_str().filter(|_| key == "$ref") {
                    None => rename(field, renamed),
                    Some(reference) => {
                        let name = reference.strip_prefix(REFERENCE);
                        if let Some((_, new)) = renamed.iter().find(|(old, _)| name == Some(old)) {
                            *field = format!("{REFERENCE}{new}").into();
                        }
                    }
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn definitions_of_one_name_and_different_contents_are_distinguished() {
        let mut document = json!({
            "paths": {"/a": {}},
            "parameters": {"a-1": {"name": "a"}},
            "definitions": {
                "same": {"type": "object", KINDS: [1]},
                "meta": {"type": "string"},
            },
        });
        let other = json!({
            "parameters": {"b-2": {"name": "b"}},
            "paths": {"/a": {"get": 1}, "/b": {"schema": {"$ref": "#/definitions/meta"}}},
            "definitions": {
                "same": {"type": "object", KINDS: [2]},
                "meta": {"items": {"$ref": "#/definitions/meta"}},
                "new": {"$ref": "#/definitions/same"},
            },
        });
        add(&mut document, &other);
        assert_eq!(
            document,
            json!({
                "parameters": {"a-1": {"name": "a"}, "b-2": {"name": "b"}},
                "paths": {"/a": {}, "/b": {"schema": {"$ref": "#/definitions/meta_v2"}}},
                "definitions": {
                    "same": {"type": "object", KINDS: [1]},
                    "meta": {"type": "string"},
                    "meta_v2": {"items": {"$ref": "#/definitions/meta_v2"}},
                    "new": {"$ref": "#/definitions/same"},
                },
            })
        );
    }
}
