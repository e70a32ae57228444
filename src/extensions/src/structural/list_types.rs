//! Holds lists that are sets or maps to having each item once (`structural/listtype`).

use std::collections::HashMap;

use serde_json::Value;
use trireme_machinery::{
    Object,
    field::{Error, ErrorList, Path},
    schema::ListType,
};

use super::{Additional, Structural};

/// Validates all sets and maps in a value.
pub(crate) fn validate_list_sets_and_maps(value: &Value, schema: &Structural, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::Object(fields) => {
            if let Additional::Schema(of_entries) = &schema.additional {
                for (name, value) in fields {
                    validate_list_sets_and_maps(value, of_entries, &path.key(name), errors);
                }
            }
            for (name, value) in fields {
                if let Some(property) = schema.property(name) {
                    validate_list_sets_and_maps(value, property, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                None | Some(ListType::Atomic) => {}
                Some(ListType::Set) => {
                    for at in repeated(items.iter()) {
                        let item = items.get(at).unwrap_or(&Value::Null);
                        errors.push(Error::duplicate(&path.index(at), item));
                    }
                }
                Some(ListType::Map(keys)) => validate_list_map(items, keys, path, errors),
            }
            if let Some(of_items) = &schema.items {
                for (index, item) in items.iter().enumerate() {
                    validate_list_sets_and_maps(item, of_items, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_list_map(items: &[Value], keys: &[String], path: &Path<'_>, errors: &mut ErrorList) {
    let odd = items.iter().position(|item| !item.is_object() && !item.is_null());
    if let Some(at) = odd {
        let item = items.get(at).unwrap_or(&Value::Null);
        let detail = "must be an object for an array of list-type map";
        errors.push(Error::invalid(&path.index(at), item, detail));
        return;
    }
    let key_of = |item: &Value| -> Value {
        let named = keys
            .iter()
            .filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(named.collect::<Object>())
    };
    let found: Vec<Value> = items.iter().map(key_of).collect();
    for at in repeated(found.iter()) {
        let key = found.get(at).unwrap_or(&Value::Null);
        errors.push(Error::duplicate(&path.index(at), key));
    }
}

/// The places of values that stand there for the second time.
fn repeated<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (at, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(at);
        }
    }
    repeated
}
