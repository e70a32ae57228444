//! PersistentVolumes (`pkg/registry/core/persistentvolume`).

mod internals;
mod sources;
mod spec;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use trireme_machinery::{
    Feature, Features,
    field::{Error, ErrorList, Path},
    go_text::{
        diff,
        structs::{self, PrintedShape},
    },
    meta,
};
use trireme_registry::{Strategy, WriteContext, strategy::MetadataChecks};

use crate::{
    columns::{self, column, described, documented, wide},
    kind::Kind,
    pod_template::has_invalid_node_selector_value,
    values::{entries, items, keep_field, remove, set_default, struct_mut, text, text_at},
    volumes::{self, access_modes_text, class_of},
};
use internals::{NODE_AFFINITY, SOURCE};

pub(crate) use internals::shown_spec;
pub(crate) use spec::validate_inline;

const SPEC: &str = "io.k8s.api.core.v1.PersistentVolumeSpec";
const STATUS: &str = "io.k8s.api.core.v1.PersistentVolumeStatus";
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const TRANSITION: &str = "lastPhaseTransitionTime";

/// The kind's parts.
pub(crate) fn kind(features: Features) -> Kind {
    let capacity = |object: &Value| {
        Value::from(
            object
                .pointer("/spec/capacity/storage")
                .and_then(Value::as_str)
                .unwrap_or("0"),
        )
    };
    let modes = |object: &Value| Value::from(object.get("spec").map(access_modes_text).unwrap_or_default());
    let claim = |object: &Value| match object.pointer("/spec/claimRef") {
        Some(claim) => Value::from(format!("{}/{}", text(claim, "namespace"), text(claim, "name"))),
        None => Value::from(""),
    };
    Kind::new("", "persistentvolumes", PersistentVolumes { features }).columns(vec![
        columns::name(),
        column("Capacity", "string", documented(SPEC, "capacity"), capacity),
        column("Access Modes", "string", documented(SPEC, "accessModes"), modes),
        column(
            "Reclaim Policy",
            "string",
            documented(SPEC, "persistentVolumeReclaimPolicy"),
            |object| Value::from(text_at(object, "/spec/persistentVolumeReclaimPolicy")),
        ),
        column("Status", "string", documented(STATUS, "phase"), volumes::phase),
        column("Claim", "string", documented(SPEC, "claimRef"), claim),
        column(
            "StorageClass",
            "string",
            described("StorageClass of the pv"),
            |object| Value::from(class_of(object)),
        ),
        column(
            "VolumeAttributesClass",
            "string",
            described("VolumeAttributesClass of the pv"),
            volumes::attributes_class,
        ),
        column("Reason", "string", documented(STATUS, "reason"), |object| {
            Value::from(text_at(object, "/status/reason"))
        }),
        columns::age(),
        wide(column(
            "VolumeMode",
            "string",
            documented(SPEC, "volumeMode"),
            volumes::mode,
        )),
    ])
}

struct PersistentVolumes {
    features: Features,
}

impl Strategy for PersistentVolumes {
    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfNewTwice
    }

    fn default(&self, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_default(spec, "volumeMode", "Filesystem");
    }

    fn prepare_for_create(&self, context: &WriteContext, object: &mut Value) {
        object["status"] = json!({ "phase": "Pending", TRANSITION: now(context) });
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        validate_volume(object, false)
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let nodes = old.pointer("/spec/nodeAffinity/required");
        let tolerate_values = nodes.is_some_and(has_invalid_node_selector_value);
        let mut errors = validate_volume(new, tolerate_values);
        // The whole volume is validated again by its own update rules.
        errors.extend(validate_spec(new, tolerate_values));
        validate_persistent_volume_source_update(new, old, &mut errors);
        let mode = |object: &Value| object.pointer("/spec/volumeMode").cloned();
        let (new_mode, old_mode) = (mode(new), mode(old));
        errors.extend(meta::validate_immutable_field(
            new_mode.as_ref(),
            old_mode.as_ref(),
            &Path::new("volumeMode"),
        ));
        if !self.features.has(Feature::MutablePvNodeAffinity) {
            validate_pv_node_affinity(new, old, &mut errors);
        }
        validate_attributes_class_update(new, old, &mut errors);
        errors
    }

    fn prepare_for_status_update(&self, context: &WriteContext, new: &mut Value, old: &Value) {
        trireme_registry::strategy::keep_all_but_status_and_metadata(new, old);
        let phase = text_at(new, "/status/phase").to_owned();
        let time = |object: &Value| object.pointer("/status/lastPhaseTransitionTime").cloned();
        let (new_time, old_time) = (time(new), time(old));
        let is_untouched = new_time.is_none() || new_time == old_time;
        if !is_untouched {
            return;
        }
        let kept = if phase == text_at(old, "/status/phase") {
            old_time
        } else {
            Some(now(context).into())
        };
        let status = struct_mut(new, "status");
        match kept {
            Some(time) => status.insert(TRANSITION.into(), time),
            None => status.remove(TRANSITION),
        };
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = volumes::class_annotation_warnings(new);
        let annotations = new.pointer("/metadata/annotations");
        if annotations.is_some_and(|annotations| annotations.get(MOUNT_OPTIONS).is_some()) {
            warnings.push(format!(
                "metadata.annotations[{MOUNT_OPTIONS}]: deprecated since v1.31; use \"mountOptions\" attribute instead"
            ));
        }
        if let Some(spec) = new.get("spec") {
            warnings.extend(spec::warnings(spec));
        }
        warnings
    }

    fn returns_deleted_object(&self) -> bool {
        true
    }
}

/// The errors of a volume; `tolerate_values` lets its nodes be asked for by values that no label can have.
fn validate_volume(object: &Value, tolerate_values: bool) -> ErrorList {
    let mut errors = validate_spec(object, tolerate_values);
    validate_mount_options(object, &mut errors);
    errors
}

fn validate_spec(object: &Value, tolerate_values: bool) -> ErrorList {
    let none = Value::Null;
    let spec = object.get("spec").unwrap_or(&none);
    let name = text_at(object, "/metadata/name");
    spec::validate(spec, name, tolerate_values, &Path::new("spec"))
}

fn now(context: &WriteContext) -> String {
    trireme_machinery::time::Time::from(context.now).to_string()
}

/// The old annotation for mount options is only for sources that are mounted by options.
fn validate_mount_options(object: &Value, errors: &mut ErrorList) {
    const MOUNTED: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let has_options = object
        .pointer("/metadata/annotations")
        .is_some_and(|all| all.get(MOUNT_OPTIONS).is_some());
    let is_mounted = object
        .get("spec")
        .is_some_and(|spec| MOUNTED.iter().any(|source| spec.get(source).is_some()));
    if has_options && !is_mounted {
        let path = Path::new("metadata.annotations");
        let detail = "may not specify mount options for this volume type";
        errors.push(Error::forbidden(&path.child(MOUNT_OPTIONS), detail));
    }
}

/// A volume stays the volume that it is; only a CSI volume may get its secret for growing later.
fn validate_persistent_volume_source_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let mut new_spec = new.get("spec").cloned().unwrap_or(Value::Null);
    let old_spec = old.get("spec").cloned().unwrap_or(Value::Null);
    let had_secret = old_spec.pointer("/csi/controllerExpandSecretRef").is_some();
    if let Some(csi) = new_spec
        .get_mut("csi")
        .filter(|_| old_spec.get("csi").is_some() && !had_secret)
    {
        remove(csi, "controllerExpandSecretRef");
    }
    let of = |spec: &Value| structs::lines(Some(spec), PrintedShape::Struct(SOURCE));
    let (new_lines, old_lines) = (of(&new_spec), of(&old_spec));
    if new_lines != old_lines {
        let difference = diff::unified(&old_lines, &new_lines);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
        errors.push(Error::forbidden(&Path::new("spec.persistentvolumesource"), &detail));
    }
}

/// Labels of nodes that got new names.
const RENAMED_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// A class can be changed but not taken away.
fn validate_attributes_class_update(new: &Value, old: &Value, errors: &mut ErrorList) {
    let class = "/spec/volumeAttributesClassName";
    if old.pointer(class).is_some() && new.pointer(class).is_none() {
        let detail = "update from non-nil value to nil is forbidden";
        errors.push(Error::forbidden(&Path::new("spec.volumeAttributesClassName"), detail));
    }
}

/// An affinity may be added, and its labels may get their new names (`validatePvNodeAffinity`).
fn validate_pv_node_affinity(new: &Value, old: &Value, errors: &mut ErrorList) {
    let Some(old_affinity) = old.pointer("/spec/nodeAffinity") else {
        return;
    };
    let new_affinity = new.pointer("/spec/nodeAffinity");
    if new_affinity == Some(old_affinity) {
        return;
    }
    let renamed = new_affinity.map(|new_affinity| with_new_labels(old_affinity, new_affinity));
    if renamed.as_ref() != new_affinity || new_affinity.is_none() {
        let shown = structs::compact(new_affinity, PrintedShape::Pointer(NODE_AFFINITY));
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.push(Error::invalid_shown(&Path::new("nodeAffinity"), shown, detail));
    }
}

/// `old`, with the new names of labels where `wanted` has them at the same place.
fn with_new_labels(old: &Value, wanted: &Value) -> Value {
    let mut renamed = old.clone();
    let terms = |affinity: &Value| {
        affinity
            .pointer("/required/nodeSelectorTerms")
            .and_then(Value::as_array)
            .cloned()
    };
    let Some(wanted) = terms(wanted) else { return renamed };
    let Some(Value::Array(terms)) = renamed.pointer_mut("/required/nodeSelectorTerms") else {
        return renamed;
    };
    for (term, wanted) in terms.iter_mut().zip(&wanted) {
        let Some(Value::Array(expressions)) = term.get_mut("matchExpressions") else {
            continue;
        };
        for (expression, wanted) in expressions.iter_mut().zip(items(wanted, "matchExpressions")) {
            let pair = (text(expression, "key"), text(wanted, "key"));
            if RENAMED_LABELS.contains(&pair) {
                let key = pair.1.to_owned();
                expression["key"] = key.into();
            }
        }
    }
    renamed
}

/// Returns true if a map field has entries.
fn has_entries(value: &Value, name: &str) -> bool {
    entries(value, name).next().is_some()
}
