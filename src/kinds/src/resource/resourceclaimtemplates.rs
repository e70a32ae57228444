//! ResourceClaimTemplates (`pkg/registry/resource/resourceclaimtemplate`).

use serde_json::{Value, json};
use trireme_machinery::{
    Features, GroupVersion,
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
};
use trireme_registry::{Strategy, WriteContext};

use super::{
    capacity::equal,
    claim::{self, default_spec, validate_resource_claim_spec},
    shapes::CLAIM_SPEC,
    v1beta1,
};
use crate::{columns, kind::Kind, pod_template::validate_template_object_meta};

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    Kind::new(
        "resource.k8s.io",
        "resourceclaimtemplates",
        ResourceClaimTemplates { features },
    )
    .columns(vec![columns::name(), columns::age()])
    .conversion(
        GroupVersion::new("resource.k8s.io", "v1beta1"),
        v1beta1::RequestsOfClaims { spec: "/spec/spec" },
    )
}

struct ResourceClaimTemplates {
    features: Features,
}

impl Strategy for ResourceClaimTemplates {
    fn default(&self, object: &mut Value) {
        default_spec(object.pointer_mut("/spec/spec"));
    }

    fn drop_disabled(&self, object: &mut Value, old: Option<&Value>) {
        if let Some(template) = object.get_mut("spec") {
            claim::drop_disabled(self.features, template, old.and_then(|old| old.get("spec")));
        }
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_template_object_meta(spec, &path.child("metadata"), &mut errors);
        validate_resource_claim_spec(
            self.features,
            spec.get("spec").unwrap_or(&Value::Null),
            &path.child("spec"),
            &mut errors,
        );
        errors
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = new.get("spec");
        if !equal(spec, old.get("spec")) {
            let shown = shown(spec.unwrap_or(&Value::Null));
            errors.push(Error::invalid_shown(&Path::new("spec"), shown, "field is immutable"));
        }
        errors
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// The fields of `metav1.ObjectMeta` in Go's order.
const METADATA: &[PrintedField] = &[
    ("name", "name", PrintedShape::Plain),
    ("generateName", "generateName", PrintedShape::Plain),
    ("namespace", "namespace", PrintedShape::Plain),
    ("selfLink", "selfLink", PrintedShape::Plain),
    ("uid", "uid", PrintedShape::Plain),
    ("resourceVersion", "resourceVersion", PrintedShape::Plain),
    ("generation", "generation", PrintedShape::Plain),
    ("creationTimestamp", "creationTimestamp", PrintedShape::Plain),
    ("deletionTimestamp", "deletionTimestamp", PrintedShape::Plain),
    (
        "deletionGracePeriodSeconds",
        "deletionGracePeriodSeconds",
        PrintedShape::Plain,
    ),
    ("labels", "labels", PrintedShape::Plain),
    ("annotations", "annotations", PrintedShape::Plain),
    ("ownerReferences", "ownerReferences", PrintedShape::Plain),
    ("finalizers", "finalizers", PrintedShape::Plain),
    ("managedFields", "managedFields", PrintedShape::Plain),
];

/// `resource.ResourceClaimTemplateSpec`: the metadata's fields stand in the struct itself.
fn shown(spec: &Value) -> String {
    let metadata = spec.get("metadata").cloned().unwrap_or_else(|| json!({}));
    let metadata = structs::compact(Some(&metadata), PrintedShape::Named(METADATA));
    let inner = structs::compact(spec.get("spec"), PrintedShape::Struct(CLAIM_SPEC));
    let head = metadata.strip_suffix('}').unwrap_or_default();
    let comma = if head == "{" { "" } else { "," };
    format!("{head}{comma}\"Spec\":{inner}}}")
}
