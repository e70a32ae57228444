//! Checks that persistent volumes, their claims and the volumes of pods share.

pub(crate) mod claim_spec;

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use crate::{
    checks::quantity,
    values::{items, text_at},
};

pub(crate) const STORAGE: &str = "storage";
pub(crate) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
pub(crate) const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const SINGLE_POD: &str = "ReadWriteOncePod";
/// Sources of volumes that are on their way out, and how they are named.
const DEPRECATED_SOURCES: [(&str, &str, &str); 9] = [
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Access modes that are unknown or do not go together.
pub(crate) fn validate_access_modes(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("accessModes");
    let modes = || items(spec, "accessModes").iter().filter_map(Value::as_str);
    for mode in modes().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(Error::not_supported(&at, mode, &ACCESS_MODES));
    }
    let is_other = |mode: &str| mode != SINGLE_POD && ACCESS_MODES.contains(&mode);
    if modes().any(|mode| mode == SINGLE_POD) && modes().any(is_other) {
        errors.push(Error::forbidden(
            &at,
            "may not use ReadWriteOncePod with other access modes",
        ));
    }
}

/// The warning about a deprecated source of a volume; `path` is where the volume or its spec stands.
pub(crate) fn deprecated_source_warnings(volume: &Value, path: &str) -> impl Iterator<Item = String> {
    DEPRECATED_SOURCES
        .iter()
        .filter(|(source, ..)| volume.get(source).is_some())
        .map(move |(_, shown, advice)| format!("{path}.{shown}: {advice}"))
}

/// A negative amount is no valid resource (`validateBasicResource`).
pub(crate) fn validate_basic_resource(value: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let amount = quantity(value).value();
    if amount < 0 {
        errors.push(Error::invalid(
            path,
            &amount.into(),
            "must be a valid resource quantity",
        ));
    }
}

/// `RWO,ROX`: the modes in the order in which kubectl names them.
pub(crate) fn access_modes_text(holder: &Value) -> String {
    const SHORT: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        (SINGLE_POD, "RWOP"),
    ];
    let modes = items(holder, "accessModes");
    let present = SHORT.iter().filter(|(mode, _)| modes.iter().any(|given| given == mode));
    present.map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

/// The storage class: the old annotation wins over the field.
pub(crate) fn class_of(object: &Value) -> &str {
    let annotation = object
        .pointer("/metadata/annotations")
        .and_then(|all| all.get(BETA_CLASS))
        .and_then(Value::as_str);
    annotation.unwrap_or_else(|| text_at(object, "/spec/storageClassName"))
}

/// The phase, as long as the object is not going.
pub(crate) fn phase(object: &Value) -> Value {
    let is_going = object.pointer("/metadata/deletionTimestamp").is_some();
    Value::from(if is_going {
        "Terminating"
    } else {
        text_at(object, "/status/phase")
    })
}

/// The volume attributes class.
pub(crate) fn attributes_class(object: &Value) -> Value {
    Value::from(
        object
            .pointer("/spec/volumeAttributesClassName")
            .and_then(Value::as_str)
            .unwrap_or("<unset>"),
    )
}

/// The volume mode.
pub(crate) fn mode(object: &Value) -> Value {
    Value::from(
        object
            .pointer("/spec/volumeMode")
            .and_then(Value::as_str)
            .unwrap_or("<unset>"),
    )
}

/// The warning about a class in the deprecated annotation.
pub(crate) fn class_annotation_warnings(object: &Value) -> Vec<String> {
    let annotations = object.pointer("/metadata/annotations");
    let is_there = annotations.is_some_and(|annotations| annotations.get(BETA_CLASS).is_some());
    let text = format!(
        "metadata.annotations[{BETA_CLASS}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
    );
    is_there.then_some(text).into_iter().collect()
}
