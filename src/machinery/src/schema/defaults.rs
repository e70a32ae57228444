//! Fills in the values that fields take when the client leaves them out.

use serde_json::Value;

use super::{
    types::{Field, Presence, Shape, TypeId, TypeTable},
    zero,
};
use crate::{Object, quantity::Quantity};

/// Sets every absent field of `value` that has a static default, also in structs within it, and rounds resource
/// lists up to whole thousandths. Defaults that depend on other fields are the strategies' affair.
///
/// `value` must have been decoded as `ty`.
pub fn apply_defaults(table: &TypeTable, ty: TypeId, value: &mut Value) {
    if let Value::Object(object) = value {
        fill_struct(table, ty, object);
    }
}

fn fill_struct(table: &TypeTable, ty: TypeId, object: &mut Object) {
    let definition = table.get(ty);
    for field in table
        .plan(ty)
        .fillable
        .iter()
        .filter_map(|at| definition.fields.get(*at))
    {
        match object.get_mut(&field.name) {
            Some(value) => {
                fill_zero(field, value);
                fill(table, &field.shape, value);
            }
            None => {
                if let Some(default) = &field.default {
                    let mut value = default.clone();
                    fill(table, &field.shape, &mut value);
                    object.insert(field.name.clone(), value);
                }
            }
        }
    }
}

/// A field that is always written stands there as zero or null even if the client left it out.
fn fill_zero(field: &Field, value: &mut Value) {
    let Some(default) = &field.default else { return };
    let is_absent = match field.presence {
        Presence::Always => !zero::keep(Presence::OmitZero, &field.shape, value),
        Presence::Nullable => value.is_null(),
        Presence::Pointer | Presence::OmitZero => false,
    };
    if is_absent {
        *value = default.clone();
    }
}

fn fill(table: &TypeTable, shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(ty), Value::Object(object)) => fill_struct(table, *ty, object),
        (Shape::List { item, .. }, Value::Array(items)) => {
            for value in items {
                fill(table, item, value);
            }
        }
        (Shape::Map { value: entry, .. }, Value::Object(entries)) => {
            for value in entries.values_mut() {
                match **entry {
                    Shape::Quantity => round_up(value),
                    ref shape => fill(table, shape, value),
                }
            }
        }
        _ => {}
    }
}

/// Resource lists are kept in whole thousandths.
fn round_up(value: &mut Value) {
    let text = value.as_str().unwrap_or_default();
    // Only what is written in millionths, billionths or with a fraction can be finer.
    let may_be_finer = text.ends_with(['u', 'n']) || text.contains(['e', 'E', '.']);
    let Some(quantity) = may_be_finer.then(|| Quantity::parse(text).ok()).flatten() else {
        return;
    };
    let rounded = quantity.round_up_to_milli();
    if rounded != quantity {
        *value = Value::String(rounded.to_string());
    }
}
