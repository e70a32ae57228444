//! The schema that server-side apply and managed fields of custom resources go by (`kube-openapi/pkg/schemaconv` over the
//! OpenAPI of a definition).

use std::collections::BTreeMap;

use trireme_machinery::{
    managed::{MergeField, MergeSchema},
    schema::ListType,
};

use super::{Additional, JsonType, Structural, metadata::MetadataType};

/// The merge schema of whole objects; `keeps_all` if unknown fields are kept everywhere.
pub(crate) fn merge_schema(schema: &Structural, metadata: &MetadataType, keeps_all: bool) -> MergeSchema {
    object(schema, metadata, true, keeps_all || schema.preserves_unknown)
}

/// That of a place in them; `preserves` if unknown fields are kept above of it.
fn place(schema: &Structural, metadata: &MetadataType, preserves: bool) -> MergeSchema {
    let preserves = preserves || schema.preserves_unknown;
    match schema.json_type {
        None if schema.properties.is_empty() && !schema.embedded => MergeSchema::Deduced,
        None | Some(JsonType::Object) => object(schema, metadata, schema.embedded, preserves),
        Some(JsonType::Array) => MergeSchema::List {
            item: Box::new(match &schema.items {
                Some(item) => place(item, metadata, preserves),
                None => MergeSchema::Scalar,
            }),
            list_type: schema.list_type.clone().unwrap_or(ListType::Atomic),
        },
        Some(JsonType::Integer | JsonType::Number) => MergeSchema::Number,
        Some(JsonType::Boolean) => MergeSchema::Boolean,
        Some(JsonType::String) => match schema.checks.as_ref().map_or("", |checks| &checks.format) {
            "" | "byte" => MergeSchema::String,
            _ => MergeSchema::Scalar,
        },
    }
}

fn object(schema: &Structural, metadata: &MetadataType, is_whole: bool, preserves: bool) -> MergeSchema {
    let mut fields: BTreeMap<Box<str>, MergeField> = BTreeMap::new();
    for (name, property) in &schema.properties {
        let field = MergeField {
            schema: place(property, metadata, preserves),
            default: property.default.clone(),
        };
        fields.insert(name.clone(), field);
    }
    if is_whole {
        fields.insert("apiVersion".into(), MergeSchema::String.into());
        fields.insert("kind".into(), MergeSchema::String.into());
        let of_metadata = MergeSchema::BuiltIn(metadata.types().clone(), metadata.type_id());
        fields.insert("metadata".into(), of_metadata.into());
    }
    let rest = match &schema.additional {
        Additional::Unsaid => (preserves || fields.is_empty()).then_some(MergeSchema::Deduced),
        Additional::Anything => Some(MergeSchema::Deduced),
        Additional::Nothing => None,
        Additional::Schema(of_values) => Some(place(of_values, metadata, preserves)),
    };
    MergeSchema::Map {
        fields,
        rest: rest.map(Box::new),
        atomic: schema.atomic_map,
    }
}
