//! The metadata of objects and of the resources that are embedded in them (`structural/objectmeta`).

use std::sync::Arc;

use serde_json::Value;
use trireme_machinery::{
    GroupVersion, Object,
    field::{Error, ErrorList, Path, shown},
    meta::{Meta, validate_object_meta},
    names,
    schema::{self, DecodeError, TypeId, TypeTable},
};

use super::Structural;

/// The type of metadata.
#[derive(Clone)]
pub(crate) struct MetadataType {
    types: Arc<TypeTable>,
    type_id: TypeId,
}

impl MetadataType {
    /// Finds it among the built-in types.
    pub(crate) fn find(types: &Arc<TypeTable>) -> Option<Self> {
        Some(Self {
            type_id: types.find("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?,
            types: types.clone(),
        })
    }

    /// The table that it is part of.
    pub(crate) fn types(&self) -> &Arc<TypeTable> {
        &self.types
    }

    /// The type itself.
    pub(crate) fn type_id(&self) -> TypeId {
        self.type_id
    }

    /// Brings the metadata of an object into their form; gives back the paths of unknown fields.
    ///
    /// # Errors
    /// If they are of another type.
    pub(crate) fn decode(&self, fields: &mut Object) -> Result<Vec<String>, DecodeError> {
        let Some(metadata) = fields.get_mut("metadata").filter(|metadata| !metadata.is_null()) else {
            fields.remove("metadata");
            return Ok(Vec::new());
        };
        let decoded = schema::decode(&self.types, self.type_id, metadata.take())?;
        *metadata = decoded.value;
        if let Some(fields) = metadata.as_object_mut()
            && fields.get("creationTimestamp").is_some_and(Value::is_null)
        {
            fields.remove("creationTimestamp");
        }
        let unknown = decoded.unknown.into_iter();
        Ok(unknown.map(|path| format!("metadata.{path}")).collect())
    }

    /// Brings the metadata of embedded resources into their form; gives back the paths of unknown fields.
    ///
    /// # Errors
    /// If they are of another type.
    pub(crate) fn coerce(&self, value: &mut Value, schema: &Structural) -> Result<Vec<String>, DecodeError> {
        let mut unknown = Vec::new();
        self.coerce_in(value, schema, "", &mut unknown)?;
        Ok(unknown)
    }

    /// As [`coerce`](Self::coerce), of a value that is a resource itself.
    ///
    /// # Errors
    /// If they are of another type.
    pub(crate) fn coerce_resource(&self, value: &mut Value, schema: &Structural) -> Result<(), DecodeError> {
        if let Some(fields) = value.as_object_mut() {
            self.decode_embedded(fields, "")?;
        }
        self.coerce(value, schema).map(drop)
    }

    /// As [`decode`](Self::decode), of the resource at a path.
    fn decode_embedded(&self, fields: &mut Object, path: &str) -> Result<Vec<String>, DecodeError> {
        let invalid = |name: &str, value: &Value, why: String| DecodeError::Embedded {
            path: format!("{path}.{name}").trim_start_matches('.').to_owned(),
            shown: shown(value),
            why,
        };
        for name in ["apiVersion", "kind"] {
            if let Some(value) = fields.get(name).filter(|value| !value.is_string()) {
                return Err(invalid(name, value, "must be a string".to_owned()));
            }
        }
        let given = fields.get("metadata").cloned().unwrap_or_default();
        self.decode(fields)
            .map_err(|error| invalid("metadata", &given, error.to_string()))
    }

    fn coerce_in(
        &self,
        value: &mut Value,
        schema: &Structural,
        path: &str,
        unknown: &mut Vec<String>,
    ) -> Result<(), DecodeError> {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    let Some(of_key) = schema.of_key(name) else { continue };
                    let separator = if path.is_empty() { "" } else { "." };
                    let path = format!("{path}{separator}{name}");
                    if let (true, Some(fields)) = (of_key.embedded, value.as_object_mut()) {
                        let found = self.decode_embedded(fields, &path)?;
                        unknown.extend(found.into_iter().map(|field| format!("{path}.{field}")));
                    }
                    self.coerce_in(value, of_key, &path, unknown)?;
                }
            }
            Value::Array(items) => {
                let Some(of_items) = &schema.items else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    let path = format!("{path}[{index}]");
                    if let (true, Some(fields)) = (of_items.embedded, item.as_object_mut()) {
                        let found = self.decode_embedded(fields, &path)?;
                        unknown.extend(found.into_iter().map(|field| format!("{path}.{field}")));
                    }
                    self.coerce_in(item, of_items, &path, unknown)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Validates the resources that are embedded in a value.
pub(crate) fn validate_embedded(value: &Value, schema: &Structural, path: &Path<'_>, errors: &mut ErrorList) {
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                validate_embedded_resource(fields, path, errors);
            }
            for (name, value) in fields {
                if let Some(property) = schema.property(name) {
                    validate_embedded(value, property, &path.child(name), errors);
                } else if let Some(of_entries) = schema.of_key(name) {
                    validate_embedded(value, of_entries, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_items) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                validate_embedded(item, of_items, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn validate_embedded_resource(fields: &Object, path: &Path<'_>, errors: &mut ErrorList) {
    for name in ["apiVersion", "kind"] {
        let at = path.child(name);
        match fields.get(name) {
            None => errors.push(Error::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(Error::invalid_str(&at, text, "must not be empty"));
            }
            Some(Value::String(text)) => validate_text(name, text, &at, errors),
            Some(other) => errors.push(Error::invalid(&at, other, "must be a string")),
        }
    }
    let Some(Value::Object(metadata)) = fields.get("metadata") else {
        return;
    };
    let mut metadata = metadata.clone();
    if Meta::new(&metadata).name().is_empty() {
        // An embedded resource may have no name.
        metadata.insert("name".into(), "fakename".into());
    }
    let meta = Meta::new(&metadata);
    let is_namespaced = !meta.namespace().is_empty();
    let at = path.child("metadata");
    errors.extend(validate_object_meta(
        meta,
        is_namespaced,
        names::name_is_path_segment,
        &at,
    ));
}

fn validate_text(name: &str, text: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if name == "apiVersion" {
        if GroupVersion::parse(text).is_none() {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(Error::invalid_str(path, text, &detail));
        }
        return;
    }
    let texts = names::dns1035_label(&text.to_lowercase());
    if !texts.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", texts.join(","));
        errors.push(Error::invalid_str(path, text, &detail));
    }
}
