//! Holds the defaults of a schema against the schema itself (`structural/defaulting.ValidateDefaults`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::aggregate_errors,
    schema::DecodeError,
};

use super::structural::flag;
use crate::{
    rules::CompiledRules,
    structural::{
        Structural,
        correlation::Ratchet,
        metadata::{MetadataType, validate_embedded},
        prune::prune_value,
        values::validate_value,
    },
};

/// Validates all defaults within the schema of a version; without the type of metadata, they may be of any type within those.
pub(super) fn validate_defaults(
    schema: &Value,
    metadata: Option<&MetadataType>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let validator = DefaultsValidator {
        metadata,
        resource: schema,
    };
    validator.validate(schema, None, path, errors);
}

/// Holds the defaults of one resource against its schema: those of the whole object, or of one that is embedded in it.
struct DefaultsValidator<'a> {
    metadata: Option<&'a MetadataType>,
    /// The schema of the resource.
    resource: &'a Value,
}

/// A place below the `metadata`, `apiVersion` or `kind` of a resource, seen from there.
#[derive(Clone, Copy)]
struct MetadataPlace<'p> {
    above: Option<&'p MetadataPlace<'p>>,
    /// The name of the field; none of an item of a list.
    field: Option<&'p str>,
}

impl MetadataPlace<'_> {
    /// A resource with nothing but this value in the place, and a version and kind.
    fn resource_with(&self, value: Value) -> Value {
        let mut whole = value;
        let mut place = Some(self);
        while let Some(MetadataPlace { above, field }) = place {
            whole = match field {
                Some(field) => json!({ *field: whole }),
                None => json!([whole]),
            };
            place = *above;
        }
        for (name, value) in [("apiVersion", "validation/v1"), ("kind", "Validation")] {
            if whole.get(name).is_none() {
                whole[name] = value.into();
            }
        }
        whole
    }
}

impl DefaultsValidator<'_> {
    /// Validates the defaults of a schema and of those below it; there may be none in `additionalProperties`.
    fn validate(&self, schema: &Value, place: Option<MetadataPlace<'_>>, path: &Path<'_>, errors: &mut ErrorList) {
        if flag(schema, "x-kubernetes-embedded-resource") && !std::ptr::eq(self.resource, schema) {
            let metadata = self.metadata;
            let embedded = DefaultsValidator {
                metadata,
                resource: schema,
            };
            return embedded.validate(schema, None, path, errors);
        }
        if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
            self.validate_default(schema, default, place, &path.child("default"), errors);
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            let below = place.as_ref().map(|above| MetadataPlace {
                above: Some(above),
                field: None,
            });
            self.validate(items, below, &path.child("items"), errors);
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let is_resource = std::ptr::eq(self.resource, schema);
        for (name, property) in properties.into_iter().flatten() {
            let is_meta = is_resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            let below = (place.is_some() || is_meta).then_some(MetadataPlace {
                above: place.as_ref(),
                field: Some(name),
            });
            let at = path.child("properties");
            self.validate(property, below, &at.key(name), errors);
        }
    }

    fn validate_default(
        &self,
        schema: &Value,
        default: &Value,
        place: Option<MetadataPlace<'_>>,
        path: &Path<'_>,
        errors: &mut ErrorList,
    ) {
        let mut structural = Structural::parse(schema);
        structural.embedded |= std::ptr::eq(self.resource, schema);
        if place.is_none() && prune_value(&mut default.clone(), &structural) {
            errors.push(Error::invalid(path, default, "must not have unknown fields"));
        }
        let before = errors.len();
        match place {
            Some(place) => self.validate_in_metadata(default, place, path, errors),
            None => self.validate_resources(default, &structural, path, errors),
        }
        if errors.len() == before {
            validate_value(default, None, &structural, &path.to_string(), errors);
        }
        if errors.len() == before {
            validate_rules(default, &structural, path, errors);
        }
    }

    /// Validates the resource that a default within its metadata would make.
    fn validate_in_metadata(&self, default: &Value, place: MetadataPlace<'_>, path: &Path<'_>, errors: &mut ErrorList) {
        let mut structural = Structural::parse(self.resource);
        structural.embedded = true;
        let mut object = place.resource_with(default.clone());
        let coerced = self
            .metadata
            .map_or(Ok(()), |metadata| metadata.coerce_resource(&mut object, &structural));
        let wrong = match coerced {
            Err(error) => Some(error.to_string()),
            Ok(()) => {
                let mut found = ErrorList::new();
                validate_embedded(&object, &structural, &Path::root(), &mut found);
                let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
                aggregate_errors(&texts)
            }
        };
        if let Some(wrong) = wrong {
            let detail = format!("must result in valid metadata: {wrong}");
            errors.push(Error::invalid(path, default, &detail));
        }
    }

    /// Validates the resources that a default is or holds.
    fn validate_resources(&self, default: &Value, structural: &Structural, path: &Path<'_>, errors: &mut ErrorList) {
        let mut object = default.clone();
        let coerced = self.metadata.map_or(Ok(()), |metadata| {
            if structural.embedded {
                metadata.coerce_resource(&mut object, structural)
            } else {
                metadata.coerce(&mut object, structural).map(drop)
            }
        });
        match coerced {
            Ok(()) => validate_embedded(&object, structural, path, errors),
            Err(DecodeError::Embedded {
                path: below,
                shown,
                why,
            }) => errors.push(Error {
                field: format!("{path}.{below}"),
                ..Error::invalid_shown(path, shown, &why)
            }),
            Err(error) => errors.push(Error::invalid(path, default, &error.to_string())),
        }
    }
}

/// Validates a default by the rules of its schema: it must do for an update that changes nothing and for a value that is new.
fn validate_rules(default: &Value, structural: &Structural, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(rules) = CompiledRules::compile(structural, structural.embedded) else {
        return;
    };
    let broken_by = |old: Option<&Value>| {
        let mut broken = ErrorList::new();
        // Nothing is ratcheted, so there are no warnings.
        rules.validate(default, old, Ratchet::default(), &mut broken);
        broken
    };
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
