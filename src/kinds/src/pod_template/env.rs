//! Validation of containers' environment and of references to fields and resources.

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    names,
};

use super::check::{
    no_backsteps, non_reserved_path, push_invalid, require, require_valid, valid_if_set, visit_containers,
};
use crate::values::{at, items, text};

const ENV_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const SIZE_DIVISORS: [&str; 13] = [
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
];

/// Single variables (`ValidateEnv`).
pub(super) fn validate_env(features: Features, container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, variable) in items(container, "env").iter().enumerate() {
        let path = path.index(index);
        require_valid(variable, &path, "name", names::env_var_name, errors);
        if let Some(source) = variable.get("valueFrom") {
            let value = text(variable, "value");
            validate_env_var_value_from(features, source, value, &path.child("valueFrom"), errors);
        }
    }
}

/// Variables of whole maps (`ValidateEnvFrom`).
pub(super) fn validate_env_from(container: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for (index, source) in items(container, "envFrom").iter().enumerate() {
        let at = path.index(index);
        valid_if_set(source, &at, "prefix", names::env_var_name, errors);
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            if let Some(reference) = source.get(field) {
                sources += 1;
                // Read as the beginning of a name.
                require_valid(
                    reference,
                    &at.child(field),
                    "name",
                    |name| names::name_is_dns_subdomain(name, true),
                    errors,
                );
            }
        }
        match sources {
            0 => errors.push(Error::invalid_str(
                path,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            1 => {}
            _ => errors.push(Error::invalid_str(
                path,
                "",
                "may not have more than one field specified at a time",
            )),
        }
    }
}

/// As upstream's `validateEnvVarValueFrom`.
fn validate_env_var_value_from(
    features: Features,
    source: &Value,
    value: &str,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let mut sources = 0;
    for field in [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ] {
        let Some(reference) = source.get(field) else { continue };
        sources += 1;
        let path = path.child(field);
        match field {
            "fieldRef" => validate_object_field_selector(reference, &ENV_FIELDS, &path, errors),
            "resourceFieldRef" => validate_container_resource_field_selector(reference, false, &path, errors),
            "fileKeyRef" => validate_file_key_selector(reference, &path, errors),
            _ => {
                let name = text(reference, "name");
                push_invalid(&path.child("name"), name, names::dns1123_subdomain(name), errors);
                require_valid(reference, &path, "key", names::config_map_key, errors);
            }
        }
    }
    if sources == 0 {
        let detail = match features.has(Feature::EnvFiles) {
            true => {
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
            }
            false => "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
        };
        errors.push(Error::invalid_str(path, "", detail));
    } else if !value.is_empty() {
        errors.push(Error::invalid_str(
            path,
            "",
            "may not be specified when `value` is not empty",
        ));
    } else if sources > 1 {
        errors.push(Error::invalid_str(
            path,
            "",
            "may not have more than one field specified at a time",
        ));
    }
}

/// As upstream's `validateFileKeySelector`.
fn validate_file_key_selector(reference: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require_valid(reference, path, "key", names::env_var_name, errors);
    require_valid(reference, path, "volumeName", names::dns1123_label, errors);
    if require(reference, path, "path", errors) {
        no_backsteps(text(reference, "path"), &path.child("path"), errors);
    }
}

/// Files of variables are read from volumes that live with the pod (`validateFileKeyRefVolumes`).
pub(super) fn validate_file_key_ref_volumes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    visit_containers(spec, path, |container, path| {
        let list = path.child("env");
        for (index, variable) in items(container, "env").iter().enumerate() {
            let Some(reference) = at(variable, "/valueFrom/fileKeyRef") else {
                continue;
            };
            let at = list.index(index);
            let at = at.child("valueFrom.fileKeyRef.volumeName");
            let name = text(reference, "volumeName");
            // Of several with one name the last one counts.
            match items(spec, "volumes")
                .iter()
                .rfind(|volume| text(volume, "name") == name)
            {
                None => errors.push(Error::not_found(&at, &name.into())),
                Some(volume) if volume.get("emptyDir").is_none() => {
                    let detail = "referenced volume must be of type emptyDir";
                    errors.push(Error::invalid_str(&at, name, detail));
                }
                Some(_) => {}
            }
        }
    });
}

/// A file of a downward API volume (`validateDownwardAPIVolumeFile`).
pub(super) fn validate_downward_api_volume_file(file: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    if require(file, path, "path", errors) {
        non_reserved_path(text(file, "path"), &path.child("path"), errors);
    }
    match (file.get("fieldRef"), file.get("resourceFieldRef")) {
        (Some(field), other) => {
            validate_object_field_selector(field, &VOLUME_FIELDS, &path.child("fieldRef"), errors);
            if other.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(Error::invalid_str(path, "resource", detail));
            }
        }
        (None, Some(resource)) => {
            validate_container_resource_field_selector(resource, true, &path.child("resourceFieldRef"), errors)
        }
        (None, None) => errors.push(Error::required(
            path,
            "one of fieldRef and resourceFieldRef is required",
        )),
    }
    if let Some(mode) = super::check::number(file, "mode").filter(|mode| !(0..=0o777).contains(mode)) {
        errors.push(Error::invalid(
            &path.child("mode"),
            &mode.into(),
            super::volumes::FILE_MODE,
        ));
    }
}

/// As upstream's `validateObjectFieldSelector`.
fn validate_object_field_selector(reference: &Value, fields: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    if !require(reference, path, "apiVersion", errors) || !require(reference, path, "fieldPath", errors) {
        return;
    }
    let (version, given) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    let subscripted = given.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    let known = match subscripted {
        Some((field, _)) => matches!(field, "metadata.annotations" | "metadata.labels"),
        None => KNOWN_FIELDS.contains(&given) || given == "spec.host",
    };
    let error = if version != "v1" {
        Some(format!("unsupported pod version: {version}"))
    } else if !known {
        Some(match subscripted {
            Some(_) => format!("field label does not support subscript: {given}"),
            None => format!("field label not supported: {given}"),
        })
    } else {
        None
    };
    if let Some(error) = error {
        let detail = format!("error converting fieldPath: {error}");
        errors.push(Error::invalid_str(&path.child("fieldPath"), given, &detail));
        return;
    }
    match subscripted {
        Some(("metadata.annotations", key)) => {
            push_invalid(path, key, names::qualified_name(&key.to_lowercase()), errors);
        }
        Some((_, key)) => push_invalid(path, key, names::qualified_name(key), errors),
        None => {
            let field = if given == "spec.host" { "spec.nodeName" } else { given };
            if !fields.contains(&field) {
                errors.push(Error::not_supported(&path.child("fieldPath"), field, fields));
            }
        }
    }
}

/// As upstream's `validateContainerResourceFieldSelector`.
fn validate_container_resource_field_selector(
    reference: &Value,
    in_volume: bool,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    let resource = text(reference, "resource");
    let huge = ["limits.hugepages-", "requests.hugepages-"]
        .iter()
        .any(|prefix| resource.starts_with(prefix));
    if in_volume && text(reference, "containerName").is_empty() {
        errors.push(Error::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(Error::required(&path.child("resource"), ""));
    } else if !huge && !RESOURCES.contains(&resource) {
        errors.push(Error::not_supported(&path.child("resource"), resource, &RESOURCES));
    }
    let divisor = text(reference, "divisor");
    if matches!(divisor, "" | "0") {
        return;
    }
    let (allowed, listed, named): (&[&str], _, _) = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => (&["1m", "1"], "1m and 1".to_owned(), "cpu"),
        Some("memory") => (&SIZE_DIVISORS, SIZE_DIVISORS.join(", "), "memory"),
        Some("ephemeral-storage") => (&SIZE_DIVISORS, SIZE_DIVISORS.join(", "), "local ephemeral storage"),
        Some(_) if huge => (&SIZE_DIVISORS, SIZE_DIVISORS.join(", "), "hugepages"),
        _ => return,
    };
    if !allowed.contains(&divisor) {
        let detail = format!("only divisor's values {listed} are supported with the {named} resource");
        errors.push(Error::invalid_str(&path.child("divisor"), resource, &detail));
    }
}
