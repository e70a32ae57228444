//! The form in which empty lists and maps are kept.

use serde_json::Value;

use super::types::{Field, Presence, Shape, TypeDef, TypeId, TypeTable};
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
    let voidable = table.voidable(ty).iter();
    for field in voidable.filter_map(|at| definition.fields.get(*at)) {
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

/// Positions of the fields of each type that are lists or maps which are always written, or may hold such, however deep.
pub(super) fn voidable_fields(table: &TypeTable) -> Vec<Vec<usize>> {
    let types: Vec<&TypeDef> = table.iter().collect();
    let mut holders = vec![false; types.len()];
    loop {
        let found: Vec<bool> = types
            .iter()
            .map(|ty| ty.fields.iter().any(|field| is_voidable(field, &holders)))
            .collect();
        if found == holders {
            break;
        }
        holders = found;
    }
    let positions = |ty: &&TypeDef| {
        let fields = ty.fields.iter().enumerate();
        let voidable = fields.filter(|(_, field)| is_voidable(field, &holders));
        voidable.map(|(position, _)| position).collect()
    };
    types.iter().map(positions).collect()
}

/// True if a field is an always written list or map, or may hold one of the structs that have such.
fn is_voidable(field: &Field, holders: &[bool]) -> bool {
    let is_collection = matches!(field.shape, Shape::List { .. } | Shape::Map { .. });
    (field.presence == Presence::Always && is_collection) || holds(&field.shape, holders)
}

fn holds(shape: &Shape, holders: &[bool]) -> bool {
    match shape {
        Shape::Struct(ty) => holders.get(ty.position()) == Some(&true),
        Shape::List { item, .. } => holds(item, holders),
        Shape::Map { value, .. } => holds(value, holders),
        _ => false,
    }
}

fn holds_structs(shape: &Shape) -> bool {
    match shape {
        Shape::Struct(_) => true,
        Shape::List { item, .. } => holds_structs(item),
        Shape::Map { value, .. } => holds_structs(value),
        _ => false,
    }
}
