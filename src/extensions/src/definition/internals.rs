//! Definitions in the form that upstream has of its own, as errors show them: Go's field names, every field written, and
//! what all versions have alike taken out of them.

use serde_json::{Value, json};
use trireme_machinery::go_text::structs::{PrintedField, PrintedShape, compact};

use PrintedShape::{Bool, List, Map, Number, Plain, Pointer, Taken, Text};

static VERSION: [PrintedField; 9] = [
    ("Name", "name", Text),
    ("Served", "served", Bool),
    ("Storage", "storage", Bool),
    ("Deprecated", "deprecated", Bool),
    ("DeprecationWarning", "deprecationWarning", Plain),
    (
        "Schema",
        "schema",
        Pointer(&[("OpenAPIV3Schema", "openAPIV3Schema", Pointer(&SCHEMA))]),
    ),
    ("Subresources", "subresources", Pointer(&SUBRESOURCES)),
    ("AdditionalPrinterColumns", "additionalPrinterColumns", List(&COLUMN)),
    (
        "SelectableFields",
        "selectableFields",
        List(&[("JSONPath", "jsonPath", Text)]),
    ),
];

static SUBRESOURCES: [PrintedField; 2] = [
    ("Status", "status", Pointer(&[])),
    (
        "Scale",
        "scale",
        Pointer(&[
            ("SpecReplicasPath", "specReplicasPath", Text),
            ("StatusReplicasPath", "statusReplicasPath", Text),
            ("LabelSelectorPath", "labelSelectorPath", Plain),
        ]),
    ),
];

static COLUMN: [PrintedField; 6] = [
    ("Name", "name", Text),
    ("Type", "type", Text),
    ("Format", "format", Text),
    ("Description", "description", Text),
    ("Priority", "priority", Number),
    ("JSONPath", "jsonPath", Text),
];

static SCHEMA: [PrintedField; 44] = [
    ("ID", "id", Text),
    ("Schema", "$schema", Text),
    ("Ref", "$ref", Plain),
    ("Description", "description", Text),
    ("Type", "type", Text),
    ("Nullable", "nullable", Bool),
    ("Format", "format", Text),
    ("Title", "title", Text),
    ("Default", "default", Plain),
    ("Maximum", "maximum", Plain),
    ("ExclusiveMaximum", "exclusiveMaximum", Bool),
    ("Minimum", "minimum", Plain),
    ("ExclusiveMinimum", "exclusiveMinimum", Bool),
    ("MaxLength", "maxLength", Plain),
    ("MinLength", "minLength", Plain),
    ("Pattern", "pattern", Text),
    ("MaxItems", "maxItems", Plain),
    ("MinItems", "minItems", Plain),
    ("UniqueItems", "uniqueItems", Bool),
    ("MultipleOf", "multipleOf", Plain),
    ("Enum", "enum", Plain),
    ("MaxProperties", "maxProperties", Plain),
    ("MinProperties", "minProperties", Plain),
    ("Required", "required", Plain),
    (
        "Items",
        "items",
        Taken(
            schema_or_array,
            &[
                ("Schema", "schema", Pointer(&SCHEMA)),
                ("JSONSchemas", "schemas", List(&SCHEMA)),
            ],
        ),
    ),
    ("AllOf", "allOf", List(&SCHEMA)),
    ("OneOf", "oneOf", List(&SCHEMA)),
    ("AnyOf", "anyOf", List(&SCHEMA)),
    ("Not", "not", Pointer(&SCHEMA)),
    ("Properties", "properties", Map(&SCHEMA)),
    (
        "AdditionalProperties",
        "additionalProperties",
        Taken(schema_or_bool, &SCHEMA_OR_BOOL),
    ),
    ("PatternProperties", "patternProperties", Map(&SCHEMA)),
    ("Dependencies", "dependencies", Plain),
    (
        "AdditionalItems",
        "additionalItems",
        Taken(schema_or_bool, &SCHEMA_OR_BOOL),
    ),
    ("Definitions", "definitions", Map(&SCHEMA)),
    (
        "ExternalDocs",
        "externalDocs",
        Pointer(&[("Description", "description", Text), ("URL", "url", Text)]),
    ),
    ("Example", "example", Plain),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields", Plain),
    ("XEmbeddedResource", "x-kubernetes-embedded-resource", Bool),
    ("XIntOrString", "x-kubernetes-int-or-string", Bool),
    ("XListMapKeys", "x-kubernetes-list-map-keys", Plain),
    ("XListType", "x-kubernetes-list-type", Plain),
    ("XMapType", "x-kubernetes-map-type", Plain),
    ("XValidations", "x-kubernetes-validations", List(&RULE)),
];

static SCHEMA_OR_BOOL: [PrintedField; 2] = [("Allows", "allows", Bool), ("Schema", "schema", Pointer(&SCHEMA))];

static RULE: [PrintedField; 6] = [
    ("Rule", "rule", Text),
    ("Message", "message", Text),
    ("MessageExpression", "messageExpression", Text),
    ("Reason", "reason", Plain),
    ("FieldPath", "fieldPath", Text),
    ("OptionalOldSelf", "optionalOldSelf", Plain),
];

fn schema_or_bool(value: &Value) -> Value {
    match value {
        Value::Bool(allows) => json!({ "allows": allows }),
        schema => json!({ "allows": true, "schema": schema }),
    }
}

fn schema_or_array(value: &Value) -> Value {
    match value {
        Value::Array(_) => json!({ "schemas": value }),
        schema => json!({ "schema": schema }),
    }
}

/// Shows the versions of a definition without the fields `shared`, which upstream holds apart.
pub(super) fn shown_versions(versions: Option<&Value>, shared: &[&str]) -> String {
    let mut versions = versions.cloned().unwrap_or_default();
    for version in versions.as_array_mut().into_iter().flatten() {
        if let Some(fields) = version.as_object_mut() {
            fields.retain(|name, _| !shared.contains(&name.as_str()));
        }
    }
    compact(Some(&versions), List(&VERSION))
}

/// Shows a schema.
pub(super) fn shown_schema(schema: &Value) -> String {
    compact(Some(schema), Pointer(&SCHEMA))
}

/// Shows a rule in CEL.
pub(super) fn shown_rule(rule: &Value) -> String {
    compact(Some(rule), Pointer(&RULE))
}
