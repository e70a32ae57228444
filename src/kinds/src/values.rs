//! Short ways to read the parts of an object; absent parts read as empty.

use serde_json::{Map, Value};
pub(crate) use trireme_machinery::json::at;

/// A text field of a struct; empty if it is absent.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or("")
}

/// The text at a JSON pointer; empty if it is absent.
pub(crate) fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    at(value, pointer).and_then(Value::as_str).unwrap_or("")
}

/// The integer at a JSON pointer, if there is one.
pub(crate) fn integer_at(value: &Value, pointer: &str) -> Option<i64> {
    at(value, pointer).and_then(Value::as_i64)
}

/// Returns true if the field at a JSON pointer is there and true.
pub(crate) fn is_true_at(value: &Value, pointer: &str) -> bool {
    at(value, pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// The items of a list field.
pub(crate) fn items<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The items of a list field, to change them.
pub(crate) fn items_mut<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    let list = value.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// The entries of a map field.
pub(crate) fn entries<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    value
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// The fields of a struct, made if it is missing.
pub(crate) fn struct_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let fields = value.as_object_mut().expect("made an object above");
    let field = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
    if !field.is_object() {
        *field = Value::Object(Map::new());
    }
    field.as_object_mut().expect("made an object above")
}

/// Sets a field that is absent.
pub(crate) fn set_default(fields: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Makes `new`'s field what `old`'s is, absent included.
pub(crate) fn keep_field(new: &mut Value, old: &Value, name: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(name) {
        Some(value) => fields.insert(name.to_owned(), value.clone()),
        None => fields.remove(name),
    };
}

/// Keeps what of the metadata a write of the status may not change (`ResetObjectMetaForStatus`).
pub(crate) fn keep_metadata(new: &mut Value, old: &Value) {
    let (Some(new), Some(old)) = (new.get_mut("metadata"), old.get("metadata")) else {
        return;
    };
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        keep_field(new, old, field);
    }
}

/// Removes a field.
pub(crate) fn remove(object: &mut Value, name: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::at;

    #[test]
    fn a_place_is_found_as_serde_json_finds_it() {
        let object = json!({"a": {"b": [1, {"c": null}]}, "x/y": {"m~n": 2}, "": {"": 3}});
        for pointer in [
            "",
            "/a",
            "/a/b/1/c",
            "/a/b/0/c",
            "/a/b/2",
            "/a/b/x",
            "/x~1y/m~0n",
            "/x",
            "//",
            "/",
        ] {
            assert_eq!(at(&object, pointer), object.pointer(pointer), "{pointer}");
        }
    }
}
