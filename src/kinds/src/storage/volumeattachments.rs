//! VolumeAttachments (`pkg/registry/storage/volumeattachment`).

use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::quote,
};
use trireme_registry::{Column, ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use crate::{
    checks::{number, validate_class_name},
    columns::{self, column, documented},
    core::persistentvolumes::{shown_spec, validate_inline},
    kind::Kind,
    pod_template::validate_csi_driver_name,
    values::{entries, is_true_at, keep_field, keep_metadata, text, text_at},
};

const SPEC: &str = "io.k8s.api.storage.v1.VolumeAttachmentSpec";
const SOURCE: &str = "io.k8s.api.storage.v1.VolumeAttachmentSource";
const STATUS: &str = "io.k8s.api.storage.v1.VolumeAttachmentStatus";
const MAX_METADATA_BYTES: usize = 256 * 1024;
const MAX_MESSAGE_BYTES: usize = 1024;
const ONE_SOURCE: &str = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let at = |pointer: &'static str| move |object: &Value| Value::from(text_at(object, pointer));
    let attached = |object: &Value| Value::from(is_true_at(object, "/status/attached"));
    let attacher = column("Attacher", "string", documented(SPEC, "attacher"), at("/spec/attacher"));
    Kind::new("storage.k8s.io", "volumeattachments", VolumeAttachments).columns(vec![
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
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields::of_bare_status(subresource)
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "attached": false });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_volume_attachment(object)
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_volume_attachment(new);
        if new.get("spec") != old.get("spec") {
            let shown = shown(new.get("spec").unwrap_or(&Value::Null));
            errors.push(Error::invalid_shown(&Path::new("spec"), shown, "field is immutable"));
        }
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        self.validate_update(context, new, old)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNew
    }
}

/// `storage.VolumeAttachmentSpec` as errors show it.
fn shown(spec: &Value) -> String {
    let none = Value::Null;
    let source = spec.get("source").unwrap_or(&none);
    let [attacher, node] = ["attacher", "nodeName"].map(|field| quote(text(spec, field)));
    let volume = source.get("persistentVolumeName").unwrap_or(&none);
    let inline = shown_spec(source.get("inlineVolumeSpec"));
    let source = format!("{{\"PersistentVolumeName\":{volume},\"InlineVolumeSpec\":{inline}}}");
    format!("{{\"Attacher\":{attacher},\"Source\":{source},\"NodeName\":{node}}}")
}

/// Validates an attachment, old or new (`ValidateVolumeAttachment`).
fn validate_volume_attachment(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let none = Value::Null;
    let path = Path::new("spec");
    let spec = object.get("spec").unwrap_or(&none);
    validate_csi_driver_name(text(spec, "attacher"), &path.child("attacher"), &mut errors);
    validate_volume_attachment_source(spec.get("source").unwrap_or(&none), &path.child("source"), &mut errors);
    let node = text(spec, "nodeName");
    validate_class_name(node, &path.child("nodeName"), &mut errors);
    validate_volume_attachment_status(object.get("status").unwrap_or(&none), &Path::new("status"), &mut errors);
    validate_attached_volume(spec, &mut errors);
    errors
}

/// An attachment must name what could be a volume.
fn validate_attached_volume(spec: &Value, errors: &mut ErrorList) {
    if let Some(volume) = spec.pointer("/source/persistentVolumeName").and_then(Value::as_str) {
        validate_class_name(volume, &Path::new("spec.source.persistentVolumeName"), errors);
    }
}

/// As upstream's `validateVolumeAttachmentSource`.
fn validate_volume_attachment_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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

/// As upstream's `validateVolumeAttachmentStatus`.
fn validate_volume_attachment_status(status: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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
            // Kubernetes names another bound than the one that it checks.
            errors.push(Error::too_long(&at.child("message"), MAX_METADATA_BYTES));
        }
        if let Some(code) = number(error, "errorCode").filter(|code| *code < 0) {
            errors.push(Error::invalid(
                &at.child("errorCode"),
                &code.into(),
                "must be between 0 and 2147483647, inclusive",
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
        let volume =
            |name: &str| json!({ "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": name } });
        trial.expect_errors(&[
            (
                named("a", json!({ "attacher": "", "nodeName": "n", "source": {} })),
                &[
                    "spec.attacher: Required value",
                    "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                ],
            ),
            (
                named("a", volume("-")),
                &[
                    "spec.source.persistentVolumeName: Invalid value: \"-\": a lowercase RFC 1123 subdomain must consist of \
                     lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric \
                     character (e.g. 'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
                ],
            ),
        ]);
        let old = trial.create(named("a", volume("v"))).expect("a valid attachment");
        assert_eq!(old["status"], json!({ "attached": false }));
        let failure = r#"spec: Invalid value: {"Attacher":"d","Source":{"PersistentVolumeName":"v","InlineVolumeSpec":null},"NodeName":"z"}: field is immutable"#;
        trial.expect_patch_errors(&old, &[(json!({ "spec": { "nodeName": "z" } }), &[failure])]);
        let inline = json!({ "accessModes": ["ReadWriteOnce"], "csi": { "driver": "d", "volumeHandle": "h" } });
        let source = json!({ "persistentVolumeName": null, "inlineVolumeSpec": inline });
        let errors = trial
            .patch(&old, &json!({ "spec": { "source": source } }))
            .expect_err("it is immutable");
        let shown = errors.concat();
        let (head, tail) = (
            r#"spec: Invalid value: {"Attacher":"d","Source":{"PersistentVolumeName":null,"InlineVolumeSpec":{"Capacity":null,"GCEPersistentDisk":null,"#,
            r#","AccessModes":["ReadWriteOnce"],"ClaimRef":null,"PersistentVolumeReclaimPolicy":"","StorageClassName":"","MountOptions":null,"VolumeMode":null,"NodeAffinity":null,"VolumeAttributesClassName":null}},"NodeName":"n"}: field is immutable"#,
        );
        assert!(shown.starts_with(head) && shown.ends_with(tail), "{shown}");
        let renamed = trial.patch(&old, &json!({ "spec": { "source": { "persistentVolumeName": "-" } } }));
        let errors = renamed.expect_err("no volume has this name");
        assert!(
            errors
                .iter()
                .any(|error| error.starts_with("spec.source.persistentVolumeName: Invalid value: \"-\""))
        );
        let error = |error: Value| json!({ "attached": false, "attachError": error });
        let too_long = "status.attachError.message: Too long: may not be more than 262144 bytes";
        let code = "status.attachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive";
        trial.expect_status_errors(
            &old,
            &[
                (error(json!({ "message": "a".repeat(1024), "errorCode": 0 })), &[]),
                (error(json!({ "message": "a".repeat(1025) })), &[too_long]),
                (error(json!({ "errorCode": -1 })), &[code]),
            ],
        );
    }
}
