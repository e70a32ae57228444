//! Validation of a pod's volumes: each has a name of its own and exactly one source.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    check::{non_reserved_path, number, push_invalid, require},
    env, projected,
    sources::validate_source,
    spec::Volumes,
};
use crate::values::{items, text};

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

/// Pushes all faults and says which volumes have none.
pub(super) fn validate_volumes<'a>(spec: &'a Value, path: &Path<'_>, errors: &mut ErrorList) -> Volumes<'a> {
    let mut volumes = Volumes::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let (at, name) = (path.index(index), text(volume, "name"));
        let before = errors.len();
        validate_volume(volume, &at, errors);
        if require(errors, volume, &at, "name") {
            push_invalid(errors, &at.child("name"), name, names::dns1123_label(name));
        }
        if volumes.contains_key(name) {
            errors.push(Error::duplicate(&at.child("name"), &name.into()));
        }
        if errors.len() == before {
            volumes.insert(name, volume);
        }
    }
    volumes
}

fn validate_volume(volume: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for kind in SOURCES {
        let Some(source) = volume.get(kind) else { continue };
        let at = path.child(kind);
        if found {
            errors.push(Error::forbidden(&at, "may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        match kind {
            "secret" => {
                require(errors, source, &at, "secretName");
                validate_files(source, &at, errors);
            }
            "configMap" => {
                require(errors, source, &at, "name");
                validate_files(source, &at, errors);
            }
            "downwardAPI" => {
                validate_mode(source, "defaultMode", &at, errors);
                // Faults of items are reported at the volume.
                items(source, "items")
                    .iter()
                    .for_each(|file| env::validate_downward_file(file, &at, errors));
            }
            "projected" => projected::validate_projected(source, &at, errors),
            _ => validate_source(kind, source, &at, errors),
        }
    }
    if !found {
        errors.push(Error::required(path, "must specify a volume type"));
    }
}

fn validate_files(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", path, errors);
    let list = path.child("items");
    for (index, item) in items(source, "items").iter().enumerate() {
        validate_key_to_path(item, &list.index(index), errors);
    }
}

/// A key of a map that becomes a file.
pub(super) fn validate_key_to_path(item: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require(errors, item, path, "key");
    if require(errors, item, path, "path") {
        non_reserved_path(errors, text(item, "path"), &path.child("path"));
    }
    validate_mode(item, "mode", path, errors);
}

/// A file's permissions.
pub(super) fn validate_mode(fields: &Value, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(mode) = number(fields, name).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(Error::invalid(&path.child(name), &mode.into(), FILE_MODE));
    }
}
