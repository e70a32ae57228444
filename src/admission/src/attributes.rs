//! Questions that several plugins ask of a write, and their common answer.

use std::fmt;

use serde_json::Value;
use trireme_machinery::{ApiError, json};
use trireme_registry::{Attributes, Operation, WriteRequest};

/// Reports whether the write is an operation on the resource itself, not on a subresource of it.
pub(crate) fn is_write_of(request: &WriteRequest, group: &str, resource: &str, operations: &[Operation]) -> bool {
    &*request.resource.group == group
        && &*request.resource.resource == resource
        && request.subresource.name().is_empty()
        && operations.contains(&request.operation)
}

/// Refuses the write as `admission.NewForbidden` does.
pub(crate) fn forbidden(attributes: &Attributes, why: impl fmt::Display) -> ApiError {
    ApiError::forbidden(&attributes.resource.group_resource(), name_in_refusals(attributes), why)
}

/// The name of an object, or its `generateName` if it has none yet, or else `Unknown`.
pub(crate) fn name_in_refusals(attributes: &Attributes) -> &str {
    let metadata = |field: &str| {
        let object = attributes.object.as_ref()?;
        object
            .get("metadata")?
            .get(field)?
            .as_str()
            .filter(|text| !text.is_empty())
    };
    let name = Some(attributes.name.as_str()).filter(|name| !name.is_empty());
    let name = name.or_else(|| metadata("name")).or_else(|| metadata("generateName"));
    name.unwrap_or("Unknown")
}

/// The texts of a list of references to objects by `name`.
pub(crate) fn names<'v>(object: &'v Value, pointer: &str) -> Vec<&'v str> {
    let list = json::at(object, pointer).and_then(Value::as_array);
    let items = list.into_iter().flatten();
    items.filter_map(|item| item.get("name")?.as_str()).collect()
}

/// Reports whether an object is being deleted.
pub(crate) fn is_terminating(object: &Value) -> bool {
    json::at(object, "/metadata/deletionTimestamp").is_some()
}

/// The value of an annotation.
pub(crate) fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Adds an item to the end of a list, which is made if it is not there.
pub(crate) fn push(object: &mut Value, field: &str, item: Value) {
    if let Some(object) = object.as_object_mut() {
        match object.entry(field).or_insert(Value::Null) {
            Value::Array(items) => items.push(item),
            absent => *absent = Value::Array(vec![item]),
        }
    }
}
