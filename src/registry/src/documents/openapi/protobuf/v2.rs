//! OpenAPI 2.
//!
//! Only what the documents of this crate hold is encoded, without `security`: it tells a client nothing that its credentials do
//! not.

use serde_json::Value;

use super::{EXTENSIONS, ProtoKind, ProtoMessage, write_fields};

static DOCUMENT: ProtoMessage = ProtoMessage(&[
    ("swagger", 1, ProtoKind::Text),
    ("info", 2, ProtoKind::Message(&INFO)),
    ("paths", 8, ProtoKind::Named(2, &PATH_ITEM)),
    ("definitions", 9, ProtoKind::Named(1, &SCHEMA)),
    ("parameters", 10, ProtoKind::Named(1, &PARAMETER)),
    ("securityDefinitions", 13, ProtoKind::Named(1, &SECURITY_ITEM)),
]);
static INFO: ProtoMessage = ProtoMessage(&[("title", 1, ProtoKind::Text), ("version", 2, ProtoKind::Text)]);
static SECURITY_ITEM: ProtoMessage = ProtoMessage(&[("", 2, ProtoKind::Message(&API_KEY))]);
static API_KEY: ProtoMessage = ProtoMessage(&[
    ("type", 1, ProtoKind::Text),
    ("name", 2, ProtoKind::Text),
    ("in", 3, ProtoKind::Text),
    ("description", 4, ProtoKind::Text),
]);
static PATH_ITEM: ProtoMessage = ProtoMessage(&[
    ("get", 2, ProtoKind::Message(&OPERATION)),
    ("put", 3, ProtoKind::Message(&OPERATION)),
    ("post", 4, ProtoKind::Message(&OPERATION)),
    ("delete", 5, ProtoKind::Message(&OPERATION)),
    ("options", 6, ProtoKind::Message(&OPERATION)),
    ("head", 7, ProtoKind::Message(&OPERATION)),
    ("patch", 8, ProtoKind::Message(&OPERATION)),
    ("parameters", 9, ProtoKind::Parameters),
]);
static OPERATION: ProtoMessage = ProtoMessage(&[
    ("tags", 1, ProtoKind::Texts),
    ("description", 3, ProtoKind::Text),
    ("operationId", 5, ProtoKind::Text),
    ("produces", 6, ProtoKind::Texts),
    ("consumes", 7, ProtoKind::Texts),
    ("parameters", 8, ProtoKind::Parameters),
    ("responses", 9, ProtoKind::Named(1, &RESPONSE_VALUE)),
    ("schemes", 10, ProtoKind::Texts),
    (EXTENSIONS, 13, ProtoKind::Any),
]);
static RESPONSE_VALUE: ProtoMessage = ProtoMessage(&[("", 1, ProtoKind::Message(&RESPONSE))]);
static RESPONSE: ProtoMessage = ProtoMessage(&[
    ("description", 1, ProtoKind::Text),
    ("schema", 2, ProtoKind::Wrapped(&SCHEMA)),
]);
static PARAMETER: ProtoMessage = ProtoMessage(&[("", 0, ProtoKind::Parameter)]);
pub(super) static BODY_PARAMETER: ProtoMessage = ProtoMessage(&[
    ("description", 1, ProtoKind::Text),
    ("name", 2, ProtoKind::Text),
    ("in", 3, ProtoKind::Text),
    ("required", 4, ProtoKind::Flag),
    ("schema", 5, ProtoKind::Message(&SCHEMA)),
]);
pub(super) static QUERY_PARAMETER: ProtoMessage = ProtoMessage(&[
    ("required", 1, ProtoKind::Flag),
    ("in", 2, ProtoKind::Text),
    ("description", 3, ProtoKind::Text),
    ("name", 4, ProtoKind::Text),
    ("type", 6, ProtoKind::Text),
]);
pub(super) static PATH_PARAMETER: ProtoMessage = ProtoMessage(&[
    ("required", 1, ProtoKind::Flag),
    ("in", 2, ProtoKind::Text),
    ("description", 3, ProtoKind::Text),
    ("name", 4, ProtoKind::Text),
    ("type", 5, ProtoKind::Text),
]);
static SCHEMA: ProtoMessage = ProtoMessage(&[
    ("$ref", 1, ProtoKind::Text),
    ("format", 2, ProtoKind::Text),
    ("title", 3, ProtoKind::Text),
    ("description", 4, ProtoKind::Text),
    ("default", 5, ProtoKind::Any),
    ("pattern", 13, ProtoKind::Text),
    ("required", 19, ProtoKind::Texts),
    ("enum", 20, ProtoKind::Anys),
    ("additionalProperties", 21, ProtoKind::Wrapped(&SCHEMA)),
    ("type", 22, ProtoKind::Type),
    ("items", 23, ProtoKind::Wrapped(&SCHEMA)),
    ("allOf", 24, ProtoKind::Messages(&SCHEMA)),
    ("properties", 25, ProtoKind::Named(1, &SCHEMA)),
    (EXTENSIONS, 31, ProtoKind::Any),
]);

/// Encodes an OpenAPI 2 document.
pub(in crate::documents::openapi) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_fields(&mut out, &DOCUMENT, document);
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::protobuf_fields::{fields, only};

    #[test]
    fn the_protobuf_form_keeps_types_references_and_extensions() {
        let bytes = encode(&json!({"definitions": {"A": {
            "type": "object",
            "properties": {"b": {"$ref": "#/definitions/B"}},
            "x-kubernetes-patch-merge-key": "name",
        }}}));
        let definition = fields(only(&fields(&bytes), 9))
            .first()
            .map(|(_, entry)| fields(entry))
            .expect("there is one");
        let schema = fields(only(&definition, 2));
        assert_eq!(only(&fields(only(&schema, 22)), 1), b"object");
        let extension = fields(only(&schema, 31));
        assert_eq!(only(&extension, 1), b"x-kubernetes-patch-merge-key");
        assert_eq!(only(&fields(only(&extension, 2)), 2), b"name\n");
        let property = fields(only(&fields(only(&schema, 25)), 1));
        assert_eq!(only(&fields(only(&property, 2)), 1), b"#/definitions/B");
    }
}
