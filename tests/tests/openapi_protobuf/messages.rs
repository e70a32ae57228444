//! Reads OpenAPI 3 by the messages of `gnostic`'s `OpenAPIv3.proto`.

use serde_json::{Map, Value, json};

/// The form of a field's value.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Flag,
    Integer,
    Number,
    /// YAML in field 2.
    Any,
    Message(Layout),
    /// Messages with a name in field 1 and a value in field 2, in this field of a message.
    Named(u64, Layout),
    /// A message in field 1 or a reference in field 2.
    OrReference(Layout),
    /// As that, in this field of a message.
    NamedOrReference(u64, Layout),
    /// `ItemsItem`
    Items,
    /// `AdditionalPropertiesItem`
    Additional,
    /// `DefaultType`
    Default,
    /// `NamedAny`
    Extension,
}

type Field = (u64, &'static str, bool, Form);
/// The fields of a message: number, JSON name, whether it repeats, and form. A function, as messages hold each other.
type Layout = fn() -> Vec<Field>;

/// The JSON form of an `openapi.v3.Document`.
pub(crate) fn read_document(bytes: &[u8]) -> Value {
    message(bytes, document)
}

fn document() -> Vec<Field> {
    vec![
        (1, "openapi", false, Form::Text),
        (2, "info", false, Form::Message(info)),
        (4, "paths", false, Form::Named(1, path_item)),
        (5, "components", false, Form::Message(components)),
    ]
}

fn info() -> Vec<Field> {
    vec![(1, "title", false, Form::Text), (6, "version", false, Form::Text)]
}

fn components() -> Vec<Field> {
    vec![
        (1, "schemas", false, Form::NamedOrReference(1, schema)),
        (7, "securitySchemes", false, Form::NamedOrReference(1, security_scheme)),
    ]
}

fn security_scheme() -> Vec<Field> {
    let names = ["type", "description", "name", "in", "scheme"];
    let numbered = (1..).zip(names);
    numbered
        .map(|(number, name)| (number, name, false, Form::Text))
        .collect()
}

fn path_item() -> Vec<Field> {
    let methods = ["get", "put", "post", "delete", "options", "head", "patch"];
    let methods = (4..).zip(methods);
    let mut fields: Vec<Field> = methods
        .map(|(number, name)| (number, name, false, Form::Message(operation)))
        .collect();
    fields.push((13, "parameters", true, Form::OrReference(parameter)));
    fields.push((14, "", true, Form::Extension));
    fields
}

fn operation() -> Vec<Field> {
    vec![
        (1, "tags", true, Form::Text),
        (3, "description", false, Form::Text),
        (5, "operationId", false, Form::Text),
        (6, "parameters", true, Form::OrReference(parameter)),
        (7, "requestBody", false, Form::OrReference(request_body)),
        (8, "responses", false, Form::NamedOrReference(2, response)),
        (13, "", true, Form::Extension),
    ]
}

fn parameter() -> Vec<Field> {
    vec![
        (1, "name", false, Form::Text),
        (2, "in", false, Form::Text),
        (3, "description", false, Form::Text),
        (4, "required", false, Form::Flag),
        (10, "schema", false, Form::OrReference(schema)),
    ]
}

fn request_body() -> Vec<Field> {
    vec![
        (1, "description", false, Form::Text),
        (2, "content", false, Form::Named(1, media_type)),
        (3, "required", false, Form::Flag),
    ]
}

fn response() -> Vec<Field> {
    vec![
        (1, "description", false, Form::Text),
        (3, "content", false, Form::Named(1, media_type)),
    ]
}

fn media_type() -> Vec<Field> {
    vec![(1, "schema", false, Form::OrReference(schema))]
}

fn external_docs() -> Vec<Field> {
    vec![(1, "description", false, Form::Text), (2, "url", false, Form::Text)]
}

fn reference() -> Vec<Field> {
    vec![(1, "$ref", false, Form::Text)]
}

fn schema() -> Vec<Field> {
    vec![
        (1, "nullable", false, Form::Flag),
        (6, "externalDocs", false, Form::Message(external_docs)),
        (7, "example", false, Form::Any),
        (9, "title", false, Form::Text),
        (10, "multipleOf", false, Form::Number),
        (11, "maximum", false, Form::Number),
        (12, "exclusiveMaximum", false, Form::Flag),
        (13, "minimum", false, Form::Number),
        (14, "exclusiveMinimum", false, Form::Flag),
        (15, "maxLength", false, Form::Integer),
        (16, "minLength", false, Form::Integer),
        (17, "pattern", false, Form::Text),
        (18, "maxItems", false, Form::Integer),
        (19, "minItems", false, Form::Integer),
        (20, "uniqueItems", false, Form::Flag),
        (21, "maxProperties", false, Form::Integer),
        (22, "minProperties", false, Form::Integer),
        (23, "required", true, Form::Text),
        (24, "enum", true, Form::Any),
        (25, "type", false, Form::Text),
        (26, "allOf", true, Form::OrReference(schema)),
        (27, "oneOf", true, Form::OrReference(schema)),
        (28, "anyOf", true, Form::OrReference(schema)),
        (29, "not", false, Form::Message(schema)),
        (30, "items", false, Form::Items),
        (31, "properties", false, Form::NamedOrReference(1, schema)),
        (32, "additionalProperties", false, Form::Additional),
        (33, "default", false, Form::Default),
        (34, "description", false, Form::Text),
        (35, "format", false, Form::Text),
        (36, "", true, Form::Extension),
    ]
}

/// A value on the wire.
#[derive(Clone, Copy)]
enum Wire<'b> {
    Varint(u64),
    Fixed([u8; 8]),
    Bytes(&'b [u8]),
}

impl<'b> Wire<'b> {
    fn bytes(self) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => panic!("it is no message"),
        }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("UTF-8")
    }

    fn flag(self) -> Value {
        match self {
            Self::Varint(number) => json!(number == 1),
            _ => panic!("it is no flag"),
        }
    }

    fn number(self) -> Value {
        match self {
            Self::Fixed(bytes) => json!(f64::from_le_bytes(bytes)),
            _ => panic!("it is no double"),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().expect("the message is whole");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}

fn wire_fields(mut bytes: &[u8]) -> Vec<(u64, Wire<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Wire::Varint(varint(&mut bytes)),
            1 => {
                let (fixed, rest) = bytes.split_first_chunk().expect("the message is whole");
                bytes = rest;
                Wire::Fixed(*fixed)
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)).expect("lengths are small");
                let (value, rest) = bytes.split_at(length);
                bytes = rest;
                Wire::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        found.push((key >> 3, value));
    }
    found
}

/// The JSON of a message. A field that its layout does not know is an error.
fn message(bytes: &[u8], layout: Layout) -> Value {
    let layout = layout();
    let mut object = Map::new();
    for (number, wire) in wire_fields(bytes) {
        let known = layout.iter().find(|(known, ..)| *known == number);
        let (_, name, repeats, form) = known.unwrap_or_else(|| panic!("unknown field {number}"));
        if matches!(form, Form::Extension) {
            let (name, value) = named(wire.bytes(), |value| any(value.bytes()));
            object.insert(name, value);
            continue;
        }
        let value = decoded(wire, *form);
        if *repeats {
            let list = object.entry(*name).or_insert_with(|| json!([]));
            list.as_array_mut().expect("it is a list").push(value);
        } else {
            assert!(
                object.insert((*name).to_owned(), value).is_none(),
                "{name} is there twice"
            );
        }
    }
    object.into()
}

fn named(bytes: &[u8], decode: impl Fn(Wire<'_>) -> Value) -> (String, Value) {
    let fields = wire_fields(bytes);
    let [(1, name), (2, value)] = &fields[..] else {
        panic!("it is no pair");
    };
    (name.text(), decode(*value))
}

fn all_named(bytes: &[u8], field: u64, decode: impl Fn(Wire<'_>) -> Value) -> Value {
    let fields = wire_fields(bytes).into_iter();
    let entries = fields.map(|(number, entry)| {
        assert_eq!(number, field);
        named(entry.bytes(), &decode)
    });
    entries.collect::<Map<_, _>>().into()
}

fn only<'b>(bytes: &'b [u8]) -> (u64, Wire<'b>) {
    let fields = wire_fields(bytes);
    assert_eq!(fields.len(), 1, "a choice");
    fields[0]
}

fn or_reference(bytes: &[u8], layout: Layout) -> Value {
    match only(bytes) {
        (1, value) => message(value.bytes(), layout),
        (2, value) => message(value.bytes(), reference),
        (other, _) => panic!("choice {other}"),
    }
}

/// A value in YAML.
fn any(bytes: &[u8]) -> Value {
    let (number, yaml) = only(bytes);
    assert_eq!(number, 2);
    let decoded = trireme_machinery::yaml::decode(yaml.text().as_bytes());
    decoded.expect("it is YAML").value
}

fn decoded(wire: Wire<'_>, form: Form) -> Value {
    match form {
        Form::Text => wire.text().into(),
        Form::Flag => wire.flag(),
        Form::Integer => match wire {
            Wire::Varint(number) => json!(number.cast_signed()),
            _ => panic!("it is no integer"),
        },
        Form::Number => wire.number(),
        Form::Any => any(wire.bytes()),
        Form::Message(layout) => message(wire.bytes(), layout),
        Form::Named(field, layout) => all_named(wire.bytes(), field, |value| message(value.bytes(), layout)),
        Form::OrReference(layout) => or_reference(wire.bytes(), layout),
        Form::NamedOrReference(field, layout) => {
            all_named(wire.bytes(), field, |value| or_reference(value.bytes(), layout))
        }
        Form::Items | Form::Additional => match only(wire.bytes()) {
            (1, value) => or_reference(value.bytes(), schema),
            (2, value) => value.flag(),
            (other, _) => panic!("choice {other}"),
        },
        Form::Default => match wire_fields(wire.bytes())[..] {
            [] => Value::Null,
            [(1, number)] => number.number(),
            [(2, flag)] => flag.flag(),
            [(3, text)] => text.text().into(),
            _ => panic!("it is no default"),
        },
        Form::Extension => panic!("an extension has its own name"),
    }
}
