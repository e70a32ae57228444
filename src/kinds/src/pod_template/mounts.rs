//! Validation of volume mounts and devices of containers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::{
    check::{descending_path, is_true, one_of_if_set, require},
    spec::Volumes,
};
use crate::values::{items, text};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
const RECURSIVE_READ_ONLY: [&str; 3] = ["Disabled", "Enabled", "IfPossible"];

/// Of several with one name the last one counts.
fn paths_by_name<'a>(container: &'a Value, list: &str, path: &str) -> BTreeMap<&'a str, &'a str> {
    items(container, list)
        .iter()
        .map(|item| (text(item, "name"), text(item, path)))
        .collect()
}

/// Validates the mounts of file systems (`ValidateVolumeMounts`).
pub(super) fn validate_volume_mounts(
    container: &Value,
    volumes: &Volumes<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let devices = paths_by_name(container, "volumeDevices", "devicePath");
    let mut seen = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        let (name_path, target_path) = (at.child("name"), at.child("mountPath"));
        require(mount, &at, "name", errors);
        if !volumes.contains_key(name) {
            errors.push(Error::not_found(&name_path, &name.into()));
        }
        require(mount, &at, "mountPath", errors);
        if !seen.insert(target) {
            errors.push(Error::invalid_str(&target_path, target, "must be unique"));
        }
        if devices.contains_key(name) {
            errors.push(Error::invalid_str(
                &name_path,
                name,
                "must not already exist in volumeDevices",
            ));
        }
        if devices.values().any(|device| *device == target) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(Error::invalid_str(&target_path, target, detail));
        }
        validate_volume_mount(container, mount, path, &at, errors);
    }
}

/// Validates one mount beyond its name and path. Some errors are reported at the list, others at the item.
fn validate_volume_mount(container: &Value, mount: &Value, list: &Path<'_>, at: &Path<'_>, errors: &mut ErrorList) {
    let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    descending_path(sub_path, &list.child("subPath"), errors);
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(Error::invalid_str(&at.child("subPathExpr"), expression, detail));
        }
        descending_path(expression, &list.child("subPathExpr"), errors);
    }
    one_of_if_set(mount, list, "mountPropagation", &PROPAGATIONS, errors);
    let propagation = text(mount, "mountPropagation");
    let privileged = container
        .get("securityContext")
        .is_some_and(|context| is_true(context, "privileged"));
    if propagation == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(Error::forbidden(&list.child("mountPropagation"), detail));
    }
    let path = list.child("recursiveReadOnly");
    if matches!(text(mount, "recursiveReadOnly"), "Enabled" | "IfPossible") {
        if !is_true(mount, "readOnly") {
            errors.push(Error::forbidden(&path, "may only be specified when readOnly is true"));
        }
        if !matches!(propagation, "" | "None") {
            let detail = "may only be specified when mountPropagation is None or not specified";
            errors.push(Error::forbidden(&path, detail));
        }
    }
    one_of_if_set(mount, list, "recursiveReadOnly", &RECURSIVE_READ_ONLY, errors);
}

/// Validates the paths of raw devices (`ValidateVolumeDevices`).
pub(super) fn validate_volume_devices(
    container: &Value,
    volumes: &Volumes<'_>,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mounts = paths_by_name(container, "volumeMounts", "mountPath");
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in items(container, "volumeDevices").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(device, "name"), text(device, "devicePath"));
        let (name_path, target_path) = (at.child("name"), at.child("devicePath"));
        require(device, &at, "name", errors);
        if !name.is_empty() && !names.insert(name) {
            errors.push(Error::invalid_str(&name_path, name, "must be unique"));
        }
        match volumes.get(name) {
            Some(volume)
                if ["persistentVolumeClaim", "ephemeral"]
                    .iter()
                    .all(|kind| volume.get(kind).is_none()) =>
            {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(Error::invalid_str(&name_path, name, detail));
            }
            Some(_) => {}
            None => errors.push(Error::not_found(&name_path, &name.into())),
        }
        require(device, &at, "devicePath", errors);
        if paths.contains(target) {
            errors.push(Error::invalid_str(&target_path, target, "must be unique"));
        }
        if target.split('/').any(|part| part == "..") {
            errors.push(Error::invalid_str(
                &target_path,
                target,
                "can not contain backsteps ('..')",
            ));
        } else {
            paths.insert(target);
        }
        if mounts.contains_key(name) {
            errors.push(Error::invalid_str(
                &name_path,
                name,
                "must not already exist in volumeMounts",
            ));
        }
        if mounts.values().any(|mount| *mount == target) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.push(Error::invalid_str(&target_path, target, detail));
        }
    }
}
