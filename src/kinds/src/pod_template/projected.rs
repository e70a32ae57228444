//! Validation of volumes that several sources are projected into.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names,
    selector::validate_label_selector,
};

use super::{
    check::{non_reserved_path, number, push_invalid, require, require_one_of, require_valid},
    env,
    volumes::{validate_key_to_path, validate_mode},
};
use crate::values::{items, text};

const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const KINDS: [&str; 6] = [
    "secret",
    "configMap",
    "downwardAPI",
    "serviceAccountToken",
    "clusterTrustBundle",
    "podCertificate",
];

/// The volume and all its sources; no two files may have one path.
pub(super) fn validate_projected(source: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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
            validate_part(kind, part, &part_path, path, errors);
            for (file, shown) in files(kind, part) {
                if !file.is_empty() && !paths.insert(file) {
                    errors.push(Error::invalid_str(path, shown, "conflicting duplicate paths"));
                }
            }
        }
        if given.len() > 1 {
            errors.push(Error::forbidden(&at, "may not specify more than 1 volume type"));
        }
    }
}

fn validate_part(kind: &str, part: &Value, path: &Path<'_>, volume: &Path<'_>, errors: &mut ErrorList) {
    match kind {
        "secret" | "configMap" => {
            require(errors, part, path, "name");
            let list = path.child("items");
            for (index, item) in items(part, "items").iter().enumerate() {
                validate_key_to_path(item, &list.index(index), errors);
            }
        }
        "downwardAPI" => {
            items(part, "items")
                .iter()
                .for_each(|file| env::validate_downward_file(file, path, errors));
        }
        "serviceAccountToken" => {
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
            validate_file(part, "path", volume, errors);
        }
        "clusterTrustBundle" => validate_trust_bundle(part, path, errors),
        _ => {
            require_valid(errors, part, path, "signerName", names::domain_prefixed_path);
            require_one_of(errors, part, path, "keyType", &KEY_TYPES);
            for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
                if !text(part, field).is_empty() {
                    validate_file(part, field, path, errors);
                }
            }
        }
    }
}

fn validate_file(part: &Value, field: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if require(errors, part, path, field) {
        non_reserved_path(errors, text(part, field), &path.child(field));
    }
}

fn validate_trust_bundle(part: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let given = |field: &str| part.get(field).and_then(Value::as_str);
    match (given("name"), given("signerName")) {
        (Some(_), Some(_)) => errors.push(Error::invalid_str(
            path,
            "",
            "only one of name and signerName may be used",
        )),
        (None, None) => errors.push(Error::required(path, "either name or signerName must be specified")),
        (Some(name), None) => {
            push_invalid(
                errors,
                &path.child("name"),
                name,
                names::dns1123_subdomain(&name.replace(':', ".")),
            );
            if part.get("labelSelector").is_some() {
                let detail = "labelSelector must be unset if name is specified";
                errors.push(Error::invalid_str(&path.child("labelSelector"), "", detail));
            }
        }
        (None, Some(signer)) => {
            push_invalid(
                errors,
                &path.child("signerName"),
                signer,
                names::domain_prefixed_path(signer),
            );
            if let Some(selector) = part.get("labelSelector").and_then(Value::as_object) {
                errors.extend(validate_label_selector(selector, false, &path.child("labelSelector")));
            }
        }
    }
    validate_file(part, "path", path, errors);
}

/// The files that a source makes, and what an error shows of it.
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
        "podCertificate" => ["credentialBundlePath", "keyPath", "certificateChainPath"]
            .into_iter()
            .map(|field| (text(part, field), text(part, field)))
            .collect(),
        _ => vec![(text(part, "path"), text(part, "path"))],
    }
}
