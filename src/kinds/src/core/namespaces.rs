//! Namespaces (`pkg/registry/core/namespace`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    meta,
    names::{self, NameCheck},
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    columns::{self, column, described, or_none},
    kind::Kind,
    values::{items, keep_field, set_default, struct_mut, text_at},
};

const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let phase = |object: &Value| or_none(text_at(object, "/status/phase"));
    Kind::new("", "namespaces", NamespaceStrategy).columns(vec![
        columns::name(),
        column("Status", "string", described("The status of the namespace"), phase),
        columns::age(),
    ])
}

struct NamespaceStrategy;

impl Strategy for NamespaceStrategy {
    fn default(&self, object: &mut Value) {
        let name = text_at(object, "/metadata/name").to_owned();
        if !name.is_empty() {
            struct_mut(&mut object["metadata"], "labels").insert(NAME_LABEL.into(), name.into());
        }
        set_default(struct_mut(object, "status"), "phase", "Active");
    }

    fn name_check(&self) -> NameCheck {
        names::name_is_dns_label
    }

    fn deletes_by_uid(&self) -> bool {
        true
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "phase": "Active" });
        let spec = struct_mut(object, "spec");
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(list) = finalizers
            .as_array_mut()
            .filter(|list| !list.contains(&json!("kubernetes")))
        {
            list.push(json!("kubernetes"));
        }
        // The name may have been generated after the defaults were set.
        self.default(object);
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let path = Path::new("spec.finalizers");
        finalizers(object)
            .flat_map(|name| validate_finalizer_name(name, &path))
            .collect()
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let phase = text_at(new, "/status/phase");
        let path = Path::new("status.Phase");
        let is_terminating = new.pointer("/metadata/deletionTimestamp").is_some();
        match (is_terminating, phase) {
            (false, "Active") | (true, "Terminating") => ErrorList::new(),
            (false, _) => {
                vec![Error::invalid_str(
                    &path,
                    phase,
                    "may only be 'Active' if `deletionTimestamp` is empty",
                )]
            }
            (true, _) => {
                vec![Error::invalid_str(
                    &path,
                    phase,
                    "may only be 'Terminating' if `deletionTimestamp` is not empty",
                )]
            }
        }
    }

    fn prepare_for_finalize(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_finalize(&self, _context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        let path = Path::new("spec.finalizers");
        finalizers(new)
            .enumerate()
            .flat_map(|(index, name)| validate_finalizer_name(name, &path.index(index)))
            .collect()
    }

    fn mark_deleted(&self, object: &mut Value) {
        struct_mut(object, "status").insert("phase".into(), "Terminating".into());
        struct_mut(object, "metadata").remove("deletionGracePeriodSeconds");
    }

    fn is_marked_before_removal(&self) -> bool {
        true
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    // As kube-apiserver's documents, which describe a Status.
    fn documents_deleted_object(&self) -> bool {
        false
    }

    fn may_be_removed(&self, object: &Value) -> bool {
        object
            .get("spec")
            .is_none_or(|spec| items(spec, "finalizers").is_empty())
    }
}

fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    let list = object.get("spec").map_or(&[][..], |spec| items(spec, "finalizers"));
    list.iter().map(|finalizer| finalizer.as_str().unwrap_or_default())
}

/// A finalizer must be a standard one or have a domain (`ValidateFinalizerName`).
fn validate_finalizer_name(name: &str, path: &Path<'_>) -> ErrorList {
    let mut errors = meta::validate_finalizer_name(name, path);
    if !name.contains('/') && !meta::is_standard_finalizer(name) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid_str(path, name, detail));
    }
    errors
}
