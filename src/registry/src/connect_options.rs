//! The options of a connection, as its query gives them (`runtime.ParameterCodec`).

use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupVersionKind, Object,
    go_text::{parse_error, parse_uint},
    schema::{self, Field, Shape, TypeId, TypeTable},
};

/// Reads options of a type from the pairs of a query; parameters that the type does not have are of no account.
///
/// # Errors
/// 400 for what is no number where there must be one.
pub(crate) fn read(
    (types, type_id): (&TypeTable, TypeId),
    kind: &GroupVersionKind,
    query: &[(String, String)],
) -> Result<Value, ApiError> {
    let mut options = Object::new();
    for field in &types.get(type_id).fields {
        let values: Vec<&str> = query
            .iter()
            .filter(|(name, _)| *name == field.name)
            .map(|(_, value)| value.as_str())
            .collect();
        if let Some(value) = value_of(field, &values).map_err(ApiError::bad_request)? {
            options.insert(field.name.clone(), value);
        }
    }
    options.insert("kind".to_owned(), (*kind.kind).into());
    options.insert("apiVersion".to_owned(), kind.group_version().to_string().into());
    let decoded = schema::decode(types, type_id, options.into());
    Ok(decoded.map_err(ApiError::internal)?.value)
}

/// The value of a field; one that may be given once is given first.
fn value_of(field: &Field, values: &[&str]) -> Result<Option<Value>, String> {
    let Some(first) = values.first() else { return Ok(None) };
    Ok(match &field.shape {
        Shape::Boolean => Some((*first != "0" && !first.eq_ignore_ascii_case("false")).into()),
        Shape::String(_) => Some((*first).into()),
        Shape::List { item, .. } if matches!(**item, Shape::Int32) => {
            let texts = values.iter().flat_map(|value| value.split(','));
            let ports = texts.map(port).collect::<Result<Vec<Value>, _>>()?;
            Some(ports.into())
        }
        Shape::List { .. } => Some(values.to_vec().into()),
        _ => None,
    })
}

fn port(text: &str) -> Result<Value, String> {
    let parsed = parse_uint(text)
        .and_then(|number| u16::try_from(number).map_err(|_| parse_error("ParseUint", text, "value out of range")));
    let port = parsed.map_err(|error| format!("cannot convert to []int32: {error}"))?;
    Ok(port.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_machinery::{
        GroupVersion,
        schema::{ListType, PatchStrategy, Presence, StringFormat, TypeDef},
    };

    use super::*;

    fn options(query: &[(&str, &str)]) -> Result<Value, String> {
        let list = |item| Shape::List {
            item: Box::new(item),
            list_type: ListType::Atomic,
        };
        let text = Shape::String(StringFormat::Plain);
        let fields = [
            ("kind", text.clone(), Presence::OmitZero),
            ("apiVersion", text.clone(), Presence::OmitZero),
            ("tty", Shape::Boolean, Presence::OmitZero),
            ("container", text.clone(), Presence::OmitZero),
            ("command", list(text), Presence::Always),
            ("ports", list(Shape::Int32), Presence::OmitZero),
        ];
        let fields = fields.into_iter().map(|(name, shape, presence)| Field {
            name: name.to_owned(),
            shape,
            presence,
            required: false,
            default: None,
            patch: PatchStrategy::default(),
            tag: 0,
        });
        let mut types = TypeTable::default();
        let type_id = types.define(TypeDef {
            name: "test.Options".to_owned(),
            fields: fields.collect(),
            atomic: false,
        });
        let query: Vec<_> = query
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let kind = GroupVersion::new("", "v1").with_kind("Options");
        let mut read = read((&types, type_id), &kind, &query).map_err(|error| error.message)?;
        let fields = read.as_object_mut().expect("an object");
        assert_eq!(
            (fields.remove("kind"), fields.remove("apiVersion")),
            (Some("Options".into()), Some("v1".into()))
        );
        Ok(read)
    }

    #[test]
    fn a_query_gives_each_field_its_form() {
        let check = |query: &[(&str, &str)], expected: Value| assert_eq!(options(query), Ok(expected), "{query:?}");
        check(&[], json!({"command": null}));
        check(
            &[
                ("command", "ls"),
                ("tty", ""),
                ("command", "-l"),
                ("container", "c"),
                ("container", "d"),
                ("other", "x"),
            ],
            json!({"command": ["ls", "-l"], "tty": true, "container": "c"}),
        );
        check(&[("tty", "False"), ("container", "")], json!({"command": null}));
        check(
            &[("tty", "0"), ("ports", "80,443"), ("ports", "1")],
            json!({"command": null, "ports": [80, 443, 1]}),
        );
    }

    #[test]
    fn a_port_is_a_number_of_sixteen_bits() {
        let refused = |text| options(&[("ports", text)]).unwrap_err();
        assert_eq!(
            refused("x"),
            r#"cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax"#
        );
        assert_eq!(
            refused("1,65536"),
            r#"cannot convert to []int32: strconv.ParseUint: parsing "65536": value out of range"#
        );
    }
}
