//! Validation of volumes that several sources are projected into.

use std::collections::BTreeSet;

use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, LABEL_SELECTOR, PrintedField, PrintedShape},
};

use super::{
    check::{non_reserved_path, number, push_invalid, require},
    env,
    tolerated::Tolerated,
    volumes::{validate_key_to_path, validate_mode},
};
use crate::{
    checks::{validate_optional_label_selector, validate_supported},
    signers::{
        cluster_trust_bundle_name, most_seconds, signer_of_bundle, validate_signer_name, validate_user_annotations,
    },
    values::{items, text},
};

const MIN_TOKEN_SECONDS: i64 = 600;
const MAX_TOKEN_SECONDS: i64 = 1 << 32;
const MIN_CERTIFICATE_SECONDS: i64 = 3600;
const CLUSTER_TRUST_BUNDLE: &str = "clusterTrustBundle";
const TOKEN: &str = "serviceAccountToken";
const POD_CERTIFICATE: &str = "podCertificate";
const KINDS: [&str; 6] = [
    "secret",
    "configMap",
    "downwardAPI",
    TOKEN,
    CLUSTER_TRUST_BUNDLE,
    POD_CERTIFICATE,
];
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
/// The files of a certificate.
const CERTIFICATE_PATHS: [&str; 3] = ["credentialBundlePath", "keyPath", "certificateChainPath"];

/// `core.ClusterTrustBundleProjection`.
const TRUST_BUNDLE: &[PrintedField] = &[
    ("Name", "name", PrintedShape::Plain),
    ("SignerName", "signerName", PrintedShape::Plain),
    ("LabelSelector", "labelSelector", PrintedShape::Named(LABEL_SELECTOR)),
    ("Optional", "optional", PrintedShape::Plain),
    ("Path", "path", PrintedShape::Text),
];

/// The files of a volume so far.
struct Files<'a> {
    volume: &'a Path<'a>,
    paths: BTreeSet<&'a str>,
}

impl<'a> Files<'a> {
    /// Adds a file, which an error shows as `shown` if there is one at its path.
    fn add(&mut self, file: &'a str, shown: &str, errors: &mut ErrorList) {
        if !self.paths.insert(file) {
            errors.push(Error::invalid_str(self.volume, shown, "conflicting duplicate paths"));
        }
    }
}

/// The volume and all its sources; no two files may have one path (`validateProjectedVolumeSource`).
pub(super) fn validate_projected_volume_source(
    source: &Value,
    tolerated: Tolerated,
    path: &Path<'_>,
    errors: &mut ErrorList,
) {
    validate_mode(source, "defaultMode", path, errors);
    let mut added = Files {
        volume: path,
        paths: BTreeSet::new(),
    };
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
            match *kind {
                POD_CERTIFICATE => validate_pod_certificate(part, &part_path, &mut added, errors),
                TOKEN => validate_token(part, tolerated, &part_path, path, errors),
                kind => validate_projection_source(kind, part, &part_path, errors),
            }
            for (file, shown) in files(kind, part) {
                if !file.is_empty() || *kind == CLUSTER_TRUST_BUNDLE {
                    added.add(file, shown, errors);
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

fn validate_cluster_trust_bundle(bundle: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let [name, signer] = ["name", "signerName"].map(|field| bundle.get(field).and_then(Value::as_str));
    match (name, signer) {
        (Some(_), Some(_)) => {
            let shown = structs::compact(Some(bundle), PrintedShape::Struct(TRUST_BUNDLE));
            let detail = "only one of name and signerName may be used";
            errors.push(Error::invalid_shown(path, shown, detail));
        }
        (Some(name), None) => validate_bundle_by_name(bundle, name, path, errors),
        (None, Some(signer)) => {
            let at = path.child("signerName");
            if signer.is_empty() {
                errors.push(Error::required(&at, "must be a valid signer name"));
            }
            validate_signer_name(signer, &at, errors);
            validate_optional_label_selector(bundle.get("labelSelector"), &path.child("labelSelector"), errors);
        }
        (None, None) => errors.push(Error::required(path, "either name or signerName must be specified")),
    }
    require(bundle, path, "path", errors);
    non_reserved_path(text(bundle, "path"), &path.child("path"), errors);
}

fn validate_bundle_by_name(bundle: &Value, name: &str, path: &Path<'_>, errors: &mut ErrorList) {
    let at = path.child("name");
    if name.is_empty() {
        errors.push(Error::required(&at, "must be a valid object name"));
    }
    let messages = cluster_trust_bundle_name(&signer_of_bundle(name), name, false);
    let messages = messages
        .iter()
        .map(|error| format!("not a valid clustertrustbundlename: {error}"));
    push_invalid(&at, name, messages.collect(), errors);
    if let Some(selector) = bundle.get("labelSelector").filter(|selector| !selector.is_null()) {
        let shown = structs::compact(Some(selector), PrintedShape::Named(LABEL_SELECTOR));
        let detail = "labelSelector must be unset if name is specified";
        errors.push(Error::invalid_shown(&path.child("labelSelector"), shown, detail));
    }
}

fn validate_pod_certificate<'a>(
    certificate: &'a Value,
    path: &Path<'_>,
    added: &mut Files<'a>,
    errors: &mut ErrorList,
) {
    let signer = text(certificate, "signerName");
    validate_signer_name(signer, &path.child("signerName"), errors);
    if let Some(annotations) = certificate.get("userAnnotations").and_then(Value::as_object) {
        validate_user_annotations(annotations, &path.child("userAnnotations"), errors);
    }
    validate_supported(certificate, path, "keyType", &KEY_TYPES, errors);
    if let Some(seconds) = number(certificate, "maxExpirationSeconds") {
        let at = path.child("maxExpirationSeconds");
        let most = most_seconds(signer);
        let mut refuse = |detail: &str| errors.push(Error::invalid(&at, &seconds.into(), detail));
        if seconds < MIN_CERTIFICATE_SECONDS {
            refuse("if provided, maxExpirationSeconds must be >= 3600");
        }
        if seconds > most {
            refuse(&format!("if provided, maxExpirationSeconds must be <= {most}"));
        }
    }
    let given = CERTIFICATE_PATHS
        .map(|field| (field, text(certificate, field)))
        .into_iter()
        .filter(|(_, file)| !file.is_empty());
    let given: Vec<_> = given.collect();
    for (field, file) in given.iter().copied() {
        non_reserved_path(file, &path.child(field), errors);
        added.add(file, file, errors);
    }
    if given.is_empty() {
        let detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(Error::required(path, detail));
    }
}

fn validate_projection_source(kind: &str, part: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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
        CLUSTER_TRUST_BUNDLE => validate_cluster_trust_bundle(part, path, errors),
        _ => {}
    }
}

/// The path of a token is told at that of the volume, as upstream.
fn validate_token(token: &Value, tolerated: Tolerated, path: &Path<'_>, volume: &Path<'_>, errors: &mut ErrorList) {
    let seconds = number(token, "expirationSeconds").unwrap_or(0);
    let at = path.child("expirationSeconds");
    if seconds < MIN_TOKEN_SECONDS {
        let detail = "may not specify a duration less than 10 minutes";
        errors.push(Error::invalid(&at, &seconds.into(), detail));
    }
    if seconds > MAX_TOKEN_SECONDS {
        let detail = "may not specify a duration larger than 2^32 seconds";
        errors.push(Error::invalid(&at, &seconds.into(), detail));
    }
    if require(token, volume, "path", errors) && !tolerated.has(Tolerated::TOKEN_PATHS) {
        non_reserved_path(text(token, "path"), &volume.child("path"), errors);
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
        CLUSTER_TRUST_BUNDLE => vec![(text(part, "path"), text(part, "path"))],
        _ => Vec::new(),
    }
}
