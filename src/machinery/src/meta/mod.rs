//! `metadata`: reading, writing and checking what every object has.
//!
//! ```
//! use trireme_machinery::{Value, meta::ObjectMeta};
//!
//! let mut pod: Value = serde_json::json!({"metadata": {"name": "web", "labels": {"app": "web"}}});
//! assert_eq!(pod.meta().label("app"), Some("web"));
//! pod.meta_mut().set_generation(1);
//! assert_eq!(pod.meta().generation(), 1);
//! ```
//!
//! Reading never fails: what is absent or of another type reads as empty. The schema has refused wrong types
//! before anything here sees an object.

mod owners;
mod validate;
mod validate_update;
mod view;
mod write;

pub use owners::OwnerReference;
pub use validate::{
    ANNOTATIONS_MAX_BYTES, is_standard_finalizer, validate_annotations, validate_builtin_object_meta,
    validate_field_manager, validate_finalizer_name, validate_finalizers, validate_managed_fields,
    validate_object_meta, validate_owner_references,
};
pub use validate_update::{
    validate_builtin_object_meta_update, validate_immutable_field, validate_new_finalizers, validate_object_meta_update,
};
pub use view::{Meta, ObjectMeta};
pub use write::MetaMut;

/// The finalizer that waits until the dependents are orphaned.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer that waits until the dependents are deleted.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

#[cfg(test)]
mod tests;
