//! Values that others have stored: in kube-apiserver's protobuf envelope, in another layout or in another version of the
//! kind. They become objects of the stored version, with the defaults that have come since.

use serde_json::Value;
use trireme_machinery::{
    GroupVersion, protobuf,
    schema::{self, TypeId},
};

use super::ItemError;
use crate::definition::{Conversion, ResourceDefinition};

/// The version that a value says it is of.
pub(super) struct StoredForm<'d> {
    pub(super) group_version: &'d GroupVersion,
    type_id: TypeId,
    conversion: Option<&'d dyn Conversion>,
}

impl<'d> StoredForm<'d> {
    /// Finds the version among those that are served and those that are read.
    pub(super) fn find(info: &'d ResourceDefinition, api_version: &str, kind: &str) -> Result<Self, ItemError> {
        let served = info.versions.iter().map(|version| Self {
            group_version: &version.group_version,
            type_id: version.type_id,
            conversion: version.conversion.as_deref(),
        });
        let readable = info.readable.iter().map(|version| Self {
            group_version: &version.group_version,
            type_id: version.type_id,
            conversion: version.conversion.as_deref(),
        });
        let found = served
            .chain(readable)
            .find(|form| form.group_version.to_string() == api_version);
        found
            .filter(|_| *kind == *info.kind)
            .ok_or_else(|| foreign(api_version, kind))
    }
}

fn foreign(api_version: &str, kind: &str) -> ItemError {
    ItemError::Foreign {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    }
}

/// The object in an envelope.
pub(super) fn open_envelope(info: &ResourceDefinition, value: &[u8]) -> Result<Value, ItemError> {
    let unparsable = |error: &dyn std::fmt::Display| ItemError::Unparsable(error.to_string());
    let envelope = protobuf::envelope(value).map_err(|error| unparsable(&error))?;
    let form = StoredForm::find(info, &envelope.api_version, &envelope.kind)?;
    if !protobuf::describes(&info.types, form.type_id) {
        return Err(foreign(&envelope.api_version, &envelope.kind));
    }
    let object = protobuf::decode(&info.types, form.type_id, envelope.raw).map_err(|error| unparsable(&error))?;
    let decoded = schema::decode(&info.types, form.type_id, object).map_err(|error| unparsable(&error))?;
    in_stored_version(info, &form, decoded.value)
}

/// An object of this version as one of the stored version, in the form that a request for it would have given it.
pub(super) fn in_stored_version(
    info: &ResourceDefinition,
    form: &StoredForm<'_>,
    mut object: Value,
) -> Result<Value, ItemError> {
    if let Some(conversion) = form.conversion {
        conversion.to_stored(&mut object);
    }
    let stored = info.stored();
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".into(), stored.group_version.to_string().into());
        fields.insert("kind".into(), Value::from(&*info.kind));
    }
    // A custom resource has a schema in place of the type.
    if stored.schema.is_some() || !protobuf::describes(&info.types, stored.type_id) {
        return Ok(object);
    }
    let decoded = schema::decode(&info.types, stored.type_id, object);
    let mut object = decoded.map_err(|error| ItemError::Unparsable(error.to_string()))?.value;
    schema::apply_defaults(&info.types, stored.type_id, &mut object);
    info.strategy.default(&mut object);
    info.strategy.default_on_read(&mut object);
    Ok(object)
}
