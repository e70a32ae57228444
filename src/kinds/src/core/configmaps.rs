//! ConfigMaps (`pkg/registry/core/configmap`).

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
};
use trireme_registry::{Strategy, WriteContext};

use crate::{
    columns::{self, column, documented},
    kind::Kind,
    values::{entries, is_true_at},
};

const TYPE: &str = "io.k8s.api.core.v1.ConfigMap";
/// The size of all values together.
const MAX_BYTES: usize = 1024 * 1024;

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let count = |object: &Value| Value::from(entries(object, "data").count() + entries(object, "binaryData").count());
    Kind::new(ConfigMaps).columns(vec![
        columns::name(),
        column("Data", "string", documented(TYPE, "data"), count),
        columns::age(),
    ])
}

struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let mut bytes = 0;
        let data = Path::new("data");
        for (key, value) in entries(object, "data") {
            validate_config_map_key(&data.key(key), key, &mut errors);
            if object.get("binaryData").is_some_and(|binary| binary.get(key).is_some()) {
                errors.push(Error::invalid_str(
                    &data.key(key),
                    key,
                    "duplicate of key present in binaryData",
                ));
            }
            bytes += value.as_str().unwrap_or_default().len();
        }
        let binary = Path::new("binaryData");
        for (key, value) in entries(object, "binaryData") {
            validate_config_map_key(&binary.key(key), key, &mut errors);
            bytes += decoded_len(value.as_str().unwrap_or_default());
        }
        if bytes > MAX_BYTES {
            // Kubernetes names the object as a whole by a nameless key.
            errors.push(Error::too_long(&Path::root().key(""), MAX_BYTES));
        }
        errors
    }

    fn validate_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_immutable_data(new, old, &["data", "binaryData"]);
        errors.extend(self.validate(context, new));
        errors
    }
}

/// Validates that an `immutable` config map or secret keeps its data.
pub(super) fn validate_immutable_data(new: &Value, old: &Value, fields: &[&str]) -> ErrorList {
    const DETAIL: &str = "field is immutable when `immutable` is set";
    let mut errors = ErrorList::new();
    if !is_true_at(old, "/immutable") {
        return errors;
    }
    if !is_true_at(new, "/immutable") {
        errors.push(Error::forbidden(&Path::new("immutable"), DETAIL));
    }
    for field in fields {
        if new.get(field) != old.get(field) {
            errors.push(Error::forbidden(&Path::new(field), DETAIL));
        }
    }
    errors
}

/// A key of a config map or secret must be fit for a file name.
pub(super) fn validate_config_map_key(path: &Path<'_>, key: &str, errors: &mut ErrorList) {
    for error in names::config_map_key(key) {
        errors.push(Error::invalid_str(path, key, &error));
    }
}

/// The length of the bytes that a base64 text stands for.
pub(crate) fn decoded_len(base64: &str) -> usize {
    base64.len() / 4 * 3 - base64.bytes().rev().take_while(|byte| *byte == b'=').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_count_decoded_bytes() {
        for (base64, bytes) in [("", 0), ("AA==", 1), ("AAE=", 2), ("AAEC", 3), ("AAECAw==", 4)] {
            assert_eq!(decoded_len(base64), bytes, "{base64}");
        }
    }
}
