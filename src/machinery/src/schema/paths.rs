//! Reads and writes fields by dotted path, such as `spec.nodeName`. For fields only: keys of maps may hold dots
//! themselves, and list items have no name.

use serde_json::Value;

use crate::{
    Object,
    go_text::{go_map, go_type},
};

/// The value at a path, if there is one.
pub fn get_path<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

/// The value at a path of objects alone (`unstructured.NestedFieldNoCopy`).
///
/// # Errors
/// If one above it is neither an object nor null.
pub fn nested_field<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let mut value = object;
    let mut names = Vec::new();
    for name in path.split('.') {
        names.push(name);
        let inner = match value {
            Value::Null => return Ok(None),
            Value::Object(fields) => fields.get(name),
            other => return Err(accessor_error(&names.join("."), other, "map[string]interface{}")),
        };
        let Some(inner) = inner else { return Ok(None) };
        value = inner;
    }
    Ok(Some(value))
}

/// The text about a value that is not of the expected Go type.
pub fn accessor_error(path: &str, value: &Value, expected: &str) -> String {
    let found = if value.is_null() { "<nil>" } else { go_type(value) };
    let shown = go_map(value);
    format!(".{path} accessor error: {shown} is of the type {found}, expected {expected}")
}

/// The value at a path, to be changed, if there is one.
pub fn get_path_mut<'v>(value: &'v mut Value, path: &str) -> Option<&'v mut Value> {
    path.split('.').try_fold(value, |value, name| value.get_mut(name))
}

/// The text at a path; empty if there is none.
pub fn str_at<'v>(value: &'v Value, path: &str) -> &'v str {
    get_path(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// Sets the value at a path; what is not an object on the way there becomes one.
pub fn set_path(value: &mut Value, path: &str, new: Value) {
    let mut slot = value;
    for name in path.split('.') {
        if !slot.is_object() {
            *slot = Value::Object(Object::new());
        }
        let Value::Object(object) = slot else { return };
        slot = object.entry(name).or_insert(Value::Null);
    }
    *slot = new;
}

/// Takes the value at a path away and hands it over.
pub fn remove_path(value: &mut Value, path: &str) -> Option<Value> {
    let (parent, name) = match path.rsplit_once('.') {
        Some((parent, name)) => (get_path_mut(value, parent)?, name),
        None => (value, path),
    };
    parent.as_object_mut()?.remove(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{accessor_error, get_path, nested_field, remove_path, set_path, str_at};

    #[test]
    fn nested_fields_stand_in_objects() {
        let value = json!({"spec": {"x": [1, 2], "n": null, "replicas": 1e6}});
        assert_eq!(nested_field(&value, "spec.n.replicas"), Ok(None));
        assert_eq!(nested_field(&value, "spec.y"), Ok(None));
        assert_eq!(nested_field(&value, "spec.n"), Ok(Some(&json!(null))));
        let error =
            ".spec.x.0 accessor error: [1 2] is of the type []interface {}, expected map[string]interface{}".to_owned();
        assert_eq!(nested_field(&value, "spec.x.0"), Err(error));
        for (found, shown) in [
            (&value["spec"]["replicas"], "1e+06 is of the type float64"),
            (&json!(null), "<nil> is of the type <nil>"),
        ] {
            let error = accessor_error("spec.replicas", found, "int64");
            assert_eq!(error, format!(".spec.replicas accessor error: {shown}, expected int64"));
        }
    }

    #[test]
    fn fields_are_found_set_and_removed_by_path() {
        let mut value = json!({"spec": {"nodeName": "n", "hostNetwork": true}});
        assert_eq!(get_path(&value, "spec.hostNetwork"), Some(&json!(true)));
        assert_eq!(get_path(&value, "spec.nodeName.x"), None);
        assert_eq!(str_at(&value, "spec.nodeName"), "n");
        assert_eq!(str_at(&value, "spec.hostNetwork"), "");
        set_path(&mut value, "status.phase", json!("Pending"));
        assert_eq!(remove_path(&mut value, "spec.nodeName"), Some(json!("n")));
        assert_eq!(remove_path(&mut value, "metadata.name"), None);
        assert_eq!(
            value,
            json!({"spec": {"hostNetwork": true}, "status": {"phase": "Pending"}})
        );
    }
}
