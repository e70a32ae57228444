//! The defaults of fields: OpenAPI 3 documents show, beside those that are declared, the zero values that Go writes for fields
//! which were not given (`kube-openapi/pkg/generators`); OpenAPI 2 documents show none.

use serde_json::{Value, json};
use trireme_machinery::{
    Object,
    schema::{Presence, Shape, StringFormat, TypeTable},
};

const DEFAULT: &str = "default";

/// Adds the zero values to the fields of a definition that are always written.
pub(super) fn add(definition: &mut Value, name: &str) {
    let of_name = |table: &'static TypeTable| Some(table.get(table.find(name)?));
    let of_type = of_name(trireme_schema::type_table()).or_else(|| of_name(trireme_schema::complete_type_table()));
    for field in of_type.iter().flat_map(|of_type| &of_type.fields) {
        let property = definition.pointer_mut(&format!("/properties/{}", field.name));
        let zero = zero(&field.shape).filter(|_| field.presence == Presence::Always);
        if let (Some(Value::Object(property)), Some(zero)) = (property, zero) {
            property.entry(DEFAULT).or_insert(zero);
        }
    }
}

/// Takes out the defaults of all fields.
pub(super) fn remove(definition: &mut Value) {
    let fields = definition.get_mut("properties").and_then(Value::as_object_mut);
    for property in fields.into_iter().flat_map(Object::values_mut) {
        if let Some(property) = property.as_object_mut() {
            property.remove(DEFAULT);
        }
    }
}

fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Struct(_) => Some(json!({})),
        Shape::String(StringFormat::Plain) => Some(json!("")),
        Shape::Boolean => Some(json!(false)),
        Shape::Int32 | Shape::Int64 | Shape::Number => Some(json!(0)),
        _ => None,
    }
}
