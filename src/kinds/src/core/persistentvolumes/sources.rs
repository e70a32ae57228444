//! Sources of a volume, of which it has exactly one, of which most are those of pods' volumes.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use crate::{
    checks::{push_invalid, require},
    pod_template::{
        ISCSI_NAME_TOO_LONG, is_iscsi_name_too_long, source_path, validate_csi_driver_name,
        validate_iscsi_volume_source, validate_volume_source,
    },
    values::text,
};

/// All sources, in the order in which Kubernetes looks for them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Validates the source: none, more than one, or one that is malformed. `name` is the volume's.
pub(super) fn validate_persistent_volume_source(spec: &Value, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let mut is_given = false;
    for (kind, source) in SOURCES.into_iter().filter_map(|kind| Some((kind, spec.get(kind)?))) {
        // Kubernetes does not ask whether a flexVolume is the only one.
        if is_given && kind != "flexVolume" {
            let shown = if kind == "cephfs" { "cephFS" } else { kind };
            errors.push(Error::forbidden(
                &path.child(shown),
                "may not specify more than 1 volume type",
            ));
            continue;
        }
        is_given = true;
        let at = path.child(source_path(kind));
        match kind {
            "local" => validate_local_volume_source(spec, source, path, errors),
            "csi" => validate_csi_persistent_volume_source(source, &at, errors),
            "iscsi" => {
                let portal = text(source, "targetPortal");
                if source.get("initiatorName").is_some() && is_iscsi_name_too_long(name, portal) {
                    errors.push(Error::invalid_str(
                        &at.child("targetportal"),
                        portal,
                        ISCSI_NAME_TOO_LONG,
                    ));
                }
                validate_iscsi_volume_source(source, false, &at, errors);
            }
            _ => {
                validate_volume_source(kind, source, &at, errors);
                validate_source_of_volumes_only(kind, source, &at, errors);
            }
        }
    }
    if !is_given {
        errors.push(Error::required(path, "must specify a volume type"));
    }
}

/// Validates the fields that these sources have in volumes but not in pods.
fn validate_source_of_volumes_only(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    match kind {
        "glusterfs" => {
            if let Some(namespace) = source.get("endpointsNamespace").and_then(Value::as_str) {
                let at = path.child("endpointsNamespace");
                match namespace {
                    "" => {
                        let detail = "if the endpointnamespace is set, it must be a valid namespace name";
                        errors.push(Error::invalid_str(&at, namespace, detail));
                    }
                    _ => push_invalid(&at, namespace, names::dns1123_label(namespace), errors),
                }
            }
        }
        "azureFile" if source.get("secretNamespace").and_then(Value::as_str) == Some("") => {
            errors.push(Error::required(&path.child("secretNamespace"), ""));
        }
        "cinder" | "storageos" => {
            if let Some(secret) = source.get("secretRef") {
                require(secret, &path.child("secretRef"), "namespace", errors);
            }
        }
        _ => {}
    }
}

/// As upstream's `validateLocalVolumeSource`.
fn validate_local_volume_source(spec: &Value, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("local");
    let target = text(source, "path");
    if target.is_empty() {
        errors.push(Error::required(&at.child("path"), ""));
    } else if target.split('/').any(|part| part == "..") {
        errors.push(Error::invalid_str(&at.child("path"), target, "must not contain '..'"));
    }
    if spec.get("nodeAffinity").is_none() {
        errors.push(Error::required(
            &path.child("nodeAffinity"),
            "Local volume requires node affinity",
        ));
    }
}

/// As upstream's `validateCSIPersistentVolumeSource`.
fn validate_csi_persistent_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(text(source, "driver"), &path.child("driver"), errors);
    require(source, path, "volumeHandle", errors);
    let secrets = [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ];
    for field in secrets {
        let Some(secret) = source.get(field) else { continue };
        let at = path.child(field);
        if let Some(name) = require(secret, &at, "name", errors) {
            push_invalid(&at.child("name"), name, names::dns1123_subdomain(name), errors);
        }
        if let Some(namespace) = require(secret, &at, "namespace", errors) {
            push_invalid(
                &at.child("namespace"),
                namespace,
                names::dns1123_label(namespace),
                errors,
            );
        }
    }
}
