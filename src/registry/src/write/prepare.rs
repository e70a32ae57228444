//! What happens to an object between decoding and storing: defaults, admission, preparation, validation.
//!
//! The order is that of `rest.BeforeCreate` and `rest.BeforeUpdate` of `k8s.io/apiserver`.

use serde_json::Value;
use trireme_machinery::{
    ApiError,
    field::{ErrorList, Path},
    meta, names, schema,
};

use super::{Writer, metadata};
use crate::{
    definition::ServedVersion,
    request::{Subresource, Target},
    strategy::WriteContext,
    subresource::part,
};

impl Writer {
    /// Applies a version's defaults and turns the object into the stored version.
    pub(super) fn settle(&self, version: &ServedVersion, object: &mut Value) {
        schema::apply_defaults(&self.info.types, version.type_id, object);
        crate::versions::to_stored(&self.info, version, object);
        self.info.strategy.default(object);
    }

    /// Prepares and validates a new object, and gives back what to warn of.
    pub(super) fn before_create(&self, context: &WriteContext, object: &mut Value) -> Result<Vec<String>, ApiError> {
        let strategy = &*self.info.strategy;
        let repeated_owners = metadata::dedup_owners(object);
        strategy.prepare_for_create(context, object);
        let mut errors = self.metadata_faults(object);
        errors.extend(strategy.validate(context, object));
        self.refuse_if_any(object, errors)?;
        strategy.canonicalize(object);
        Ok(repeated_owners
            .into_iter()
            .chain(strategy.warnings(object, None))
            .collect())
    }

    /// Prepares and validates a changed object, and gives back what to warn of.
    pub(super) fn before_update(
        &self,
        context: &WriteContext,
        subresource: Subresource,
        new: &mut Value,
        old: &Value,
    ) -> Result<Vec<String>, ApiError> {
        let strategy = &*self.info.strategy;
        let repeated_owners = metadata::dedup_owners(new);
        metadata::carry_over(new, old);
        match subresource {
            Subresource::None | Subresource::Scale => {
                strategy.prepare_for_update(context, new, old);
                self.count_generation(new, old);
            }
            Subresource::Part(name) => {
                part(strategy, name)?.prepare_for_update(context, new, old);
                self.count_generation(new, old);
            }
            Subresource::Status => strategy.prepare_for_status_update(context, new, old),
            Subresource::Finalize => strategy.prepare_for_finalize(context, new, old),
        }
        let revision = metadata::text(old, "resourceVersion").to_owned();
        metadata::of(new).insert("resourceVersion".into(), revision.into());
        let mut errors = self.metadata_update_faults(subresource, new, old);
        errors.extend(match subresource {
            Subresource::None | Subresource::Scale => strategy.validate_update(context, new, old),
            Subresource::Status => strategy.validate_status_update(context, new, old),
            Subresource::Finalize => strategy.validate_finalize(context, new, old),
            Subresource::Part(name) => part(strategy, name)?.validate_update(context, new, old),
        });
        self.refuse_if_any(new, errors)?;
        strategy.canonicalize(new);
        let warnings = match subresource {
            Subresource::None | Subresource::Scale => strategy.warnings(new, Some(old)),
            Subresource::Status => strategy.status_warnings(new),
            Subresource::Finalize | Subresource::Part(_) => Vec::new(),
        };
        Ok(repeated_owners.into_iter().chain(warnings).collect())
    }

    fn count_generation(&self, new: &mut Value, old: &Value) {
        let strategy = &*self.info.strategy;
        if strategy.has_generation() && strategy.is_new_generation(new, old) {
            let generation = metadata::integer(old, "generation").unwrap_or(0) + 1;
            metadata::of(new).insert("generation".into(), generation.into());
        }
    }

    fn metadata_faults(&self, object: &Value) -> ErrorList {
        let (namespaced, name_check) = (self.info.namespaced, self.info.strategy.name_check());
        meta::validate_builtin_object_meta(metadata::view(object), namespaced, name_check, &Path::new("metadata"))
    }

    /// Kubernetes holds metadata against the rules of all objects and then against those of the kind, which repeat
    /// them; clients see every repetition as a cause.
    fn metadata_update_faults(&self, subresource: Subresource, new: &Value, old: &Value) -> ErrorList {
        let path = Path::new("metadata");
        let (new_view, old_view) = (metadata::view(new), metadata::view(old));
        let mut errors = meta::validate_object_meta(new_view, self.info.namespaced, names::name_is_path_segment, &path);
        errors.extend(meta::validate_object_meta_update(new_view, old_view, &path));
        if subresource != Subresource::None || self.info.strategy.repeats_metadata_checks() {
            errors.extend(meta::validate_builtin_object_meta_update(new_view, old_view, &path));
        }
        if subresource == Subresource::None {
            errors.extend(self.metadata_faults(new));
        }
        errors
    }

    fn refuse_if_any(&self, object: &Value, errors: ErrorList) -> Result<(), ApiError> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(
            &self.info.group_kind(),
            metadata::text(object, "name"),
            &errors,
        ))
    }

    /// Namespace and name as the URL has them.
    pub(super) fn check_identity(&self, target: &Target, object: &mut Value) -> Result<(), ApiError> {
        metadata::check_name(object, &target.name)?;
        let namespace = if self.info.namespaced {
            target.namespace.as_str()
        } else {
            ""
        };
        metadata::settle_namespace(object, namespace)
    }
}
