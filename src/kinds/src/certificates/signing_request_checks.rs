//! Validation of CertificateSigningRequests (`pkg/apis/certificates/validation`).
//!
//! A stored request may have been written under older rules: errors that the old object has pass in the new one.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::{
        diff,
        structs::{self, PrintedField, PrintedShape},
    },
};

use super::{
    pem::blocks,
    x509::{certificate_request_error, certificates_error},
};
use crate::{
    checks::number,
    signers::validate_signer_name,
    values::{items, text, text_at},
};

const MIN_SECONDS: i64 = 600;
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
/// Conditions that only `/approval` may set.
pub(super) const DECISIONS: [&str; 2] = ["Approved", "Denied"];
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];
/// `certificates.CertificateSigningRequestCondition`.
const CONDITION: &[PrintedField] = &[
    ("Type", "type", PrintedShape::Text),
    ("Status", "status", PrintedShape::Text),
    ("Reason", "reason", PrintedShape::Text),
    ("Message", "message", PrintedShape::Text),
    ("LastUpdateTime", "lastUpdateTime", PrintedShape::Plain),
    ("LastTransitionTime", "lastTransitionTime", PrintedShape::Plain),
];

/// The conditions of a request.
pub(super) fn conditions(object: &Value) -> &[Value] {
    object.get("status").map_or(&[], |status| items(status, "conditions"))
}

/// Reports whether a request has a condition of a type.
pub(super) fn has_condition(object: &Value, condition_type: &str) -> bool {
    conditions(object)
        .iter()
        .any(|condition| text(condition, "type") == condition_type)
}

fn of_type<'a>(object: &'a Value, condition_type: &str) -> Vec<&'a Value> {
    let found = conditions(object).iter();
    found
        .filter(|condition| text(condition, "type") == condition_type)
        .collect()
}

/// The errors of a request whose stored form is `old`, null if it is new (`validateCertificateSigningRequest`).
pub(super) fn validate_certificate_signing_request(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_spec(new, old, &mut errors);
    validate_conditions(new, old, &mut errors);
    validate_certificate(new, old, &mut errors);
    errors
}

/// Validates a request, and that no decision is taken back (`validateCertificateSigningRequestUpdate`).
pub(super) fn validate_certificate_signing_request_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = validate_certificate_signing_request(new, old);
    for kept in DECISIONS.iter().chain(&["Failed"]) {
        if of_type(new, kept).len() < of_type(old, kept).len() {
            let detail = format!("updates may not remove a condition of type {kept:?}");
            errors.push(Error::forbidden(&Path::new("status.conditions"), &detail));
        }
    }
    errors
}

/// Validates that decisions are neither added nor changed.
pub(super) fn validate_kept_decisions(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.conditions");
    for decision in DECISIONS {
        let (after, before) = (of_type(new, decision), of_type(old, decision));
        if after.len() < before.len() {
            continue;
        }
        if after.len() > before.len() {
            let detail = format!("updates may not add a condition of type {decision:?}");
            errors.push(Error::forbidden(&path, &detail));
            continue;
        }
        let (after, before) = (shown_conditions(&after), shown_conditions(&before));
        if after != before {
            let difference = diff::unified(&before, &after);
            let detail = format!("updates may not modify a condition of type {decision:?}\n{difference}");
            errors.push(Error::forbidden(&path, &detail));
        }
    }
}

fn shown_conditions(conditions: &[&Value]) -> Vec<String> {
    let list = conditions.iter().map(|condition| (*condition).clone()).collect();
    structs::lines(Some(&Value::Array(list)), PrintedShape::List(CONDITION))
}

/// A certificate that was issued stays.
pub(super) fn validate_immutable_certificate(new: &Value, old: &Value, errors: &mut ErrorList) {
    let issued = text_at(old, "/status/certificate");
    if !issued.is_empty() && issued != text_at(new, "/status/certificate") {
        let detail = "updates may not modify existing certificate content";
        errors.push(Error::forbidden(&Path::new("status.certificate"), detail));
    }
}

fn usages(object: &Value) -> &[Value] {
    object.get("spec").map_or(&[], |spec| items(spec, "usages"))
}

fn is_unknown(usage: &Value) -> bool {
    !USAGES.contains(&usage.as_str().unwrap_or_default())
}

fn has_duplicate<T: PartialEq>(list: &[T]) -> bool {
    list.iter()
        .enumerate()
        .any(|(index, item)| list.iter().take(index).any(|earlier| earlier == item))
}

fn validate_spec(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::new("spec");
    let spec = new.get("spec").unwrap_or(&Value::Null);
    validate_csr(spec, &path, errors);
    validate_usages(new, old, &path.child("usages"), errors);
    let (signer, at) = (text(spec, "signerName"), path.child("signerName"));
    if signer == LEGACY_SIGNER && text_at(old, "/spec/signerName") != LEGACY_SIGNER {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid_str(&at, signer, detail));
    } else {
        validate_signer_name(signer, &at, errors);
    }
    if let Some(seconds) = number(spec, "expirationSeconds").filter(|seconds| *seconds < MIN_SECONDS) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(Error::invalid(
            &path.child("expirationSeconds"),
            &seconds.into(),
            detail,
        ));
    }
}

/// As upstream's `validateCSR`.
fn validate_csr(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let request = STANDARD.decode(text(spec, "request")).unwrap_or_default();
    let request = String::from_utf8_lossy(&request);
    let error = match blocks(&request).first() {
        Some(block) if block.kind == "CERTIFICATE REQUEST" => certificate_request_error(&block.content),
        _ => Some("PEM block type must be CERTIFICATE REQUEST".to_owned()),
    };
    if let Some(error) = error {
        // Bytes are shown as JSON has them.
        let shown = spec.get("request").unwrap_or(&Value::Null);
        errors.push(Error::invalid(&path.child("request"), shown, &error));
    }
}

fn validate_usages(new: &Value, old: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let list = usages(new);
    if list.is_empty() {
        errors.push(Error::required(path, ""));
    }
    if !usages(old).iter().any(is_unknown) {
        for (index, usage) in list.iter().enumerate().filter(|(_, usage)| is_unknown(usage)) {
            let name = usage.as_str().unwrap_or_default();
            errors.push(Error::not_supported(&path.index(index), name, &USAGES));
        }
    }
    if has_duplicate(usages(old)) {
        return;
    }
    for (index, usage) in list.iter().enumerate() {
        if list.iter().take(index).any(|earlier| earlier == usage) {
            errors.push(Error::duplicate(&path.index(index), usage));
        }
    }
}

fn validate_conditions(new: &Value, old: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.conditions");
    let types = |object| -> Vec<&str> { conditions(object).iter().map(|one| text(one, "type")).collect() };
    let (all, before) = (types(new), types(old));
    let [any_type, duplicates] = [before.contains(&""), has_duplicate(&before)];
    let both_decided = DECISIONS.iter().all(|decision| before.contains(decision));
    for (index, condition) in conditions(new).iter().enumerate() {
        let at = path.index(index);
        let condition_type = text(condition, "type");
        if condition_type.is_empty() && !any_type {
            errors.push(Error::required(&at.child("type"), ""));
        }
        validate_status_of_condition(condition, &at, errors);
        let came_before = |wanted: &str| all.iter().take(index).any(|earlier| *earlier == wanted);
        let is_decision = DECISIONS.contains(&condition_type);
        let mut others = DECISIONS.iter().filter(|other| **other != condition_type);
        if is_decision && !both_decided && others.any(|other| came_before(other)) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid_str(&path, condition_type, detail));
        }
        if came_before(condition_type) && !duplicates {
            errors.push(Error::duplicate(&at.child("type"), &condition_type.into()));
        }
    }
}

fn validate_status_of_condition(condition: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let (condition_type, status) = (text(condition, "type"), text(condition, "status"));
    let must_be_true = DECISIONS.contains(&condition_type) || condition_type == "Failed";
    let supported: &[&str] = if must_be_true { &["True"] } else { &STATUSES };
    if status.is_empty() {
        errors.push(Error::required(&path.child("status"), ""));
    } else if !supported.contains(&status) {
        errors.push(Error::not_supported(&path.child("status"), status, supported));
    }
}

fn validate_certificate(new: &Value, old: &Value, errors: &mut ErrorList) {
    let [certificate, before] = [new, old].map(|object| text_at(object, "/status/certificate"));
    if certificate == before || certificate_error(before).is_some() {
        return;
    }
    if let Some(error) = certificate_error(certificate) {
        let path = Path::new("status.certificate");
        errors.push(Error::invalid_str(&path, "<certificate data>", &error));
    }
}

/// The error of an encoded certificate, which may be empty (`validateCertificate`).
fn certificate_error(certificate: &str) -> Option<String> {
    if certificate.is_empty() {
        return None;
    }
    let decoded = STANDARD.decode(certificate).unwrap_or_default();
    let decoded = String::from_utf8_lossy(&decoded);
    let blocks = blocks(&decoded);
    let mut messages = blocks.iter().map(|block| match block.kind {
        "CERTIFICATE" if block.has_headers => Some("no PEM block headers are permitted".to_owned()),
        "CERTIFICATE" => certificates_error(&block.content),
        other => Some(format!("only CERTIFICATE PEM blocks are allowed, found {other:?}")),
    });
    let none = || {
        blocks
            .is_empty()
            .then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
    };
    messages.find_map(|error| error).or_else(none)
}
