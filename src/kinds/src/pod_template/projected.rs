//! Validation of volumes that several sources are projected into.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::field::{Error, ErrorList, Path};

use super::{
    check::{non_reserved_path, number, require},
    env,
    volumes::{validate_key_to_path, validate_mode},
};
use crate::values::{items, text};

const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const KINDS: [&str; 4] = ["secret", "configMap", "downwardAPI", "serviceAccountToken"];

/// The volume and all its sources; no two files may have one path (`validateProjectedVolumeSource`).
pub(super) fn validate_projected_volume_source(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    validate_mode(source, "defaultMode", path, errors);
    let mut paths = BTreeSet::new();
    let sources = path.child("sources");
    for (index, projection) in items(source, "sources").iter().enumerate() {
        let at = sources.index(index);
        let given: Vec<&str> = KINDS
            .into_iter()
            .filter(|kind| projection.get(kind).is_some())
            .collect();
        for kind in &given {
            let Some(part) = projection.get(kind) else { continue };
            let part_path = at.child(kind);
            validate_projection_source(kind, part, &part_path, path, errors);
            for (file, shown) in files(kind, part) {
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(Error::invalid_str(path, shown, "conflicting duplicate paths"));
                }
            }
        }
        if given.len() > 1 {
            errors.push(Error::forbidden(
                &at,
                "may not specify more than 1 volume type per source",
            ));
        }
    }
}

fn validate_projection_source(kind: &str, part: &Value, path: &Path<'_>, volume: &Path<'_>, errors: &mut ErrorList) {
    match kind {
        "secret" | "configMap" => {
            require(part, path, "name", errors);
            let list = path.child("items");
            for (index, item) in items(part, "items").iter().enumerate() {
                validate_key_to_path(item, &list.index(index), errors);
            }
        }
        "downwardAPI" => {
            items(part, "items")
                .iter()
                .for_each(|file| env::validate_downward_api_volume_file(file, path, errors));
        }
        _ => {
            let seconds = number(part, "expirationSeconds").unwrap_or(0);
            let at = path.child("expirationSeconds");
            if seconds < MIN_TOKEN_SECONDS {
                let detail = "may not specify a duration less than 10 minutes";
                errors.push(Error::invalid(&at, &seconds.into(), detail));
            }
            if seconds > MAX_TOKEN_SECONDS {
                let detail = "may not specify a duration larger than 2^32 seconds";
                errors.push(Error::invalid(&at, &seconds.into(), detail));
            }
            if require(part, volume, "path", errors) {
                non_reserved_path(text(part, "path"), &volume.child("path"), errors);
            }
        }
    }
}

/// The files that a source makes, and what an error shows of it. A token may take another source's place.
fn files<'a>(kind: &str, part: &'a Value) -> Vec<(&'a str, &'a str)> {
    match kind {
        "secret" | "configMap" => items(part, "items")
            .iter()
            .map(|item| (text(item, "path"), text(part, "name")))
            .collect(),
        "downwardAPI" => items(part, "items")
            .iter()
            .map(|item| (text(item, "path"), text(item, "path")))
            .collect(),
        _ => Vec::new(),
    }
}
