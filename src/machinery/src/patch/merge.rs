//! JSON merge patches (RFC 7386), as kube-apiserver applies them.

use serde_json::Value;

use super::PatchError;
use crate::{
    Object,
    go_text::kind_name,
    json::{self, DecodedDocument},
};

/// Decodes the body of a merge patch; the duplicates it reports are the client's to know.
pub fn decode_merge_patch(body: &[u8]) -> Result<DecodedDocument, PatchError> {
    decode_document(body)
        .map_err(|why| PatchError::bad_request(format!("error decoding patch: {why}")))?
        .ok_or_else(|| PatchError::bad_request("Invalid JSON Patch"))
}

/// Decodes the body of a strategic merge patch, whose errors kube-apiserver reports without an introduction. Null changes
/// nothing.
pub fn decode_strategic_merge_patch(body: &[u8]) -> Result<DecodedDocument, PatchError> {
    let decoded = decode_document(body).map_err(PatchError::bad_request)?;
    Ok(decoded.unwrap_or_else(|| DecodedDocument {
        value: Value::Object(Object::new()),
        duplicates: Vec::new(),
    }))
}

/// An object, or nothing where the document is null.
fn decode_document(body: &[u8]) -> Result<Option<DecodedDocument>, String> {
    let decoded = json::decode(body).map_err(|error| error.to_string())?;
    match &decoded.value {
        Value::Object(_) => Ok(Some(decoded)),
        Value::Null => Ok(None),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            kind_name(other)
        )),
    }
}

/// Merges a patch into an object: null removes a field, an object merges, anything else replaces.
pub fn merge_patch(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(fields) => {
            if !target.is_object() {
                *target = Value::Object(Object::new());
            }
            let object = target.as_object_mut().expect("just made an object");
            merge_fields(object, fields);
        }
        mut other => {
            prune_nulls(&mut other);
            *target = other;
        }
    }
}

fn merge_fields(object: &mut Object, patch: Object) {
    for (key, value) in patch {
        match value {
            Value::Null => {
                object.remove(&key);
            }
            value => merge_patch(object.entry(key).or_insert(Value::Null), value),
        }
    }
}

/// Drops null fields of objects within lists: the patch's nulls mean "remove" wherever they stand.
fn prune_nulls(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        Value::Object(fields) => {
            fields.retain(|_, v| !v.is_null());
            fields.values_mut().for_each(prune_nulls);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_merge() {
        let cases = r#"
            {"a":"b"} + {"a":"c"} = {"a":"c"}
            {"a":"b"} + {"b":"c"} = {"a":"b","b":"c"}
            {"a":"b"} + {"a":null} = {}
            {"a":"b","b":"c"} + {"a":null} = {"b":"c"}
            {"a":["b"]} + {"a":"c"} = {"a":"c"}
            {"a":"c"} + {"a":["b"]} = {"a":["b"]}
            {"a":{"b":"c"}} + {"a":{"b":"d","c":null}} = {"a":{"b":"d"}}
            {"a":[{"b":"c"}]} + {"a":[1]} = {"a":[1]}
            {"a":1} + {"a":{"b":{"c":null},"d":null}} = {"a":{"b":{}}}
            {"e":null} + {"a":1} = {"a":1,"e":null}
            {} + {"a":{"bb":{"ccc":null}}} = {"a":{"bb":{}}}
            {} + {"a":[{"b":null,"c":1},null]} = {"a":[{"c":1},null]}
            {"a":null} + {"a":{"b":1}} = {"a":{"b":1}}
        "#;
        for line in cases.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let (input, expected) = line.split_once(" = ").expect("an outcome");
            let (target, patch) = input.split_once(" + ").expect("a patch");
            let mut target: Value = serde_json::from_str(target).expect(line);
            let patch = decode_merge_patch(patch.as_bytes()).expect(line);
            merge_patch(&mut target, patch.value);
            assert_eq!(target.to_string(), expected, "{line}");
        }
    }

    #[test]
    fn null_is_a_strategic_merge_patch_that_changes_nothing() {
        let decoded = decode_strategic_merge_patch(b"null").expect("a patch");
        assert_eq!(decoded.value, serde_json::json!({}));
        assert!(decode_strategic_merge_patch(b"[]").is_err());
    }

    #[test]
    fn what_is_no_patch_is_refused() {
        let type_error =
            "error decoding patch: json: cannot unmarshal KIND into Go value of type map[string]interface {}";
        for (body, expected) in [
            ("{", "error decoding patch: unexpected end of JSON input".to_owned()),
            ("", "error decoding patch: unexpected end of JSON input".to_owned()),
            ("null", "Invalid JSON Patch".to_owned()),
            ("[]", type_error.replace("KIND", "array")),
            ("\"x\"", type_error.replace("KIND", "string")),
            ("1", type_error.replace("KIND", "number")),
        ] {
            assert_eq!(
                decode_merge_patch(body.as_bytes()),
                Err(PatchError::bad_request(expected)),
                "{body}"
            );
        }
    }
}
