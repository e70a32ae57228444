//! Reads and writes fields by dotted path, such as `spec.nodeName`. For fields only: keys of maps may hold dots
//! themselves, and list items have no name.

use serde_json::Value;

use crate::Object;

/// The value at a path, if there is one.
pub fn get_path<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
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

    use super::{get_path, remove_path, set_path, str_at};

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
