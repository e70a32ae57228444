//! The form in which empty lists and maps are kept.

use serde_json::Value;

use super::types::{Presence, Shape, TypeId, TypeTable};
use crate::Object;

/// Makes empty lists and maps that are always written null, in structs within the value, too: protobuf, in which
/// kube-apiserver keeps objects, has no empty ones.
///
/// `value` must have been decoded as `ty`.
pub fn void_empty(table: &TypeTable, ty: TypeId, value: &mut Value) {
    if let Value::Object(object) = value {
        void_in_struct(table, ty, object);
    }
}

fn void_in_struct(table: &TypeTable, ty: TypeId, object: &mut Object) {
    let definition = table.get(ty);
    for field in table
        .plan(ty)
        .voidable
        .iter()
        .filter_map(|at| definition.fields.get(*at))
    {
        let Some(value) = object.get_mut(&field.name) else {
            continue;
        };
        match (&field.shape, &*value) {
            (Shape::List { .. }, Value::Array(items)) if items.is_empty() => *value = Value::Null,
            (Shape::Map { .. }, Value::Object(entries)) if entries.is_empty() => *value = Value::Null,
            (shape, _) => void_within(table, shape, value),
        }
    }
}

fn void_within(table: &TypeTable, shape: &Shape, value: &mut Value) {
    match (shape, value) {
        (Shape::Struct(ty), Value::Object(object)) => void_in_struct(table, *ty, object),
        (Shape::List { item, .. }, Value::Array(items)) if holds_structs(item) => {
            items.iter_mut().for_each(|value| void_within(table, item, value));
        }
        (Shape::Map { value: entry, .. }, Value::Object(entries)) if holds_structs(entry) => {
            entries.values_mut().for_each(|value| void_within(table, entry, value));
        }
        _ => {}
    }
}

/// True if a field is an always written list or map, or may hold a struct with one.
pub(super) fn is_voidable(presence: Presence, shape: &Shape) -> bool {
    let is_collection = matches!(shape, Shape::List { .. } | Shape::Map { .. });
    (presence == Presence::Always && is_collection) || holds_structs(shape)
}

fn holds_structs(shape: &Shape) -> bool {
    match shape {
        Shape::Struct(_) => true,
        Shape::List { item, .. } => holds_structs(item),
        Shape::Map { value, .. } => holds_structs(value),
        _ => false,
    }
}
