//! Validation of a pod's volumes: each has a name of its own and exactly one source.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::quote,
    names,
};

use super::{
    check::{non_reserved_path, number, push_invalid, require, require_one_of},
    containers::PULL_POLICIES,
    env,
    iscsi::{ISCSI_NAME_TOO_LONG, is_iscsi_name_too_long, validate_iscsi_volume_source},
    projected,
    sources::{source_path, validate_volume_source},
    spec::Volumes,
    tolerated::Tolerated,
};
use crate::values::{self, items, text};

pub(super) const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// In the order in which Kubernetes looks for them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// Pushes all errors and says which volumes have none. The metadata is that of a pod (`ValidateVolumes`).
pub(super) fn validate_volumes<'a>(
    spec: &'a Value,
    metadata: Option<&Value>,
    tolerated: Tolerated,
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Volumes<'a> {
    let mut volumes = Volumes::new();
    let pod_name = metadata.map_or("", |metadata| text(metadata, "name"));
    let made_claims = made_claims(spec, pod_name);
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let (at, name) = (path.index(index), text(volume, "name"));
        let before = errors.len();
        validate_volume(volume, metadata, tolerated, &at, errors);
        if require(volume, &at, "name", errors) {
            push_invalid(&at.child("name"), name, names::dns1123_label(name), errors);
        }
        if volumes.contains_key(name) {
            errors.push(Error::duplicate(&at.child("name"), &name.into()));
        }
        if errors.len() == before {
            volumes.insert(name, volume);
        }
        if let Some(claim) = values::at(volume, "/persistentVolumeClaim/claimName").and_then(Value::as_str)
            && made_claims.iter().any(|made| made == claim)
        {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(Error::invalid_str(
                &at.child("persistentVolumeClaim.claimName"),
                claim,
                detail,
            ));
        }
    }
    volumes
}

/// The names of the claims that are made for a pod.
fn made_claims(spec: &Value, pod_name: &str) -> Vec<String> {
    items(spec, "volumes")
        .iter()
        .filter(|volume| !pod_name.is_empty() && volume.get("ephemeral").is_some())
        .map(|volume| format!("{pod_name}-{}", text(volume, "name")))
        .collect()
}

fn validate_volume(
    volume: &Value,
    metadata: Option<&Value>,
    tolerated: Tolerated,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut found = false;
    for kind in SOURCES {
        let Some(source) = volume.get(kind) else { continue };
        if found {
            // Kubernetes writes two of them so.
            let shown = match kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                kind => kind,
            };
            errors.push(Error::forbidden(
                &path.child(shown),
                "may not specify more than 1 volume type",
            ));
            continue;
        }
        found = true;
        let at = path.child(source_path(kind));
        match kind {
            "secret" => {
                require(source, &at, "secretName", errors);
                validate_files(source, &at, errors);
            }
            "configMap" => {
                require(source, &at, "name", errors);
                validate_files(source, &at, errors);
            }
            "downwardAPI" => {
                validate_mode(source, "defaultMode", &at, errors);
                // Errors of items are reported at the volume.
                items(source, "items")
                    .iter()
                    .for_each(|file| env::validate_downward_api_volume_file(file, &at, errors));
            }
            "projected" => projected::validate_projected_volume_source(source, tolerated, &at, errors),
            "image" => {
                if metadata.is_some() {
                    require(source, &at, "reference", errors);
                }
                require_one_of(source, &at, "pullPolicy", &PULL_POLICIES, errors);
            }
            "iscsi" => {
                validate_iscsi_volume_source(source, true, &at, errors);
                validate_name_for_iscsi(text(volume, "name"), source, path, errors);
            }
            kind => {
                validate_volume_source(kind, source, &at, errors);
                if kind == "ephemeral" {
                    validate_name_of_claim(volume, metadata, path, errors);
                }
            }
        }
    }
    if !found {
        errors.push(Error::required(path, "must specify a volume type"));
    }
}

fn validate_name_for_iscsi(name: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let is_named = source.get("initiatorName").is_some();
    if is_named && is_iscsi_name_too_long(name, text(source, "targetPortal")) {
        errors.push(Error::invalid_str(&path.child("name"), name, ISCSI_NAME_TOO_LONG));
    }
}

/// The claim that is made for an ephemeral volume has the names of its pod and volume together.
fn validate_name_of_claim(volume: &Value, metadata: Option<&Value>, path: &Path<'_>, errors: &mut ErrorList) {
    let (pod_name, name) = (
        metadata.map_or("", |metadata| text(metadata, "name")),
        text(volume, "name"),
    );
    if !pod_name.is_empty() && !name.is_empty() {
        let claim = format!("{pod_name}-{name}");
        let messages = names::dns1123_subdomain(&claim).into_iter();
        let messages = messages.map(|error| format!("PVC name {}: {error}", quote(&claim)));
        push_invalid(&path.child("name"), name, messages.collect(), errors);
    }
}

fn validate_files(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", path, errors);
    let list = path.child("items");
    for (index, item) in items(source, "items").iter().enumerate() {
        validate_key_to_path(item, &list.index(index), errors);
    }
}

/// A key of a map that becomes a file (`validateKeyToPath`).
pub(super) fn validate_key_to_path(item: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require(item, path, "key", errors);
    if require(item, path, "path", errors) {
        non_reserved_path(text(item, "path"), &path.child("path"), errors);
    }
    validate_mode(item, "mode", path, errors);
}

/// A file's permissions.
pub(super) fn validate_mode(fields: &Value, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = number(fields, name).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(Error::invalid(&path.child(name), &mode.into(), FILE_MODE));
    }
}
