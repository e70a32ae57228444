//! The schema of one version of a custom resource, as registries use it.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::OnceLock,
};

use serde_json::Value;
use trireme_machinery::{
    managed::MergeSchema,
    schema::{DecodeError, Decoded},
};
use trireme_registry::ObjectSchema;

use crate::structural::{
    Structural, defaults, merge::merge_schema, metadata::MetadataType, prune::prune, pruned_defaults::prune_defaults,
    settled, values::type_of,
};

/// A structural schema with what it needs to do its work.
pub(crate) struct VersionSchema {
    pub(crate) structural: Structural,
    metadata: MetadataType,
    fingerprint: String,
    has_defaults: bool,
    /// True if nothing is pruned: the definition is of `apiextensions.k8s.io/v1beta1` and has `preserveUnknownFields`.
    keeps_all: bool,
    /// Made when somebody is first found to manage a field: many definitions have no objects.
    merge_schema: OnceLock<MergeSchema>,
}

impl VersionSchema {
    /// The schema that a definition has for a version.
    pub(crate) fn new(schema: &Value, metadata: MetadataType, keeps_all: bool) -> Self {
        let mut hasher = DefaultHasher::new();
        (schema.to_string(), keeps_all).hash(&mut hasher);
        let mut structural = Structural::parse(schema);
        prune_defaults(&mut structural, &metadata);
        Self {
            has_defaults: structural.has_defaults(),
            structural,
            keeps_all,
            metadata,
            merge_schema: OnceLock::new(),
            fingerprint: format!("{:016x}", hasher.finish()),
        }
    }

    /// Drops what the schema does not have; true if there was anything.
    pub(crate) fn prune(&self, object: &mut Value) -> bool {
        !self.keeps_all && settled::prune_stored(object, &self.structural)
    }
}

impl ObjectSchema for VersionSchema {
    fn decode(&self, object: Value) -> Result<Decoded, DecodeError> {
        let mut decoded = self.decode_merged(object)?;
        if !self.keeps_all {
            defaults::prune_nulls(&mut decoded.value, Some(&self.structural));
        }
        Ok(decoded)
    }

    fn decode_merged(&self, mut object: Value) -> Result<Decoded, DecodeError> {
        let Some(fields) = object.as_object_mut() else {
            let text = |go_type: &str| format!("cannot restore {} from {go_type}", type_of(&object));
            return Err(DecodeError::Root {
                found: type_of(&object).to_owned(),
                go_type: "map[string]interface {}".to_owned(),
                restored: text("map"),
            });
        };
        let mut unknown = self.metadata.decode(fields)?;
        if !self.keeps_all {
            unknown.extend(prune(&mut object, &self.structural));
        }
        unknown.extend(self.metadata.coerce(&mut object, &self.structural)?);
        Ok(Decoded { value: object, unknown })
    }

    fn apply_defaults(&self, object: &mut Value) {
        if self.has_defaults {
            defaults::apply_defaults(object, &self.structural);
        }
    }

    fn restore(&self, object: &mut Value) -> bool {
        !self.keeps_all && settled::restore(object, &self.structural)
    }

    fn is_settled(&self, json: &[u8]) -> bool {
        self.keeps_all || settled::is_settled(json, &self.structural)
    }

    fn merge_schema(&self) -> &MergeSchema {
        self.merge_schema
            .get_or_init(|| merge_schema(&self.structural, &self.metadata, self.keeps_all))
    }

    fn fingerprint(&self) -> &str {
        &self.fingerprint
    }
}
