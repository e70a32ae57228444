//! The types that rules see of values (`SchemaDeclType` of `k8s.io/apiserver/pkg/cel/common`).

use trireme_cel::escape_field;
use trireme_machinery::schema::{Field, ListType, PatchStrategy, Presence, Shape, StringFormat, TypeDef, TypeTable};

use crate::structural::{
    Additional, JsonType, Structural,
    bounds::{SizeBounds, declares_meta},
};

/// Reports whether rules can see values of a schema.
pub(super) fn is_visible(schema: &Structural) -> bool {
    SizeBounds::of(schema, schema.embedded).is_some()
}

/// The shape that expressions see of values of a schema; `None` if they cannot see them, as their type is not known.
pub(super) fn shape_of(schema: &Structural, is_resource: bool, name: &str, table: &mut TypeTable) -> Option<Shape> {
    if schema.int_or_string {
        return Some(Shape::Any);
    }
    Some(match schema.json_type? {
        JsonType::Boolean => Shape::Boolean,
        JsonType::Integer => Shape::Int64,
        JsonType::Number => Shape::Number,
        JsonType::String => {
            let format = schema.checks.as_ref().map_or("", |checks| checks.format.as_str());
            Shape::String(match format {
                "byte" => StringFormat::Bytes,
                "date" | "date-time" => StringFormat::Time,
                "duration" => StringFormat::Duration,
                _ => StringFormat::Plain,
            })
        }
        JsonType::Array => {
            let items = schema.items.as_deref()?;
            let item = shape_of(items, items.embedded, &format!("{name}.items"), table)?;
            Shape::List {
                item: Box::new(item),
                list_type: schema.list_type.clone().unwrap_or(ListType::Atomic),
            }
        }
        JsonType::Object => object_shape(schema, is_resource, name, table)?,
    })
}

fn object_shape(schema: &Structural, is_resource: bool, name: &str, table: &mut TypeTable) -> Option<Shape> {
    if let Additional::Schema(values) = &schema.additional {
        let value = shape_of(values, values.embedded, &format!("{name}.values"), table)?;
        return Some(Shape::Map {
            value: Box::new(value),
            atomic: false,
        });
    }
    let has_server_meta = is_resource && !declares_meta(schema);
    let mut fields = Vec::new();
    for (property, schema) in &schema.properties {
        let is_meta = has_server_meta && matches!(&**property, "metadata" | "apiVersion" | "kind");
        if !is_meta && let Some(shape) = shape_of(schema, schema.embedded, &format!("{name}.{property}"), table) {
            fields.extend(escape_field(property).map(|name| field(&name, shape)));
        }
    }
    if has_server_meta {
        let text = || Shape::String(StringFormat::Plain);
        let metadata = table.define(TypeDef {
            name: format!("{name}.metadata"),
            fields: vec![field("name", text()), field("generateName", text())],
            atomic: false,
        });
        fields.push(field("apiVersion", text()));
        fields.push(field("kind", text()));
        fields.push(field("metadata", Shape::Struct(metadata)));
    }
    Some(Shape::Struct(table.define(TypeDef {
        name: name.to_owned(),
        fields,
        atomic: false,
    })))
}

fn field(name: &str, shape: Shape) -> Field {
    Field {
        name: name.to_owned(),
        shape,
        presence: Presence::Pointer,
        required: false,
        default: None,
        patch: PatchStrategy::default(),
        tag: 0,
    }
}
