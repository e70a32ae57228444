//! Holds the schema of a version against the rules for schemas (`ValidateCustomResourceDefinitionOpenAPISchema`).

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::{
    defaults::validate_defaults,
    internals::shown_schema,
    rules::{validate_rule_texts, validate_rules},
    structural::{flag, is_convertible, text, validate_structural},
};
use crate::structural::metadata::MetadataType;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const AT_ROOT_WITH_STATUS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Validates the schema of a version, `has_status` if it has a status subresource, `is_unchanged` if an update leaves it as
/// it was. Without the type of metadata, defaults within them may be of any type.
pub(super) fn validate_version_schema(
    schema: &Value,
    has_status: bool,
    is_unchanged: bool,
    metadata: Option<&MetadataType>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let at = path.child("openAPIV3Schema");
    if has_status {
        validate_root_with_status(schema, &at, errors);
    }
    if flag(schema, "nullable") {
        errors.push(Error::forbidden(
            &at.child("nullable"),
            "nullable cannot be true at the root",
        ));
    }
    let mut is_structural = false;
    if is_convertible(schema) {
        let before = errors.len();
        validate_structural(schema, &at, errors);
        if errors.len() == before {
            validate_defaults(schema, metadata, &at, errors);
        }
        is_structural = errors.len() == before;
    }
    let before = errors.len();
    SchemaContext::root().validate(schema, &at, errors);
    if is_structural && errors.len() == before {
        validate_rules(schema, is_unchanged, &at, errors);
    }
}

fn validate_root_with_status(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if text(schema, "type") != "object" && schema.get("type").is_some() {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is \
                      enabled";
        errors.push(Error::invalid_str(&path.child("type"), text(schema, "type"), detail));
        return;
    }
    let mut names = schema.as_object().into_iter().flat_map(|fields| fields.keys());
    if names.any(|name| !AT_ROOT_WITH_STATUS.contains(&name.as_str())) {
        let shown: Vec<String> = AT_ROOT_WITH_STATUS.iter().map(|name| go_name(name)).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            shown.join(" ")
        );
        errors.push(Error::invalid_shown(path, shown_schema(schema), &detail));
    }
}

/// The name of a field in Go: `MaxLength`, `XValidations`.
fn go_name(name: &str) -> String {
    if let Some(extension) = name.strip_prefix("x-kubernetes-") {
        let words = extension.split('-').map(capital);
        return std::iter::once("X".to_owned()).chain(words).collect();
    }
    capital(name)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// What holds at a place of a schema because of what stands around it.
#[derive(Clone, Copy)]
struct SchemaContext {
    is_root: bool,
    in_metadata: bool,
    /// Why there can be no default here, if there cannot.
    no_default: Option<&'static str>,
}

impl SchemaContext {
    fn root() -> Self {
        Self {
            is_root: true,
            in_metadata: false,
            no_default: None,
        }
    }

    fn below(self) -> Self {
        Self { is_root: false, ..self }
    }

    fn validate(self, schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        self.validate_standard(schema, path, errors);
        if flag(schema, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.push(Error::forbidden(&path.child("uniqueItems"), detail));
        }
        self.validate_parts(schema, path, errors);
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
            let at = path.child("x-kubernetes-preserve-unknown-fields");
            errors.push(Error::invalid(&at, &false.into(), "must be true or undefined"));
        }
        validate_map_type(schema, path, errors);
        validate_list_type(schema, path, errors);
        validate_list_map_keys(schema, path, errors);
        validate_rule_texts(schema, path, errors);
    }

    fn validate_standard(self, schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        let json_type = text(schema, "type");
        if !json_type.is_empty() && !TYPES.contains(&json_type) {
            errors.push(Error::not_supported(&path.child("type"), json_type, &TYPES));
        }
        if let (Some(_), Some(reason)) = (schema.get("default"), self.no_default) {
            let detail = format!("must not be set {reason}");
            errors.push(Error::forbidden(&path.child("default"), &detail));
        }
        for name in [
            "id",
            "additionalItems",
            "patternProperties",
            "definitions",
            "dependencies",
            "$ref",
        ] {
            if schema.get(name).is_some() {
                errors.push(Error::forbidden(&path.child(name), &format!("{name} is not supported")));
            }
        }
        if json_type == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            errors.push(Error::forbidden(&path.child("type"), detail));
        }
        if schema.get("items").is_some_and(Value::is_array) {
            let detail = "items must be a schema object and not an array";
            errors.push(Error::forbidden(&path.child("items"), detail));
        }
        if self.in_metadata && flag(schema, "x-kubernetes-embedded-resource") {
            let at = path.child("x-kubernetes-embedded-resource");
            errors.push(Error::forbidden(&at, "must not be used inside of resource meta"));
        }
    }

    fn validate_parts(self, schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
        let below = self.below();
        let properties = schema.get("properties").and_then(Value::as_object);
        if let Some(additional) = schema.get("additionalProperties") {
            let at = path.child("additionalProperties");
            if properties.is_some_and(|properties| !properties.is_empty()) && *additional != Value::Bool(true) {
                let detail = "additionalProperties and properties are mutual exclusive";
                errors.push(Error::forbidden(&at, detail));
            }
            let mut context = below;
            if self.in_metadata {
                context.no_default = Some("inside additionalProperties applying to object metadata");
            }
            if additional.is_object() {
                context.validate(additional, &at, errors);
            }
        }
        let is_resource = self.is_root || flag(schema, "x-kubernetes-embedded-resource");
        for (name, property) in properties.into_iter().flatten() {
            let mut context = below;
            if is_resource {
                let top_level = match name.as_str() {
                    "metadata" => Some("in top-level metadata"),
                    "kind" => Some("in top-level kind"),
                    "apiVersion" => Some("in top-level apiVersion"),
                    _ => None,
                };
                context.in_metadata |= top_level.is_some();
                context.no_default = context.no_default.or(top_level.filter(|_| self.is_root));
            }
            let at = path.child("properties");
            context.validate(property, &at.key(name), errors);
        }
        if let Some(not) = schema.get("not") {
            below.validate(not, &path.child("not"), errors);
        }
        for name in ["allOf", "oneOf", "anyOf"] {
            let list = schema.get(name).and_then(Value::as_array).into_iter().flatten();
            for (index, part) in list.enumerate() {
                let at = path.child(name);
                below.validate(part, &at.index(index), errors);
            }
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            below.validate(items, &path.child("items"), errors);
        }
    }
}

/// Refuses an extension that is for another type than the schema's.
fn validate_type_of(schema: &Value, wanted: &str, extension: &str, path: &Path<'_>, errors: &mut ErrorList) -> bool {
    let found = text(schema, "type");
    if found == wanted {
        return true;
    }
    let detail = format!("must be {wanted} if {extension} is specified");
    errors.push(match found {
        "" => Error::required(&path.child("type"), &detail),
        found => Error::invalid_str(&path.child("type"), found, &detail),
    });
    false
}

fn validate_map_type(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(map_type) = schema.get("x-kubernetes-map-type").and_then(Value::as_str) else {
        return;
    };
    validate_type_of(schema, "object", "x-kubernetes-map-type", path, errors);
    let known = ["atomic", "granular"];
    if !known.contains(&map_type) {
        errors.push(Error::not_supported(
            &path.child("x-kubernetes-map-type"),
            map_type,
            &known,
        ));
    }
}

fn validate_list_type(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(list_type) = schema.get("x-kubernetes-list-type").and_then(Value::as_str) else {
        return;
    };
    let fits = validate_type_of(schema, "array", "x-kubernetes-list-type", path, errors);
    let items = schema.get("items").filter(|items| items.is_object());
    if let (true, "set", Some(items)) = (fits, list_type, items) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let at = path.child("items");
        let of_items = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
        if text(items, "type") == "array" && !of_items.is_null() && of_items != "atomic" {
            errors.push(Error::invalid(&at.child("x-kubernetes-list-type"), of_items, detail));
        }
        if text(items, "type") == "object" && text(items, "x-kubernetes-map-type") != "atomic" {
            errors.push(Error::invalid(&at.child("x-kubernetes-map-type"), of_items, detail));
        }
    }
    let known = ["atomic", "set", "map"];
    if !known.contains(&list_type) {
        errors.push(Error::not_supported(
            &path.child("x-kubernetes-list-type"),
            list_type,
            &known,
        ));
    }
}

fn validate_list_map_keys(schema: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let none = Vec::new();
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .unwrap_or(&none);
    let type_path = path.child("x-kubernetes-list-type");
    if !keys.is_empty() && list_type != Some("map") {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => Error::required(&type_path, detail),
            Some(found) => Error::invalid_str(&type_path, found, detail),
        });
    }
    let items = schema.get("items").filter(|items| items.is_object());
    if list_type == Some("map") {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(Error::required(&path.child("x-kubernetes-list-map-keys"), detail));
        }
        match items {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(Error::required(&path.child("items"), detail));
            }
            Some(items) => validate_keys(schema, items, keys, path, errors),
        }
    }
    if let (Some("set" | "map"), Some(items)) = (list_type, items) {
        validate_map_list_keys_map_set(items, keys, list_type.unwrap_or_default(), path, errors);
    }
}

fn validate_keys(schema: &Value, items: &Value, keys: &[Value], path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("items");
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(Error::invalid_str(&at.child("type"), text(items, "type"), detail));
        return;
    }
    let keys_path = path.child("x-kubernetes-list-map-keys");
    let all = schema.get("x-kubernetes-list-map-keys").unwrap_or(&Value::Null);
    let mut seen: Vec<&str> = Vec::new();
    for key in keys.iter().filter_map(Value::as_str) {
        match items.get("properties").and_then(|properties| properties.get(key)) {
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let properties = at.child("properties");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = properties.key(key);
                errors.push(Error::invalid_str(&at.child("type"), text(items, "type"), detail));
            }
            Some(_) => {}
            None => errors.push(Error::invalid(
                &keys_path,
                all,
                "entries must all be names of item properties",
            )),
        }
        if seen.contains(&key) {
            errors.push(Error::invalid(&keys_path, all, "must not contain duplicate entries"));
        }
        seen.push(key);
    }
}

fn validate_map_list_keys_map_set(
    items: &Value,
    keys: &[Value],
    list_type: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let at = path.child("items");
    if flag(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(Error::forbidden(&at.child("nullable"), &detail));
    }
    if list_type != "map" {
        return;
    }
    let required = items.get("required").and_then(Value::as_array);
    let properties = at.child("properties");
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(property) = items.get("properties").and_then(|properties| properties.get(key)) else {
            continue;
        };
        let at = properties.key(key);
        let is_required = required.is_some_and(|required| required.iter().any(|name| name == key));
        if !is_required && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(Error::required(&at.child("default"), detail));
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(Error::forbidden(&at.child("nullable"), detail));
        }
    }
}
