//! Holds a schema to being structural (`structural.ValidateStructural`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_regex::GoRegex,
};

use crate::structural::JsonType;

/// Where in a schema a part of it stands.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Reports whether a schema can be read as a structural one at all; what cannot is refused elsewhere.
pub(super) fn is_convertible(schema: &Value) -> bool {
    const UNSUPPORTED: [&str; 6] = [
        "id",
        "$ref",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
    ];
    let has_unsupported = UNSUPPORTED.iter().any(|name| schema.get(name).is_some());
    !has_unsupported && !schema.get("items").is_some_and(Value::is_array) && parts(schema).all(is_convertible)
}

/// The schemas within a schema.
pub(super) fn parts(schema: &Value) -> impl Iterator<Item = &Value> {
    let maps = ["properties", "definitions", "patternProperties"];
    let maps = maps.into_iter().filter_map(|name| schema.get(name)?.as_object());
    let lists = ["allOf", "oneOf", "anyOf"];
    let lists = lists.into_iter().filter_map(|name| schema.get(name)?.as_array());
    let single = ["items", "not", "additionalProperties"];
    let single = single.into_iter().filter_map(|name| schema.get(name));
    maps.flat_map(|map| map.values())
        .chain(lists.flatten())
        .chain(single)
        .filter(|part| part.is_object())
}

/// The errors of a schema that is not structural, in the order of their texts.
pub(super) fn validate_structural(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = ErrorList::new();
    validate_invariants(schema, Level::Root, path, &mut found);
    validate_completeness(schema, path, &mut found);
    found.sort_by_cached_key(ToString::to_string);
    errors.append(&mut found);
}

pub(super) fn text<'v>(schema: &'v Value, name: &str) -> &'v str {
    schema.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(schema: &Value, name: &str) -> bool {
    schema.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn validate_invariants(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let items = schema.get("items").filter(|items| items.is_object());
    if text(schema, "type") == "array" && items.is_none() {
        errors.push(Error::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = items {
        validate_invariants(items, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let properties = path.child("properties");
        validate_invariants(property, Level::Field, &properties.key(name), errors);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        let at = path.child("additionalProperties");
        if level == Level::Root {
            errors.push(Error::forbidden(&at, "must not be used at the root"));
        }
        if additional.is_object() {
            validate_invariants(additional, Level::Field, &at, errors);
        }
    }
    validate_extensions(schema, path, errors);
    validate_value_validation(
        schema,
        is_int_or_string(schema.get("anyOf")),
        first_all_of_is_int_or_string(schema),
        path,
        errors,
    );
    validate_type(schema, level, path, errors);
    validate_metadata(schema, level, path, errors);
}

fn validate_extensions(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, name) {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(Error::invalid(&path.child(name), &true.into(), detail));
        }
    }
}

fn validate_type(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let (json_type, at) = (text(schema, "type"), path.child("type"));
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    if is_embedded && json_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match json_type {
            "" => Error::required(&at, detail),
            other => Error::invalid_str(&at, other, detail),
        });
    } else if json_type.is_empty()
        && !flag(schema, "x-kubernetes-int-or-string")
        && !flag(schema, "x-kubernetes-preserve-unknown-fields")
    {
        errors.push(Error::required(
            &at,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if is_embedded && schema.get("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(Error::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !json_type.is_empty() && json_type != "object" {
        errors.push(Error::invalid_str(&at, json_type, "must be object at the root"));
    }
}

fn validate_metadata(schema: &Value, level: Level, path: &Path<'_>, errors: &mut ErrorList) {
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    let is_resource = level == Level::Root || is_embedded;
    let properties = schema.get("properties").and_then(Value::as_object);
    let at = path.child("properties");
    for name in ["kind", "apiVersion"] {
        let property = properties.and_then(|properties| properties.get(name));
        if let Some(property) = property.filter(|property| is_resource && text(property, "type") != "string") {
            let at = at.key(name);
            let found = text(property, "type");
            errors.push(Error::invalid_str(&at.child("type"), found, "must be string"));
        }
    }
    if let Some(metadata) = properties.and_then(|properties| properties.get("metadata")) {
        let at = at.key("metadata");
        let found = text(metadata, "type");
        if is_resource && found != "object" {
            errors.push(Error::invalid_str(&at.child("type"), found, "must be object"));
        }
        if level == Level::Root && !is_plain_metadata(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                          specified";
            errors.push(Error::forbidden(&at, detail));
        }
    }
    let has_no_properties = properties.is_none_or(|properties| properties.is_empty());
    if is_embedded && !flag(schema, "x-kubernetes-preserve-unknown-fields") && has_no_properties {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(Error::required(&path.child("properties"), detail));
    }
}

/// Nothing is said but of the name.
fn is_plain_metadata(metadata: &Value) -> bool {
    let mut fields = metadata.as_object().into_iter().flatten();
    fields.all(|(name, value)| match name.as_str() {
        "type" | "default" => true,
        "properties" => {
            let mut names = value.as_object().into_iter().flat_map(|properties| properties.keys());
            names.all(|name| name == "name" || name == "generateName")
        }
        _ => false,
    })
}

/// `anyOf: [{type: integer}, {type: string}]`, which int-or-strings may say.
fn is_int_or_string(any_of: Option<&Value>) -> bool {
    let list = any_of.and_then(Value::as_array);
    list.is_some_and(|list| {
        let only = |at: usize, json_type: &str| {
            let fields = list.get(at).and_then(Value::as_object);
            fields.is_some_and(|fields| fields.len() == 1 && fields.get("type").is_some_and(|found| found == json_type))
        };
        list.len() == 2 && only(0, "integer") && only(1, "string")
    })
}

/// Reports whether the schema of an int-or-string says so itself, in one of the two forms that it may have.
pub(crate) fn says_int_or_string(schema: &Value) -> bool {
    is_int_or_string(schema.get("anyOf")) || first_all_of_is_int_or_string(schema)
}

/// Reports whether a schema is structural, with types that there are.
pub(crate) fn is_structural(schema: &Value) -> bool {
    if !has_known_types(schema) || !is_convertible(schema) {
        return false;
    }
    let mut errors = ErrorList::new();
    validate_structural(schema, &Path::new(""), &mut errors);
    errors.is_empty()
}

fn has_known_types(schema: &Value) -> bool {
    let name = text(schema, "type");
    (name.is_empty() || JsonType::parse(name).is_some()) && parts(schema).all(has_known_types)
}

fn first_all_of_is_int_or_string(schema: &Value) -> bool {
    let first = schema.get("allOf").and_then(|list| list.get(0));
    first.is_some_and(|first| is_int_or_string(first.get("anyOf")))
}

fn list<'v>(schema: &'v Value, name: &str) -> impl Iterator<Item = (usize, &'v Value)> {
    let items = schema.get(name).and_then(Value::as_array).into_iter().flatten();
    items.enumerate()
}

fn validate_value_validation(
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if !skip_any_of {
        for (index, nested) in list(schema, "anyOf") {
            let at = path.child("anyOf");
            validate_nested(nested, false, &at.index(index), errors);
        }
    }
    for (index, nested) in list(schema, "allOf") {
        let at = path.child("allOf");
        validate_nested(nested, skip_first_all_of && index == 0, &at.index(index), errors);
    }
    for (index, nested) in list(schema, "oneOf") {
        let at = path.child("oneOf");
        validate_nested(nested, false, &at.index(index), errors);
    }
    if let Some(nested) = schema.get("not") {
        validate_nested(nested, false, &path.child("not"), errors);
    }
    let pattern = text(schema, "pattern");
    if let Err(error) = GoRegex::new(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(Error::invalid_str(&path.child("pattern"), pattern, &detail));
    }
}

fn validate_nested(nested: &Value, skip_any_of: bool, path: &Path<'_>, errors: &mut ErrorList) {
    validate_value_validation(nested, skip_any_of, false, path, errors);
    if let Some(items) = nested.get("items").filter(|items| items.is_object()) {
        validate_nested(items, false, &path.child("items"), errors);
    }
    let properties = nested.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let at = path.child("properties");
        validate_nested(property, false, &at.key(name), errors);
    }
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    for (name, detail) in [
        ("type", EMPTY),
        ("additionalProperties", UNDEFINED),
        ("default", UNDEFINED),
        ("title", EMPTY),
        ("description", EMPTY),
        ("nullable", FALSE),
        ("x-kubernetes-preserve-unknown-fields", FALSE),
        ("x-kubernetes-embedded-resource", FALSE),
        ("x-kubernetes-int-or-string", FALSE),
        ("x-kubernetes-list-map-keys", EMPTY),
        ("x-kubernetes-list-type", UNDEFINED),
        ("x-kubernetes-map-type", UNDEFINED),
        ("x-kubernetes-validations", EMPTY),
    ] {
        let is_said = nested.get(name).is_some_and(|value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        });
        if is_said {
            errors.push(Error::forbidden(&path.child(name), detail));
        }
    }
    if properties.is_some_and(|properties| properties.contains_key("metadata")) {
        let at = path.child("properties");
        let detail = "must not be specified in a nested context";
        errors.push(Error::forbidden(&at.key("metadata"), detail));
    }
}

/// Reports what validations for values at the root speak of and the schema itself does not have. Those below the root are not
/// held to that, as in kube-apiserver (`validateStructuralCompleteness`).
fn validate_completeness(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, nested) in list(schema, name) {
            let at = path.child(name);
            validate_nested_completeness(nested, schema, path, &at.index(index), errors);
        }
    }
    if let Some(nested) = schema.get("not") {
        validate_nested_completeness(nested, schema, path, &path.child("not"), errors);
    }
}

fn validate_nested_completeness(
    nested: &Value,
    schema: &Value,
    schema_path: &Path<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    if let Some(items) = nested.get("items").filter(|items| items.is_object()) {
        let at = schema_path.child("items");
        match schema.get("items").filter(|items| items.is_object()) {
            Some(known) => validate_nested_completeness(items, known, &at, &path.child("items"), errors),
            None => errors.push(missing(&at, &path.child("items"))),
        }
    }
    for (name, property) in nested
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let (properties, nested_properties) = (schema_path.child("properties"), path.child("properties"));
        let (at, nested_at) = (properties.key(name), nested_properties.key(name));
        let known = schema.get("properties").and_then(|properties| properties.get(name));
        match known {
            Some(known) => validate_nested_completeness(property, known, &at, &nested_at, errors),
            None => errors.push(missing(&at, &nested_at)),
        }
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, inner) in list(nested, name) {
            let at = path.child(name);
            validate_nested_completeness(inner, schema, schema_path, &at.index(index), errors);
        }
    }
    if let Some(inner) = nested.get("not") {
        validate_nested_completeness(inner, schema, schema_path, &path.child("not"), errors);
    }
}

fn missing(path: &Path<'_>, nested: &Path<'_>) -> Error {
    Error::required(path, &format!("because it is defined in {nested}"))
}
