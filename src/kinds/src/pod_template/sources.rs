//! Validation of the sources that volumes of pods can have, but for those that are made of files.
//! Persistent volumes have most of them too.

use serde_json::{Map, Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    meta::validate_annotations,
    names,
    selector::validate_labels,
};

use super::check::{
    descending_path, no_backsteps, number, one_of_if_set, push_invalid, quantity, require, require_valid, valid_if_set,
};
use crate::{
    values::{entries, items, text},
    volumes::claim_spec::{ClaimOptions, validate_persistent_volume_claim_spec},
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
/// Fields of metadata and how errors name them: Go's names with a small beginning.
const NOT_FOR_TEMPLATES: [(&str, &str); 13] = [
    ("name", "name"),
    ("generateName", "generateName"),
    ("namespace", "namespace"),
    ("selfLink", "selfLink"),
    ("uid", "uID"),
    ("resourceVersion", "resourceVersion"),
    ("generation", "generation"),
    ("creationTimestamp", "creationTimestamp"),
    ("deletionTimestamp", "deletionTimestamp"),
    ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
    ("ownerReferences", "ownerReferences"),
    ("finalizers", "finalizers"),
    ("managedFields", "managedFields"),
];
const MAX_TENANT: usize = 64;
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
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "azureDisk" => &["diskName", "diskURI"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        _ => &[],
    }
}

/// The field that errors of a source are reported at.
pub(crate) fn source_path(kind: &str) -> &str {
    match kind {
        "gcePersistentDisk" => "persistentDisk",
        kind => kind,
    }
}

/// Validates one source of a pod's or a persistent volume (`validateVolumeSource`).
pub(crate) fn validate_volume_source(kind: &str, source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in required(kind) {
        require(source, path, field, errors);
    }
    match kind {
        "emptyDir" if source.get("sizeLimit").is_some_and(|limit| quantity(limit).value() < 0) => {
            let detail = "SizeLimit field must be a valid resource quantity";
            errors.push(Error::forbidden(&path.child("sizeLimit"), detail));
        }
        "hostPath" if require(source, path, "path", errors) => {
            no_backsteps(text(source, "path"), &path.child("path"), errors);
            one_of_if_set(source, path, "type", &HOST_PATH_TYPES, errors);
        }
        "gitRepo" => descending_path(text(source, "directory"), &path.child("directory"), errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            if let Some(part) = number(source, "partition").filter(|part| !(0..=255).contains(part)) {
                let detail = "must be between 1 and 255, inclusive";
                errors.push(Error::invalid(&path.child("partition"), &part.into(), detail));
            }
        }
        "nfs" => {
            let target = text(source, "path");
            if !target.starts_with('/') {
                errors.push(Error::invalid_str(
                    &path.child("path"),
                    target,
                    "must be an absolute path",
                ));
            }
        }
        "flocker" => validate_flocker_volume_source(source, path, errors),
        "rbd" | "cephfs" => {
            if items(source, "monitors").is_empty() {
                errors.push(Error::required(&path.child("monitors"), ""));
            }
            if kind == "rbd" {
                require(source, path, "image", errors);
            }
        }
        "fc" => validate_fc_volume_source(source, path, errors),
        "azureDisk" => validate_azure_disk(source, path, errors),
        "csi" => validate_csi_volume_source(source, path, errors),
        "ephemeral" => validate_ephemeral_volume_source(source, path, errors),
        "cinder" => require_secret_name(source, path, errors),
        "quobyte" => validate_quobyte_volume_source(source, path, errors),
        "flexVolume" => validate_flex_volume_source(source, path, errors),
        "storageos" => validate_storage_os_volume_source(source, path, errors),
        _ => {}
    }
}

fn require_secret_name(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(secret) = source.get("secretRef") {
        require(secret, &path.child("secretRef"), "name", errors);
    }
}

/// As upstream's `validateQuobyteVolumeSource`.
fn validate_quobyte_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let registry = text(source, "registry");
    let hosts = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        errors.push(Error::required(&path.child("registry"), hosts));
    } else if text(source, "tenant").len() > MAX_TENANT {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(Error::required(&path.child("tenant"), detail));
    } else {
        let odd = registry.split(',').filter(|pair| !is_host_port(pair));
        errors.extend(odd.map(|_| Error::invalid_str(&path.child("registry"), registry, hosts)));
    }
    require(source, path, "volume", errors);
}

/// `host:port`, with an IPv6 address in brackets; neither part is looked at.
fn is_host_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest
            .split_once("]:")
            .is_some_and(|(host, port)| !host.contains(['[', ']']) && !port.contains([':', '[', ']'])),
        None => pair
            .split_once(':')
            .is_some_and(|(host, port)| !port.contains([':', '[', ']']) && !host.contains(['[', ']'])),
    }
}

/// Kubernetes' own domains are reserved (`validateFlexVolumeSource`).
fn validate_flex_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let options = path.child("options");
    for (key, _) in entries(source, "options") {
        let domain = key.split('/').next().unwrap_or_default().to_lowercase();
        let domain = format!(".{domain}");
        if [".kubernetes.io", ".k8s.io"]
            .iter()
            .any(|reserved| domain.ends_with(reserved))
        {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(Error::invalid_str(&options.key(key), key, detail));
        }
    }
}

/// As upstream's `validateStorageOSVolumeSource`.
fn validate_storage_os_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require_valid(source, path, "volumeName", names::dns1123_label, errors);
    valid_if_set(source, path, "volumeNamespace", names::dns1123_label, errors);
    require_secret_name(source, path, errors);
}

pub(super) fn validate_lun(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if let Some(lun) = number(source, "lun").filter(|lun| !(0..=255).contains(lun)) {
        let detail = "must be between 0 and 255, inclusive";
        errors.push(Error::invalid(&path.child("lun"), &lun.into(), detail));
    }
}

/// As upstream's `validateFlockerVolumeSource`.
fn validate_flocker_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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

/// As upstream's `validateFCVolumeSource`.
fn validate_fc_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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

/// As upstream's `validateAzureDisk`.
fn validate_azure_disk(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    one_of_if_set(source, path, "cachingMode", &CACHING_MODES, errors);
    one_of_if_set(source, path, "kind", &DISK_KINDS, errors);
    let uri = text(source, "diskURI");
    let (given, managed) = (source.get("kind").is_some(), text(source, "kind") == "Managed");
    let path = path.child("diskURI");
    if managed && !uri.starts_with("/subscriptions/") {
        errors.push(Error::not_supported(
            &path,
            uri,
            &["/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"],
        ));
    }
    if given && !managed && !uri.starts_with("https://") {
        errors.push(Error::not_supported(
            &path,
            uri,
            &["https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"],
        ));
    }
}

/// As upstream's `validateCSIVolumeSource`.
fn validate_csi_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(text(source, "driver"), &path.child("driver"), errors);
    let Some(secret) = source.get("nodePublishSecretRef") else {
        return;
    };
    let name = text(secret, "name");
    if require(secret, &path.child("nodePublishSecretRef"), "name", errors) {
        push_invalid(&path.child("name"), name, names::dns1123_subdomain(name), errors);
    }
}

/// The name of a CSI driver (`ValidateCSIDriverName`).
pub(crate) fn validate_csi_driver_name(driver: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if driver.is_empty() {
        errors.push(Error::required(path, ""));
        return;
    }
    if driver.len() > names::DNS1123_LABEL_MAX_LENGTH {
        errors.push(Error::too_long(path, names::DNS1123_LABEL_MAX_LENGTH));
    }
    push_invalid(path, driver, names::dns1123_subdomain(&driver.to_lowercase()), errors);
}

/// A claim that is made for the pod (`validateEphemeralVolumeSource`).
fn validate_ephemeral_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let path = path.child("volumeClaimTemplate");
    let Some(template) = source.get("volumeClaimTemplate") else {
        errors.push(Error::required(&path, ""));
        return;
    };
    validate_template_object_meta(template, &path.child("metadata"), errors);
    let spec = template
        .get("spec")
        .cloned()
        .unwrap_or_else(|| Value::Object(Map::new()));
    errors.extend(validate_persistent_volume_claim_spec(
        &spec,
        ClaimOptions::default(),
        &path.child("spec"),
    ));
}

/// Of the metadata of a claim that is to be made only labels and annotations may be given.
/// Upstream: `ValidateTemplateObjectMeta`.
pub(crate) fn validate_template_object_meta(template: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let Some(metadata) = template.get("metadata") else {
        return;
    };
    let map = |field: &str| metadata.get(field).and_then(Value::as_object);
    errors.extend(validate_annotations(map("annotations"), &path.child("annotations")));
    errors.extend(validate_labels(map("labels"), &path.child("labels")));
    for (field, shown) in NOT_FOR_TEMPLATES {
        let is_set = match metadata.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(number) if field == "generation" => *number != json!(0),
            Some(_) => true,
        };
        if is_set {
            errors.push(Error::forbidden(&path.child(shown), "cannot be set"));
        }
    }
}
