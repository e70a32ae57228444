//! Schemas as OpenAPI version 2 shows them, which clients before version 3 can cope with (`controller/openapi/v2`).

use serde_json::Value;
use trireme_machinery::Object;

/// The kinds of combinations that version 2 has no words for, or clients none.
const JUNCTORS: [&str; 4] = ["allOf", "anyOf", "oneOf", "not"];
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";

/// Reports whether a schema keeps fields that it does not name.
pub(crate) fn preserves_unknown_fields(schema: &Value) -> bool {
    schema.get(PRESERVE) == Some(&Value::Bool(true))
}

/// Takes out what version 2 does not have, and what makes kubectl refuse fields that the server takes.
pub(crate) fn to_structural_openapi_v2(schema: &mut Value) {
    let preserves = preserves_unknown_fields(schema);
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    for dropped in JUNCTORS.into_iter().chain(["default"]) {
        fields.remove(dropped);
    }
    let is_nullable = fields.remove("nullable") == Some(Value::Bool(true));
    if is_nullable || preserves {
        fields.remove("items");
        fields.remove("properties");
    }
    let has_type = |fields: &Object, name: &str| fields.get("type").is_some_and(|of| of == name);
    let is_vague = has_type(fields, "array") && !fields.contains_key("items");
    if is_nullable || is_vague || (preserves && has_type(fields, "object")) {
        fields.remove("type");
    }
    require_no_nullable(fields);
    for (_, property) in map_mut(fields, "properties") {
        to_structural_openapi_v2(property);
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(name) {
            to_structural_openapi_v2(inner);
        }
    }
}

/// Fields that may be null are not required, as clients take null for absent.
fn require_no_nullable(fields: &mut Object) {
    let is_nullable = |schema: &Value| schema.get("nullable") == Some(&Value::Bool(true));
    if fields.get("additionalProperties").is_some_and(is_nullable) {
        fields.remove("required");
    }
    let properties = fields.get("properties").and_then(Value::as_object);
    let nullable: Vec<String> = properties
        .into_iter()
        .flatten()
        .filter(|(_, property)| is_nullable(property))
        .map(|(name, _)| name.clone())
        .collect();
    let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) else {
        return;
    };
    required.retain(|name| !nullable.iter().any(|nullable| name == nullable));
    if required.is_empty() {
        fields.remove("required");
    }
}

/// The schemas in a map of them, such as `properties`.
pub(crate) fn map_mut<'a>(
    fields: &'a mut Object,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a mut Value)> + use<'a> {
    let map = fields.get_mut(name).and_then(Value::as_object_mut);
    map.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(mut schema: Value, expected: &Value) {
        to_structural_openapi_v2(&mut schema);
        assert_eq!(schema, *expected);
    }

    #[test]
    fn what_clients_cannot_cope_with_is_taken_out() {
        check(
            json!({"type": "object", "anyOf": [{"required": ["a"]}], "properties": {
                "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "free": {"type": "object", PRESERVE: true, "properties": {"a": {"type": "string"}}},
                "list": {"type": "array", "items": {"type": "object", "not": {"required": ["b"]}}},
                "rest": {"type": "array", PRESERVE: true, "items": {"type": "string"}},
                "size": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 0"}]},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            }}),
            &json!({"type": "object", "properties": {
                "port": {"x-kubernetes-int-or-string": true},
                "free": {PRESERVE: true},
                "list": {"type": "array", "items": {"type": "object"}},
                "rest": {PRESERVE: true},
                "size": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0"}]},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            }}),
        );
    }

    #[test]
    fn what_may_be_null_has_no_type_and_is_not_required() {
        check(
            json!({"type": "object", "required": ["a", "b"], "properties": {
                "a": {"type": "object", "nullable": true, "properties": {"c": {"type": "string"}}},
                "b": {"type": "string"},
            }}),
            &json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
        );
        check(
            json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "string", "nullable": true}}),
            &json!({"type": "object", "additionalProperties": {}}),
        );
    }
}
