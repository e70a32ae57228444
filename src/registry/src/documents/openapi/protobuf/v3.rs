//! OpenAPI 3.
//!
//! As `gnostic` reads the JSON form: a default that is a map or a list is an empty message, a reference has nothing beside it. What
//! no document holds is left out: servers, links, callbacks, headers, examples of parameters.

use serde_json::Value;

use super::{EXTENSIONS, ProtoKind, ProtoMessage, write_fields};

static DOCUMENT: ProtoMessage = ProtoMessage(&[
    ("openapi", 1, ProtoKind::Text),
    ("info", 2, ProtoKind::Message(&INFO)),
    ("paths", 4, ProtoKind::Named(1, &PATH_ITEM)),
    ("components", 5, ProtoKind::Message(&COMPONENTS)),
]);
static INFO: ProtoMessage = ProtoMessage(&[
    ("title", 1, ProtoKind::Text),
    ("description", 2, ProtoKind::Text),
    ("version", 6, ProtoKind::Text),
]);
static COMPONENTS: ProtoMessage = ProtoMessage(&[
    ("schemas", 1, ProtoKind::Named(1, &SCHEMA_OR_REFERENCE)),
    ("securitySchemes", 7, ProtoKind::Named(1, &SECURITY_SCHEME_OR_REFERENCE)),
]);
static SECURITY_SCHEME_OR_REFERENCE: ProtoMessage = ProtoMessage(&[("", 0, ProtoKind::OrReference(&SECURITY_SCHEME))]);
static SECURITY_SCHEME: ProtoMessage = ProtoMessage(&[
    ("type", 1, ProtoKind::Text),
    ("description", 2, ProtoKind::Text),
    ("name", 3, ProtoKind::Text),
    ("in", 4, ProtoKind::Text),
    ("scheme", 5, ProtoKind::Text),
]);
static PATH_ITEM: ProtoMessage = ProtoMessage(&[
    ("get", 4, ProtoKind::Message(&OPERATION)),
    ("put", 5, ProtoKind::Message(&OPERATION)),
    ("post", 6, ProtoKind::Message(&OPERATION)),
    ("delete", 7, ProtoKind::Message(&OPERATION)),
    ("options", 8, ProtoKind::Message(&OPERATION)),
    ("head", 9, ProtoKind::Message(&OPERATION)),
    ("patch", 10, ProtoKind::Message(&OPERATION)),
    ("parameters", 13, ProtoKind::Messages(&PARAMETER_OR_REFERENCE)),
    (EXTENSIONS, 14, ProtoKind::Any),
]);
static OPERATION: ProtoMessage = ProtoMessage(&[
    ("tags", 1, ProtoKind::Texts),
    ("description", 3, ProtoKind::Text),
    ("operationId", 5, ProtoKind::Text),
    ("parameters", 6, ProtoKind::Messages(&PARAMETER_OR_REFERENCE)),
    ("requestBody", 7, ProtoKind::Message(&REQUEST_BODY_OR_REFERENCE)),
    ("responses", 8, ProtoKind::Named(2, &RESPONSE_OR_REFERENCE)),
    ("deprecated", 10, ProtoKind::Flag),
    (EXTENSIONS, 13, ProtoKind::Any),
]);
static PARAMETER_OR_REFERENCE: ProtoMessage = ProtoMessage(&[("", 0, ProtoKind::OrReference(&PARAMETER))]);
static PARAMETER: ProtoMessage = ProtoMessage(&[
    ("name", 1, ProtoKind::Text),
    ("in", 2, ProtoKind::Text),
    ("description", 3, ProtoKind::Text),
    ("required", 4, ProtoKind::Flag),
    ("schema", 10, ProtoKind::Message(&SCHEMA_OR_REFERENCE)),
]);
static REQUEST_BODY_OR_REFERENCE: ProtoMessage = ProtoMessage(&[("", 0, ProtoKind::OrReference(&REQUEST_BODY))]);
static REQUEST_BODY: ProtoMessage = ProtoMessage(&[
    ("description", 1, ProtoKind::Text),
    ("content", 2, ProtoKind::Named(1, &MEDIA_TYPE)),
    ("required", 3, ProtoKind::Flag),
]);
static RESPONSE_OR_REFERENCE: ProtoMessage = ProtoMessage(&[("", 0, ProtoKind::OrReference(&RESPONSE))]);
static RESPONSE: ProtoMessage = ProtoMessage(&[
    ("description", 1, ProtoKind::Text),
    ("content", 3, ProtoKind::Named(1, &MEDIA_TYPE)),
]);
static MEDIA_TYPE: ProtoMessage = ProtoMessage(&[("schema", 1, ProtoKind::Message(&SCHEMA_OR_REFERENCE))]);
static EXTERNAL_DOCS: ProtoMessage = ProtoMessage(&[("description", 1, ProtoKind::Text), ("url", 2, ProtoKind::Text)]);
static SCHEMA_OR_REFERENCE: ProtoMessage = ProtoMessage(&[("", 0, ProtoKind::OrReference(&SCHEMA))]);
static SCHEMA: ProtoMessage = ProtoMessage(&[
    ("nullable", 1, ProtoKind::Flag),
    ("readOnly", 3, ProtoKind::Flag),
    ("writeOnly", 4, ProtoKind::Flag),
    ("externalDocs", 6, ProtoKind::Message(&EXTERNAL_DOCS)),
    ("example", 7, ProtoKind::Any),
    ("deprecated", 8, ProtoKind::Flag),
    ("title", 9, ProtoKind::Text),
    ("multipleOf", 10, ProtoKind::Number),
    ("maximum", 11, ProtoKind::Number),
    ("exclusiveMaximum", 12, ProtoKind::Flag),
    ("minimum", 13, ProtoKind::Number),
    ("exclusiveMinimum", 14, ProtoKind::Flag),
    ("maxLength", 15, ProtoKind::Integer),
    ("minLength", 16, ProtoKind::Integer),
    ("pattern", 17, ProtoKind::Text),
    ("maxItems", 18, ProtoKind::Integer),
    ("minItems", 19, ProtoKind::Integer),
    ("uniqueItems", 20, ProtoKind::Flag),
    ("maxProperties", 21, ProtoKind::Integer),
    ("minProperties", 22, ProtoKind::Integer),
    ("required", 23, ProtoKind::Texts),
    ("enum", 24, ProtoKind::Anys),
    ("type", 25, ProtoKind::Text),
    ("allOf", 26, ProtoKind::Messages(&SCHEMA_OR_REFERENCE)),
    ("oneOf", 27, ProtoKind::Messages(&SCHEMA_OR_REFERENCE)),
    ("anyOf", 28, ProtoKind::Messages(&SCHEMA_OR_REFERENCE)),
    ("not", 29, ProtoKind::Message(&SCHEMA)),
    ("items", 30, ProtoKind::Wrapped(&SCHEMA_OR_REFERENCE)),
    ("properties", 31, ProtoKind::Named(1, &SCHEMA_OR_REFERENCE)),
    ("additionalProperties", 32, ProtoKind::Wrapped(&SCHEMA_OR_REFERENCE)),
    ("default", 33, ProtoKind::Default),
    ("description", 34, ProtoKind::Text),
    ("format", 35, ProtoKind::Text),
    (EXTENSIONS, 36, ProtoKind::Any),
]);

/// Encodes an OpenAPI 3 document.
pub(in crate::documents::openapi) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write_fields(&mut out, &DOCUMENT, document);
    out
}
