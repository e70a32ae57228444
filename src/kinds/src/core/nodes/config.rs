//! The sources of a kubelet's configuration, which is no longer taken from the API: stored ones may stay and change.

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};

use crate::{
    checks::{push_invalid, require},
    values::{remove, text},
};

/// Finds the errors of a name.
type SourceCheck = fn(&str) -> Vec<String>;

const ONE_REFERENCE: &str = "exactly one reference subfield must be non-nil";
/// `core.NodeConfigSource`, of which none is shown that has a map.
const SOURCE: &[PrintedField] = &[("ConfigMap", "configMap", PrintedShape::Plain)];

/// Drops the source in the spec, unless the old node has one.
pub(super) fn drop_source(object: &mut Value, old: Option<&Value>) {
    drop_unless_used(object, old, "spec", "configSource");
}

/// Drops the configurations in the status, unless the old node has such.
pub(super) fn drop_status(object: &mut Value, old: Option<&Value>) {
    drop_unless_used(object, old, "status", "config");
}

fn drop_unless_used(object: &mut Value, old: Option<&Value>, part: &str, field: &str) {
    let is_used = old.is_some_and(|old| old.get(part).is_some_and(|part| part.get(field).is_some()));
    if let Some(part) = object.get_mut(part).filter(|_| !is_used) {
        remove(part, field);
    }
}

/// The errors of the sources in spec and status.
pub(super) fn validate_node_config(node: &Value, errors: &mut ErrorList) {
    if let Some(source) = node.pointer("/spec/configSource") {
        validate_source(source, &Path::new("spec.configSource"), refuse_identity, errors);
    }
    let Some(config) = node.pointer("/status/config") else {
        return;
    };
    let path = Path::new("status.config");
    for field in ["assigned", "active", "lastKnownGood"] {
        if let Some(source) = config.get(field) {
            validate_source(source, &path.child(field), require_identity, errors);
        }
    }
}

/// As upstream's `validateNodeConfigSourceSpec` and `validateNodeConfigSourceStatus`, which differ in the `identity`
/// of a map.
fn validate_source(
    source: &Value,
    path: &Path<'_>,
    identity: fn(&Value, &Path<'_>, &mut ErrorList),
    errors: &mut ErrorList,
) {
    let Some(map) = source.get("configMap").filter(|map| !map.is_null()) else {
        let shown = structs::compact(Some(source), PrintedShape::Struct(SOURCE));
        errors.push(Error::invalid_shown(path, shown, ONE_REFERENCE));
        return;
    };
    let path = path.child("configMap");
    identity(map, &path, errors);
    let checks: [(&str, SourceCheck); 3] = [
        ("namespace", names::dns1123_label),
        ("name", names::dns1123_subdomain),
        ("kubeletConfigKey", names::config_map_key),
    ];
    for (field, check) in checks {
        let value = text(map, field);
        if value.is_empty() {
            errors.push(Error::required(&path.child(field), ""));
        } else {
            push_invalid(&path.child(field), value, check(value), errors);
        }
    }
}

fn refuse_identity(map: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    for field in ["uid", "resourceVersion"] {
        if !text(map, field).is_empty() {
            let detail = format!("{field} must not be set in spec");
            errors.push(Error::forbidden(&path.child(field), &detail));
        }
    }
}

fn require_identity(map: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    require(map, path, "uid", errors);
    require(map, path, "resourceVersion", errors);
}
