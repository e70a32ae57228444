//! Holds the defaults of a schema against the schema itself (`structural/defaulting.ValidateDefaults`).

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::structural::flag;
use crate::{
    rules::CompiledRules,
    structural::{
        Structural, correlation::Ratchet, metadata::validate_embedded, prune::prune_value, values::validate_value,
    },
};

/// Validates all defaults within a schema; `in_metadata` below the metadata of a resource, where nothing is pruned.
pub(super) fn validate_defaults(
    schema: &Value,
    is_resource: bool,
    in_metadata: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let is_embedded = flag(schema, "x-kubernetes-embedded-resource");
    let in_metadata = in_metadata && !is_embedded;
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        validate_default(schema, default, in_metadata, &path.child("default"), errors);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        validate_defaults(items, false, in_metadata, &path.child("items"), errors);
    }
    for (name, property) in schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let is_meta = (is_resource || is_embedded) && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let at = path.child("properties");
        validate_defaults(property, false, in_metadata || is_meta, &at.key(name), errors);
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|part| part.is_object()) {
        validate_defaults(
            additional,
            false,
            in_metadata,
            &path.child("additionalProperties"),
            errors,
        );
    }
}

fn validate_default(schema: &Value, default: &Value, in_metadata: bool, path: &Path<'_>, errors: &mut ErrorList) {
    let structural = Structural::parse(schema);
    if !in_metadata && prune_value(&mut default.clone(), &structural) {
        errors.push(Error::invalid(path, default, "must not have unknown fields"));
    }
    let before = errors.len();
    validate_embedded(default, &structural, path, errors);
    if errors.len() > before {
        return;
    }
    validate_value(default, None, &structural, &path.to_string(), errors);
    if errors.len() > before {
        return;
    }
    if let Some(rules) = CompiledRules::compile(&structural, structural.embedded) {
        let broken_by = |old: Option<&Value>| {
            let mut broken = ErrorList::new();
            // Nothing is ratcheted, so there are no warnings.
            rules.validate(default, old, Ratchet::default(), &mut broken);
            broken
        };
        // A default must do for an update that changes nothing and for a value that is new.
        let mut broken = broken_by(Some(default));
        if broken.is_empty() {
            broken = broken_by(None);
        }
        let below = path.to_string();
        errors.extend(broken.into_iter().map(|error| Error {
            field: match error.field.as_str() {
                "<nil>" => below.clone(),
                field => format!("{below}.{field}"),
            },
            ..error
        }));
    }
}
