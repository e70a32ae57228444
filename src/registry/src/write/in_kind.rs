//! The objects of a write in the kinds that others see them in: webhooks and policies ask for a version of their own, and see
//! a scale where one is written.

use serde_json::Value;
use trireme_machinery::{
    ApiError, GroupVersion, GroupVersionKind,
    go_text::quote,
    json,
    managed::{self, Managers, SchemaNode},
    schema::{self, TypeId},
};

use super::{
    managed::{MANAGED_FIELDS, schema_node},
    metadata, scale,
};
use crate::{
    admission::{Attributes, WriteRequest},
    definition::{ResourceDefinition, ScalePaths, ServedVersion},
    request::Subresource,
    versions,
};

/// The kind of what is written in a version of the resource.
pub(super) fn kind_of(
    definition: &ResourceDefinition,
    subresource: Subresource,
    version: &GroupVersion,
) -> GroupVersionKind {
    let own = || version.with_kind(&definition.kind);
    match subresource {
        Subresource::Scale => scale::kind(),
        Subresource::Update(name) | Subresource::Create(name) | Subresource::Connect(name) => {
            definition.subresource(name).map_or_else(own, |subresource| {
                let version = subresource.group_version.as_ref().unwrap_or(version);
                version.with_kind(&subresource.kind)
            })
        }
        Subresource::None | Subresource::Status | Subresource::Finalize => own(),
    }
}

impl Attributes {
    /// Sets the object as a webhook or policy has changed it, in [`kind_in`](WriteRequest::kind_in). What it made of
    /// `managedFields` counts only if it can be read, as in `fieldmanager/admission.go` of `k8s.io/apiserver`.
    ///
    /// # Errors
    /// If it cannot be converted.
    pub async fn change_object(&mut self, version: &GroupVersion, changed: Value) -> Result<(), ApiError> {
        let before = self.object.take().unwrap_or_default();
        let mut object = self.object_from(version, changed, &before).await?;
        let (old, new) = (entries_of(&before), entries_of(&object));
        if old != new
            && let Err(why) = Managers::decode(new)
        {
            self.warn(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                 mutating admission controller; please fix your requests: {why}"
            ));
            let old = old.cloned();
            metadata::set_or_remove(metadata::of(&mut object), MANAGED_FIELDS, old);
        }
        self.object = Some(object);
        Ok(())
    }
}

fn entries_of(object: &Value) -> Option<&Value> {
    json::at(object, "/metadata/managedFields")
}

impl WriteRequest {
    /// The kind of what is written, in a version of the resource.
    pub fn kind_in(&self, version: &GroupVersion) -> GroupVersionKind {
        if *version == self.resource.group_version() {
            self.kind.clone()
        } else {
            kind_of(&self.definition, self.subresource, version)
        }
    }

    /// Reports whether a version is the one that objects of this write are in.
    pub fn is_written_in(&self, version: &GroupVersion) -> bool {
        self.written().is_ok_and(|written| written.group_version == *version)
    }

    fn written(&self) -> Result<&ServedVersion, ApiError> {
        let requested = self.served(&self.context.version)?;
        Ok(self.definition.written_version(requested))
    }

    /// An object of this write in [`kind_in`](Self::kind_in).
    ///
    /// # Errors
    /// If it cannot be converted.
    pub async fn object_in(&self, version: &GroupVersion, object: &Value) -> Result<Value, ApiError> {
        if !self.has_versions() {
            return Ok(object.clone());
        }
        if let (Subresource::Scale, Some(paths)) = (self.subresource, self.scale_paths()) {
            return scale::of(&self.definition, paths, object);
        }
        let mut object = object.clone();
        versions::between(&self.definition, (self.written()?, self.served(version)?), &mut object).await?;
        Ok(object)
    }

    /// Holds what admission has made of an object of [`kind_in`](Self::kind_in) against its schema and fills in the
    /// defaults; fields that the schema does not have are dropped.
    ///
    /// # Errors
    /// 500 with the text of the decoder.
    pub fn decode_in(&self, version: &GroupVersion, changed: Value) -> Result<Value, ApiError> {
        self.decode_changed(version, changed).map(|(object, _)| object)
    }

    /// As [`decode_in`](Self::decode_in), but fields that a kind of Kubernetes does not have are an error.
    ///
    /// # Errors
    /// As there.
    pub fn decode_strictly_in(&self, version: &GroupVersion, changed: Value) -> Result<Value, ApiError> {
        let (object, unknown) = self.decode_changed(version, changed)?;
        if unknown.is_empty() || self.definition.is_custom {
            return Ok(object);
        }
        Err(strict_error(&unknown))
    }

    fn decode_changed(&self, version: &GroupVersion, changed: Value) -> Result<(Value, Vec<String>), ApiError> {
        let types = &self.definition.types;
        let own_type = self.own_type();
        let served = self.served(version)?;
        let own_schema = served.schema.as_ref().filter(|_| own_type.is_none());
        let type_id = own_type.unwrap_or(served.type_id);
        let decoded = match own_schema {
            Some(schema) => schema.decode(changed),
            None => schema::decode(types, type_id, changed),
        };
        let schema::Decoded {
            value: mut object,
            unknown,
        } = decoded.map_err(ApiError::internal)?;
        match own_schema {
            Some(schema) => schema.apply_defaults(&mut object),
            None => schema::apply_defaults(types, type_id, &mut object),
        }
        let kind = self.kind_in(version);
        object["apiVersion"] = kind.group_version().to_string().into();
        object["kind"] = Value::from(&*kind.kind);
        Ok((object, unknown))
    }

    /// Brings a changed object of [`kind_in`](Self::kind_in) back into the version that it is written in; `before` is
    /// what it was.
    ///
    /// # Errors
    /// If it cannot be converted.
    async fn object_from(&self, version: &GroupVersion, changed: Value, before: &Value) -> Result<Value, ApiError> {
        if !self.has_versions() {
            return Ok(changed);
        }
        if let (Subresource::Scale, Some(paths)) = (self.subresource, self.scale_paths()) {
            let mut object = before.clone();
            let replicas = changed.pointer("/spec/replicas").cloned().unwrap_or_else(|| 0.into());
            schema::set_path(&mut object, &paths.spec_replicas, replicas);
            return Ok(object);
        }
        let mut object = changed;
        versions::between(&self.definition, (self.served(version)?, self.written()?), &mut object).await?;
        self.definition.strategy.default(&mut object);
        Ok(object)
    }

    /// An object of [`kind_in`](Self::kind_in) with an apply configuration merged into it, without owners, as policies do it.
    ///
    /// # Errors
    /// The text of what is wrong with the configuration.
    pub fn merge_in(&self, version: &GroupVersion, object: &Value, configuration: &Value) -> Result<Value, String> {
        let types = &self.definition.types;
        let served = self.served(version).map_err(|error| error.message)?;
        let own_type = self.own_type().map(|id| SchemaNode::Struct(types, id));
        let node = own_type.unwrap_or_else(|| schema_node(&self.definition, served));
        if let Some(error) = managed::validate(node, configuration) {
            return Err(format!("failed to convert patch object to typed object: {error}"));
        }
        let atomics = managed::atomics(node, configuration);
        if !atomics.is_empty() {
            let atomics = atomics.join(", ");
            return Err(format!(
                "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {atomics}"
            ));
        }
        Ok(managed::merge(node, object, configuration))
    }

    fn scale_paths(&self) -> Option<&ScalePaths> {
        let requested = self.served(&self.context.version).ok()?;
        self.definition.scale_in(requested)
    }

    /// The type of what is written, where it is not the resource's own.
    fn own_type(&self) -> Option<TypeId> {
        let types = &self.definition.types;
        match self.subresource {
            Subresource::Scale => types.find(scale::SCALE_TYPE),
            Subresource::Create(name) | Subresource::Connect(name) => {
                let subresource = self.definition.subresource(name);
                subresource
                    .and_then(|subresource| subresource.type_name.as_deref())
                    .and_then(|name| types.find(name))
            }
            _ => None,
        }
    }

    /// Bodies and options of a subresource of their own kind have one version, whatever that of the resource.
    const fn has_versions(&self) -> bool {
        !matches!(self.subresource, Subresource::Create(_) | Subresource::Connect(_))
    }

    fn served(&self, version: &GroupVersion) -> Result<&ServedVersion, ApiError> {
        let mut versions = self.definition.versions.iter();
        let served = versions.find(|served| served.group_version == *version);
        served.ok_or_else(|| ApiError::internal(format!("{version} is not served")))
    }
}

/// The error of an object with fields that its kind does not have.
pub(crate) fn strict_error(unknown: &[String]) -> ApiError {
    let unknown = unknown.iter().map(|field| format!("unknown field {}", quote(field)));
    let unknown = unknown.collect::<Vec<_>>().join(", ");
    ApiError::internal(format!("strict decoding error: {unknown}"))
}
