//! VolumeAttachments (`pkg/registry/storage/volumeattachment`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Column, Strategy, WriteContext};

use crate::{
    checks::{number, push_invalid},
    columns::{self, column, documented},
    core::persistentvolumes::{SOURCE_FIELDS, validate_inline},
    internal::{self, Field, Shape},
    kind::Kind,
    pod_template::push_driver_name,
    values::{entries, is_true_at, keep_field, text, text_at},
};

const SPEC: &str = "io.k8s.api.storage.v1.VolumeAttachmentSpec";
const SOURCE: &str = "io.k8s.api.storage.v1.VolumeAttachmentSource";
const STATUS: &str = "io.k8s.api.storage.v1.VolumeAttachmentStatus";
const MAX_METADATA_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 2048;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

const INTERNAL_SPEC: &[Field] = &[
    ("Attacher", "attacher", Shape::Text),
    (
        "Source",
        "source",
        Shape::Struct(&[
            ("PersistentVolumeName", "persistentVolumeName", Shape::Plain),
            ("InlineVolumeSpec", "inlineVolumeSpec", Shape::Pointer(SOURCE_FIELDS)),
        ]),
    ),
    ("NodeName", "nodeName", Shape::Text),
];

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let at = |pointer: &'static str| move |object: &Value| Value::from(text_at(object, pointer));
    let attached = |object: &Value| Value::from(is_true_at(object, "/status/attached"));
    let attacher = column("Attacher", "string", documented(SPEC, "attacher"), at("/spec/attacher"));
    Kind::new(VolumeAttachments).columns(vec![
        columns::name(),
        Column {
            format: "name",
            ..attacher
        },
        column(
            "PV",
            "string",
            documented(SOURCE, "persistentVolumeName"),
            at("/spec/source/persistentVolumeName"),
        ),
        column("Node", "string", documented(SPEC, "nodeName"), at("/spec/nodeName")),
        column("Attached", "boolean", documented(STATUS, "attached"), attached),
        columns::age(),
    ])
}

struct VolumeAttachments;

impl Strategy for VolumeAttachments {
    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "attached": false });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        push_driver_name(text(spec, "attacher"), &path.child("attacher"), &mut errors);
        push_source(
            &mut errors,
            spec.get("source").unwrap_or(&Value::Null),
            &path.child("source"),
        );
        let node = text(spec, "nodeName");
        push_invalid(
            &mut errors,
            &path.child("nodeName"),
            node,
            names::dns1123_subdomain(node),
        );
        push_status(
            &mut errors,
            object.get("status").unwrap_or(&Value::Null),
            &Path::new("status"),
        );
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(context, new);
        if new.get("spec") != old.get("spec") {
            let shown = internal::compact(new.get("spec"), Shape::Struct(INTERNAL_SPEC));
            errors.push(Error::invalid_shown(&Path::new("spec"), shown, "field is immutable"));
        }
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, context: &WriteContext, new: &Value, _old: &Value) -> ErrorList {
        self.validate(context, new)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// A write of the status may change no labels or annotations, but may take finalizers off.
fn keep_metadata(new: &mut Value, old: &Value) {
    let (Some(new), Some(old)) = (new.get_mut("metadata"), old.get("metadata")) else {
        return;
    };
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        keep_field(new, old, field);
    }
}

fn push_source(errors: &mut ErrorList, source: &Value, path: &Path<'_>) {
    match (source.get("persistentVolumeName"), source.get("inlineVolumeSpec")) {
        (None, None) => {
            errors.push(Error::required(path, ONE_SOURCE));
        }
        (Some(_), Some(_)) => {
            errors.push(Error::forbidden(path, ONE_SOURCE));
        }
        (Some(name), None) if name.as_str().unwrap_or_default().is_empty() => {
            errors.push(Error::required(
                &path.child("persistentVolumeName"),
                "must specify non empty persistentVolumeName",
            ));
        }
        (Some(_), None) => {}
        (None, Some(inline)) => errors.extend(validate_inline(inline, &path.child("inlineVolumeSpec"))),
    }
}

fn push_status(errors: &mut ErrorList, status: &Value, path: &Path<'_>) {
    let metadata_path = path.child("attachmentMetadata");
    let mut bytes = 0;
    for (key, value) in entries(status, "attachmentMetadata") {
        bytes += key.len() + value.as_str().unwrap_or_default().len();
    }
    if bytes > MAX_METADATA_BYTES {
        errors.push(Error::too_long(&metadata_path, MAX_METADATA_BYTES));
    }
    for field in ["attachError", "detachError"] {
        let Some(error) = status.get(field) else { continue };
        let at = path.child(field);
        if text(error, "message").len() > MAX_MESSAGE_BYTES {
            errors.push(Error::too_long(&at.child("message"), MAX_MESSAGE_BYTES));
        }
        if let Some(code) = number(error, "errorCode").filter(|code| *code < 0) {
            errors.push(Error::invalid(
                &at.child("errorCode"),
                &code.into(),
                "must be greater than or equal to 0",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Trial, named};

    #[test]
    fn an_attachment_is_of_one_volume_to_one_node() {
        let trial = Trial::new("storage.k8s.io", "volumeattachments", kind());
        trial.expect_faults(&[(
            named("a", json!({ "attacher": "", "nodeName": "n", "source": {} })),
            &[
                "spec.attacher: Required value",
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            ],
        )]);
        let spec = json!({ "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": "v" } });
        let old = trial.create(named("a", spec)).expect("a valid attachment");
        assert_eq!(old["status"], json!({ "attached": false }));
        let fault = r#"spec: Invalid value: {"Attacher":"d","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"z"}: field is immutable"#;
        trial.expect_patch_faults(&old, &[(json!({ "spec": { "nodeName": "z" } }), &[fault])]);
    }
}
