//! Validation of the sources that volumes of pods can have, but for those that are made of files.
//! Persistent volumes have most of them too.

use serde_json::{Map, Value};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};

use super::{
    check::{descending_path, no_backsteps, number, one_of_if_set, push_invalid, quantity, require},
    containers::PULL_POLICIES,
};
use crate::{
    core::persistentvolumeclaims::validate_claim_spec,
    values::{items, text},
};

const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
const CACHING_MODES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
const DISK_KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];

/// The fields that must not be empty, by the kind of source.
fn required(kind: &str) -> &'static [&'static str] {
    match kind {
        "gitRepo" => &["repository"],
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => &["volumeID"],
        "nfs" => &["server", "path"],
        "glusterfs" => &["endpoints", "path"],
        "persistentVolumeClaim" => &["claimName"],
        "quobyte" => &["registry", "volume"],
        "flexVolume" | "csi" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "azureDisk" => &["diskName", "diskURI"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        "image" => &["reference"],
        _ => &[],
    }
}

/// Faults of one source.
pub(crate) fn validate_source(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in required(kind) {
        require(errors, source, path, field);
    }
    match kind {
        "emptyDir" if source.get("sizeLimit").is_some_and(|limit| quantity(limit).value() < 0) => {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.push(Error::forbidden(&path.child("sizeLimit"), detail));
        }
        "hostPath" if require(errors, source, path, "path") => {
            no_backsteps(errors, text(source, "path"), &path.child("path"));
            one_of_if_set(errors, source, path, "type", &HOST_PATH_TYPES);
        }
        "gitRepo" => descending_path(errors, text(source, "directory"), &path.child("directory")),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            if let Some(part) = number(source, "partition").filter(|part| !(0..=255).contains(part)) {
                let detail = "must be between 1 and 255, inclusive";
                errors.push(Error::invalid(&path.child("partition"), &part.into(), detail));
            }
        }
        "nfs" => {
            let target = text(source, "path");
            if !target.is_empty() && !target.starts_with('/') {
                errors.push(Error::invalid_str(
                    &path.child("path"),
                    target,
                    "must be an absolute path",
                ));
            }
        }
        "iscsi" => validate_iscsi(source, path, errors),
        "flocker" => validate_flocker(source, path, errors),
        "rbd" | "cephfs" => {
            if items(source, "monitors").is_empty() {
                errors.push(Error::required(&path.child("monitors"), ""));
            }
            if kind == "rbd" {
                require(errors, source, path, "image");
            }
        }
        "fc" => validate_fc(source, path, errors),
        "azureDisk" => validate_azure_disk(source, path, errors),
        "csi" => validate_csi(source, path, errors),
        "ephemeral" => validate_ephemeral(source, path, errors),
        "image" if !text(source, "pullPolicy").is_empty() => {
            one_of_if_set(errors, source, path, "pullPolicy", &PULL_POLICIES);
        }
        _ => {}
    }
}

fn validate_lun(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(lun) = number(source, "lun").filter(|lun| !(0..=255).contains(lun)) {
        let detail = "must be between 0 and 255, inclusive";
        errors.push(Error::invalid(&path.child("lun"), &lun.into(), detail));
    }
}

fn validate_iscsi(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require(errors, source, path, "targetPortal");
    if require(errors, source, path, "iqn") {
        let name = text(source, "iqn");
        let is_valid = match name.split(['.', ':']).next() {
            Some("iqn") => is_iqn(name),
            _ => ["eui.", "naa."].iter().any(|prefix| {
                name.strip_prefix(prefix)
                    .is_some_and(|id| matches!(id.len(), 16 | 32) && id.chars().all(|c| c.is_ascii_hexdigit()))
            }),
        };
        if !is_valid {
            errors.push(Error::invalid_str(&path.child("iqn"), name, "must be valid format"));
        }
    }
    validate_lun(source, path, errors);
    for field in ["chapAuthDiscovery", "chapAuthSession"] {
        if source.get(field) == Some(&Value::Bool(true)) && source.get("secretRef").is_none() {
            errors.push(Error::required(&path.child("secretRef"), ""));
        }
    }
    if let Some(secret) = source.get("secretRef") {
        require(errors, secret, &path.child("secretRef"), "name");
    }
}

/// `iqn.2001-04.com.example:storage`
fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let is_date = date.len() == 7
        && date
            .char_indices()
            .all(|(at, c)| if at == 4 { c == '-' } else { c.is_ascii_digit() });
    let authority = rest.split(':').next().unwrap_or_default();
    is_date
        && !authority.is_empty()
        && authority
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_'))
}

fn validate_flocker(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.push(Error::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(Error::invalid_str(path, "resource", detail));
    }
    if name.contains('/') {
        errors.push(Error::invalid_str(
            &path.child("datasetName"),
            name,
            "must not contain '/'",
        ));
    }
}

fn validate_fc(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (targets, ids) = (items(source, "targetWWNs"), items(source, "wwids"));
    let targets_path = path.child("targetWWNs");
    match (targets.is_empty(), ids.is_empty()) {
        (true, true) => {
            let detail = "must specify either targetWWNs or wwids, but not both";
            errors.push(Error::required(&targets_path, detail));
        }
        (false, false) => {
            let detail = "targetWWNs and wwids can not be specified simultaneously";
            errors.push(Error::invalid(&targets_path, &targets.to_vec().into(), detail));
        }
        _ => {}
    }
    if !targets.is_empty() {
        if number(source, "lun").is_none() {
            errors.push(Error::required(
                &path.child("lun"),
                "lun is required if targetWWNs is specified",
            ));
        }
        validate_lun(source, path, errors);
    }
}

fn validate_azure_disk(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    one_of_if_set(errors, source, path, "cachingMode", &CACHING_MODES);
    one_of_if_set(errors, source, path, "kind", &DISK_KINDS);
    let uri = text(source, "diskURI");
    let managed = text(source, "kind") == "Managed";
    let is_managed_uri = uri.to_lowercase().starts_with("/subscriptions/");
    let path = path.child("diskURI");
    if managed && !is_managed_uri {
        errors.push(Error::not_supported(
            &path,
            uri,
            &["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"],
        ));
    }
    if !managed && is_managed_uri {
        errors.push(Error::not_supported(
            &path,
            uri,
            &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"],
        ));
    }
}

fn validate_csi(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let driver = text(source, "driver");
    if !driver.is_empty() {
        let at = path.child("driver");
        if driver.len() > names::DNS1123_LABEL_MAX_LENGTH {
            errors.push(Error::too_long(&at, names::DNS1123_LABEL_MAX_LENGTH));
        }
        push_invalid(errors, &at, driver, names::dns1123_subdomain(&driver.to_lowercase()));
    }
    if let Some(secret) = source.get("nodePublishSecretRef") {
        require(errors, secret, &path.child("nodePublishSecretRef"), "name");
    }
}

/// A claim that is made for the pod.
fn validate_ephemeral(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = source.get("volumeClaimTemplate") else {
        errors.push(Error::required(&path, ""));
        return;
    };
    let spec = template
        .get("spec")
        .cloned()
        .unwrap_or_else(|| Value::Object(Map::new()));
    errors.extend(validate_claim_spec(&spec, &path.child("spec")));
}
