//! Managed fields of writes through `/scale`: they are noted in the scale, and from there in the object.

use serde_json::{Value, json};
use trireme_machinery::{
    ApiError,
    managed::{FieldSet, ManagedVersions, ManagerId, Managers, ReplicasPaths, SCALE_VERSION, SchemaNode},
    schema,
};

use super::{
    Writer,
    managed::{MANAGED_FIELDS, time_of},
    patch::PatchedType,
    scale,
};
use crate::admission::WriteRequest;

/// The one version of scales.
struct ScaleVersions {
    scale: PatchedType,
}

impl ManagedVersions for ScaleVersions {
    fn node(&self, _version: &str) -> SchemaNode<'_> {
        SchemaNode::Struct(&self.scale.types, self.scale.type_id)
    }

    fn convert(&self, object: &Value, version: &str) -> Option<Value> {
        (version == SCALE_VERSION).then(|| object.clone())
    }

    fn changeable(&self, fields: FieldSet, _version: &str) -> FieldSet {
        fields
    }
}

/// The managers of an object while its scale is written.
pub(super) struct ScaleManagers<'r> {
    versions: ScaleVersions,
    request: &'r WriteRequest,
    paths: ReplicasPaths,
    /// The version in which the object was asked for.
    version: String,
    of_object: Managers,
    of_scale: Managers,
}

impl<'r> ScaleManagers<'r> {
    pub(super) fn new(writer: &Writer, request: &'r WriteRequest, object: &Value) -> Result<Self, ApiError> {
        let mut paths = ReplicasPaths::default();
        for version in &writer.info.versions {
            let scale = if writer.info.is_custom {
                version.scale.as_ref()
            } else {
                writer.info.scale_in(version)
            };
            paths.insert(
                &version.group_version.to_string(),
                scale.map(|scale| &*scale.spec_replicas),
            );
        }
        let entries = object.get("metadata").and_then(|fields| fields.get(MANAGED_FIELDS));
        let of_object = Managers::decode(entries).unwrap_or_default();
        Ok(Self {
            versions: ScaleVersions {
                scale: scale::patched(&writer.info.types)?,
            },
            request,
            version: writer.version(&request.target)?.group_version.to_string(),
            of_scale: of_object.to_scale(&paths),
            of_object,
            paths,
        })
    }

    fn time(&self) -> String {
        time_of(self.request.context.now)
    }

    /// Notes a PUT or PATCH.
    pub(super) fn update(&mut self, old: &Value, new: &Value) {
        // A scale that nobody is known to manage stays so until it is applied to.
        if self.of_scale.is_empty() {
            return;
        }
        let id = ManagerId::updater(
            &self.request.options.field_manager,
            SCALE_VERSION,
            self.request.subresource.name(),
        );
        let time = self.time();
        self.of_scale.update(&self.versions, old, new, id, &time);
    }

    /// Notes an apply; the scale after it.
    pub(super) fn apply(&mut self, live: &Value, applied: &Value) -> Result<Value, ApiError> {
        let (time, subresource) = (self.time(), self.request.subresource.name());
        if self.of_scale.is_empty() {
            let blank = json!({"apiVersion": SCALE_VERSION, "kind": "Scale"});
            let through = (SCALE_VERSION, subresource);
            self.of_scale.adopt(&self.versions, &blank, live, through, &time);
        }
        let id = ManagerId::applier(&self.request.options.field_manager, subresource);
        let force = self.request.options.force.unwrap_or_default();
        let id = (id, SCALE_VERSION);
        let merged = self.of_scale.apply(&self.versions, live, applied, id, force, &time)?;
        let PatchedType { types, type_id, .. } = &self.versions.scale;
        schema::decode(types, *type_id, merged)
            .map(|decoded| decoded.value)
            .map_err(|error| ApiError::bad_request(error.to_string()))
    }

    /// The managers of the object after the write.
    pub(super) fn of_object(self) -> Managers {
        self.of_object.with_scale(self.of_scale, &self.paths, &self.version)
    }
}
