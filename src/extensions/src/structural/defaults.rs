//! Fills in what the client left out (`structural/defaulting`).

use serde_json::Value;

use super::{Additional, Structural};

/// Sets absent fields that have a default, and those that are null although they may not be; true if there were any.
pub(crate) fn apply_defaults(value: &mut Value, schema: &Structural) -> bool {
    let mut has_set = false;
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                let is_absent = fields
                    .get(&**name)
                    .is_none_or(|value| is_forbidden_null(value, property));
                if is_absent {
                    fields.insert(name.to_string(), default.clone());
                    has_set = true;
                }
            }
            for (name, value) in fields.iter_mut() {
                has_set |= fill(value, schema.property(name), &schema.additional);
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = &schema.items {
                for item in items {
                    has_set |= fill_entry(item, of_items);
                }
            }
        }
        _ => {}
    }
    has_set
}

fn fill(value: &mut Value, property: Option<&Structural>, additional: &Additional) -> bool {
    match (property, additional) {
        (Some(property), _) => apply_defaults(value, property),
        (None, Additional::Schema(schema)) => fill_entry(value, schema),
        (None, _) => false,
    }
}

/// Entries of maps and items of lists cannot be absent, only null.
fn fill_entry(value: &mut Value, schema: &Structural) -> bool {
    let default = schema.default.as_ref().filter(|_| is_forbidden_null(value, schema));
    if let Some(default) = default {
        value.clone_from(default);
    }
    let is_filled = default.is_some();
    apply_defaults(value, schema) || is_filled
}

fn is_forbidden_null(value: &Value, schema: &Structural) -> bool {
    value.is_null() && !schema.nullable
}

/// Drops nulls of fields that may not be null and have no default; true if there were any.
pub(crate) fn prune_nulls(value: &mut Value, schema: Option<&Structural>) -> bool {
    let mut has_pruned = false;
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let of_key = schema.and_then(|schema| schema.of_key(name));
            if value.is_null() && of_key.is_some_and(|schema| !schema.nullable && schema.default.is_none()) {
                has_pruned = true;
                return false;
            }
            has_pruned |= prune_nulls(value, of_key);
            true
        }),
        Value::Array(items) => {
            let of_items = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                has_pruned |= prune_nulls(item, of_items);
            }
        }
        _ => {}
    }
    has_pruned
}
