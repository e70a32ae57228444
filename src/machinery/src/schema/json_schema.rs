//! The fields of `JSONSchemaProps` that hold a schema or something else.
//!
//! Go decodes each of them on its own: unknown fields within are dropped without a report, and the first error within is
//! the only one of the whole document.

use serde_json::Value;

use super::{
    decode::Decoder,
    decode_error::DecodeError,
    decode_path::DecodePath,
    types::{ListType, Shape, StringFormat, TypeId},
};

/// The short name of the type of schemas.
pub(super) const OWNER: &str = "JSONSchemaProps";

/// Brings the value of a field that holds anything into its final form, where Go knows the forms that it may have.
pub(super) fn normalize(decoder: &mut Decoder<'_>, value: &mut Value, place: &DecodePath<'_>) {
    let Some((owner, field, _)) = place.innermost_field() else {
        return;
    };
    if decoder.short_name(owner) != OWNER {
        return;
    }
    let list = |item: Shape| Shape::List {
        item: Box::new(item),
        list_type: ListType::Atomic,
    };
    match (field.name.as_str(), &*value) {
        ("additionalProperties" | "additionalItems", Value::Bool(_)) => {}
        ("additionalProperties" | "additionalItems" | "items" | "dependencies", Value::Object(_)) => {
            within(decoder, &Shape::Struct(owner), owner, value, place);
        }
        ("additionalProperties" | "additionalItems", _) => decoder.stop(DecodeError::SchemaOrBool),
        ("items", Value::Array(_)) => within(decoder, &list(Shape::Struct(owner)), owner, value, place),
        ("dependencies", Value::Array(_)) => {
            within(decoder, &list(Shape::String(StringFormat::Plain)), owner, value, place);
        }
        ("items" | "dependencies", _) => *value = Value::Null,
        _ => {}
    }
}

fn within(decoder: &mut Decoder<'_>, shape: &Shape, owner: TypeId, value: &mut Value, place: &DecodePath<'_>) {
    if let Some(error) = decoder.apart(shape, value, place) {
        let above = decoder.field_path(place);
        decoder.stop(rewrapped(error, decoder.short_name(owner), &above));
    }
}

/// The error as the field's own decoder words it, seen from the decoder of the whole document.
fn rewrapped(error: DecodeError, owner: &str, above: &str) -> DecodeError {
    match error {
        DecodeError::Field {
            found,
            owner: inner,
            path,
            go_type,
            ..
        } => {
            let below = path.strip_prefix(above).unwrap_or_default().trim_start_matches('.');
            let restored = if below.is_empty() {
                format!("json: cannot unmarshal {found} into Go value of type {go_type}")
            } else {
                format!("json: cannot unmarshal {found} into Go struct field {inner}.{below} of type {go_type}")
            };
            DecodeError::Field {
                found,
                owner: owner.to_owned(),
                path,
                go_type,
                restored,
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::schema::{Decoded, decode, samples};

    #[test]
    fn schemas_within_schemas_are_decoded() {
        let (table, schema) = samples::schemas();
        let rest = "boolean or JSON schema expected";
        for (given, expected) in [
            (
                json!({"items": {"type": "string", "properties": {}, "bogus": 1}}),
                Ok(json!({"items": {"type": "string"}})),
            ),
            (
                json!({"additionalProperties": {}}),
                Ok(json!({"additionalProperties": {}})),
            ),
            (
                json!({"additionalProperties": false}),
                Ok(json!({"additionalProperties": false})),
            ),
            (json!({"items": [{"type": ""}]}), Ok(json!({"items": [{}]}))),
            (json!({"items": "x"}), Ok(json!({}))),
            (
                json!({"dependencies": {"a": ["b"]}}),
                Ok(json!({"dependencies": {"a": ["b"]}})),
            ),
            (
                json!({"default": {"bogus": {}}, "enum": [null, 1]}),
                Ok(json!({"default": {"bogus": {}}, "enum": [null, 1]})),
            ),
            (json!({"additionalProperties": "x"}), Err(rest)),
            (
                json!({"aaa": 1, "maxLength": "x", "items": {"properties": {"p": {"items": {"maxLength": 1.5}}}}}),
                Err("json: cannot unmarshal number 1.5 into Go struct field \
                     JSONSchemaProps.items.properties.items.maxLength of type int64"),
            ),
            (
                json!({"properties": {"p": {"additionalProperties": {"properties": []}}}}),
                Err("json: cannot unmarshal array into Go struct field \
                     JSONSchemaProps.properties.additionalProperties.properties of type map[string]v1.JSONSchemaProps"),
            ),
            (
                json!({"items": ["x"]}),
                Err(
                    "json: cannot unmarshal string into Go struct field JSONSchemaProps.items of type v1.JSONSchemaProps",
                ),
            ),
            (
                json!({"enum": "x"}),
                Err("json: cannot unmarshal string into Go struct field JSONSchemaProps.enum of type []v1.JSON"),
            ),
        ] {
            let found = decode(&table, schema, given.clone());
            let found = found
                .map(|Decoded { value, .. }| value)
                .map_err(|error| error.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{given}");
        }
    }

    #[test]
    fn a_converter_of_trees_sees_the_inner_path() {
        let (table, schema) = samples::schemas();
        let given = json!({"properties": {"p": {"items": {"items": {"type": 5}}}}});
        let error = decode(&table, schema, given).expect_err("5 is no type");
        assert_eq!(
            error.restored(),
            "json: cannot unmarshal number into Go struct field JSONSchemaProps.items.type of type string"
        );
    }
}
