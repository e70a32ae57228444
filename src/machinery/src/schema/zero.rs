//! Go's zero values in JSON.

use serde_json::Value;

use super::types::{Field, Presence, Shape, StringFormat, TypeId, TypeTable};
use crate::Object;

/// The zero value of a field that is always written.
pub(super) fn of_field(table: &TypeTable, field: &Field) -> Value {
    match &field.shape {
        _ if field.presence == Presence::Nullable => Value::Null,
        Shape::String(StringFormat::Bytes) => Value::Null,
        shape => of_shape(table, shape),
    }
}

/// The zero value of a list item or map entry.
pub(super) fn of_shape(table: &TypeTable, shape: &Shape) -> Value {
    match shape {
        Shape::Struct(ty) => {
            let mut object = Object::new();
            add_always(table, *ty, &mut object);
            Value::Object(object)
        }
        Shape::String(StringFormat::Plain | StringFormat::Bytes) => Value::from(""),
        Shape::String(StringFormat::Duration) => Value::from("0s"),
        Shape::Boolean => Value::Bool(false),
        Shape::Int32 | Shape::Int64 | Shape::Number | Shape::IntOrString => Value::from(0),
        Shape::Quantity => Value::from("0"),
        Shape::String(StringFormat::Time | StringFormat::MicroTime)
        | Shape::List { .. }
        | Shape::Map { .. }
        | Shape::Any => Value::Null,
    }
}

/// Adds those fields of a struct that are always written and are not there.
pub(super) fn add_always(table: &TypeTable, ty: TypeId, object: &mut Object) {
    let definition = table.get(ty);
    for field in table.plan(ty).always.iter().filter_map(|at| definition.fields.get(*at)) {
        if !object.contains_key(&field.name) {
            object.insert(field.name.clone(), of_field(table, field));
        }
    }
}

/// Returns true if a decoded field's value is kept, which the zero of a field that leaves zeroes out is not.
///
/// Structs, quantities, durations and `IntOrString`s are never left out once given: Go has no zero test for them.
pub(super) fn keep(presence: Presence, shape: &Shape, value: &Value) -> bool {
    let is_zero = match value {
        Value::Null => true,
        Value::Bool(flag) => !*flag,
        Value::Number(number) => !matches!(shape, Shape::IntOrString) && number.as_f64() == Some(0.0),
        Value::String(text) => {
            matches!(shape, Shape::String(StringFormat::Plain | StringFormat::Bytes)) && text.is_empty()
        }
        Value::Array(items) => matches!(shape, Shape::List { .. }) && items.is_empty(),
        Value::Object(entries) => matches!(shape, Shape::Map { .. }) && entries.is_empty(),
    };
    if matches!(shape, Shape::Any) && !value.is_null() {
        return true;
    }
    match presence {
        Presence::Pointer => !value.is_null(),
        Presence::OmitZero => !is_zero,
        Presence::Nullable | Presence::Always => true,
    }
}
