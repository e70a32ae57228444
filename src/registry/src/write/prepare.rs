//! Stages *prepare* and *validate*: the hooks of the strategy around the metadata that all objects have.
//!
//! The order is that of `rest.BeforeCreate` and `rest.BeforeUpdate` of `k8s.io/apiserver`.

use serde_json::Value;
use trireme_machinery::{
    ApiError,
    field::{ErrorList, Path},
    meta, names,
};

use super::{
    Writer,
    managed::MANAGED_FIELDS,
    metadata::{self, OwnersSeen},
};
use crate::{
    ResourceDefinition,
    admission::WriteRequest,
    request::{Subresource, WriteContext},
    strategy::{MetadataChecks, Strategy},
    subresource::{SubresourceRole, Update},
};

impl Writer {
    /// Sets what the server owns of a new object; gives back a warning of repeated owners.
    pub(super) fn prepare_new(&self, request: &WriteRequest, object: &mut Value) -> Option<String> {
        let (strategy, context) = (&*self.info.strategy, &request.context);
        metadata::fill_new(object, context.now, strategy.has_generation());
        let repeated_owners = metadata::dedup_owners(object, OwnersSeen::AfterAdmission);
        strategy.drop_disabled(object, None);
        strategy.prepare_for_create(context, object);
        repeated_owners
    }

    /// Validates a new object and brings it into its last form; gives back all warnings.
    pub(super) fn validate_new(
        &self,
        request: &WriteRequest,
        object: &mut Value,
        repeated_owners: Option<String>,
    ) -> Result<Vec<String>, ApiError> {
        let strategy = &*self.info.strategy;
        self.refuse_if_any(object, errors_of_new(&self.info, &request.context, object))?;
        strategy.canonicalize(object);
        Ok(repeated_owners
            .into_iter()
            .chain(strategy.warnings(object, None))
            .collect())
    }

    /// Carries over what this request may not change; gives back a warning of repeated owners.
    pub(super) fn prepare_changed(
        &self,
        request: &WriteRequest,
        new: &mut Value,
        old: &Value,
    ) -> Result<Option<String>, ApiError> {
        let (strategy, context) = (&*self.info.strategy, &request.context);
        let repeated_owners = metadata::dedup_owners(new, OwnersSeen::AfterAdmission);
        metadata::carry_over(new, old);
        let entries = metadata::of(new).remove(MANAGED_FIELDS);
        strategy.drop_disabled(new, Some(old));
        match request.subresource {
            Subresource::None | Subresource::Scale => {
                strategy.prepare_for_update(context, new, old);
                self.count_generation(new, old);
            }
            Subresource::Update(name) => {
                updater(strategy, name)?.prepare_for_update(context, new, old);
                self.count_generation(new, old);
            }
            Subresource::Status => strategy.prepare_for_status_update(context, new, old),
            Subresource::Finalize => strategy.prepare_for_finalize(context, new, old),
            Subresource::Create(_) | Subresource::Connect(_) => return Err(no_updater()),
        }
        // Strategies that begin with the old object know nothing of managers.
        metadata::set_or_remove(metadata::of(new), MANAGED_FIELDS, entries);
        let revision = metadata::text(old, "resourceVersion").to_owned();
        metadata::of(new).insert("resourceVersion".into(), revision.into());
        Ok(repeated_owners)
    }

    /// Validates a changed object and brings it into its last form; gives back all warnings.
    pub(super) fn validate_changed(
        &self,
        request: &WriteRequest,
        new: &mut Value,
        old: &Value,
        repeated_owners: Option<String>,
    ) -> Result<Vec<String>, ApiError> {
        let (strategy, context) = (&*self.info.strategy, &request.context);
        let mut errors = self.validate_metadata_update(request, new, old);
        errors.extend(match request.subresource {
            Subresource::None | Subresource::Scale => strategy.validate_update(context, new, old),
            Subresource::Status => strategy.validate_status_update(context, new, old),
            Subresource::Finalize => strategy.validate_finalize(context, new, old),
            Subresource::Update(name) => updater(strategy, name)?.validate_update(context, new, old),
            Subresource::Create(_) | Subresource::Connect(_) => return Err(no_updater()),
        });
        self.refuse_if_any(new, errors)?;
        strategy.canonicalize(new);
        let warnings = match request.subresource {
            Subresource::None | Subresource::Scale => strategy.warnings(new, Some(old)),
            Subresource::Status => strategy.status_warnings(new),
            Subresource::Finalize | Subresource::Update(_) | Subresource::Create(_) | Subresource::Connect(_) => {
                Vec::new()
            }
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

    /// Kubernetes holds metadata against the rules of all objects and then against those of the kind, which repeat
    /// them; clients see every repetition as a cause.
    fn validate_metadata_update(&self, request: &WriteRequest, new: &Value, old: &Value) -> ErrorList {
        let path = Path::new("metadata");
        let (new_view, old_view) = (metadata::view(new), metadata::view(old));
        let mut errors = meta::validate_object_meta(new_view, self.info.namespaced, names::name_is_path_segment, &path);
        errors.extend(meta::validate_object_meta_update(new_view, old_view, &path));
        let repeated = match request.subresource {
            Subresource::None => self.info.strategy.metadata_checks_of_update(&request.context),
            _ => MetadataChecks::OfChange,
        };
        if matches!(repeated, MetadataChecks::OfChange | MetadataChecks::OfBoth) {
            let validate = if self.info.strategy.wants_standard_finalizers() {
                meta::validate_builtin_object_meta_update
            } else {
                meta::validate_object_meta_update
            };
            errors.extend(validate(new_view, old_view, &path));
        }
        let of_new = match repeated {
            MetadataChecks::None | MetadataChecks::OfChange => 0,
            MetadataChecks::OfNew | MetadataChecks::OfBoth => 1,
            MetadataChecks::OfNewTwice => 2,
        };
        for _ in 0..of_new {
            errors.extend(validate_metadata(&self.info, new));
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
}

/// Validates a new object that has been prepared, as `rest.BeforeCreate` does after `PrepareForCreate`.
pub(crate) fn errors_of_new(info: &ResourceDefinition, context: &WriteContext, object: &Value) -> ErrorList {
    let strategy = &*info.strategy;
    let mut errors = ErrorList::new();
    if strategy.validates_metadata_of_new() {
        errors = validate_metadata(info, object);
    }
    errors.extend(strategy.validate(context, object));
    if errors.is_empty() {
        // What is asked of all objects comes after what is asked of the kind, which mostly says the same more exactly.
        let (view, path) = (metadata::view(object), Path::new("metadata"));
        errors = meta::validate_object_meta(view, info.namespaced, names::name_is_path_segment, &path);
    }
    errors
}

fn validate_metadata(info: &ResourceDefinition, object: &Value) -> ErrorList {
    let validate = if info.strategy.wants_standard_finalizers() {
        meta::validate_builtin_object_meta
    } else {
        meta::validate_object_meta
    };
    let path = Path::new("metadata");
    validate(
        metadata::view(object),
        info.namespaced,
        info.strategy.name_check(),
        &path,
    )
}

/// Finds the subresource that a request names.
fn updater<'a>(strategy: &'a dyn Strategy, name: &str) -> Result<&'a dyn Update, ApiError> {
    match strategy.subresource(name) {
        Some(SubresourceRole::Update(updater)) => Ok(updater),
        _ => Err(no_updater()),
    }
}

fn no_updater() -> ApiError {
    ApiError::internal("the resource has no such subresource to update")
}
