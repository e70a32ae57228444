//! CertificateSigningRequests (`pkg/registry/certificates/certificates`).
//!
//! The right to approve and sign is checked where requests are authorized.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    names::{self, NameCheck},
    time,
};
use trireme_registry::{
    ResetFields, Strategy, WriteContext,
    request::Subresource,
    strategy::keep_all_but_status_and_metadata,
    subresource::{SubresourceRole, Update},
};

use super::{
    pem::blocks,
    requested_duration::DurationCounts,
    x509::{certificate_request_error, certificates_error},
};
use crate::{
    checks::number,
    columns::{self, column, described, documented},
    kind::Kind,
    signers::validate_signer_name,
    values::{items, keep_field, set_default, struct_mut, text, text_at},
};

const SPEC: &str = "io.k8s.api.certificates.v1.CertificateSigningRequestSpec";
const SIGNER: &str = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.";
const MIN_SECONDS: i64 = 600;
const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
/// Conditions that only `/approval` may set.
const DECISIONS: [&str; 2] = ["Approved", "Denied"];
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

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let at = |pointer: &'static str| move |object: &Value| Value::from(text_at(object, pointer));
    let duration = |object: &Value| {
        let seconds = object.pointer("/spec/expirationSeconds").and_then(Value::as_u64);
        let shown = |seconds| {
            time::human_duration(jiff::SignedDuration::try_from(Duration::from_secs(seconds)).unwrap_or_default())
        };
        Value::from(seconds.map_or_else(|| "<none>".to_owned(), shown))
    };
    let kind = Kind::new("certificates.k8s.io", "certificatesigningrequests", SigningRequests).columns(vec![
        columns::name(),
        columns::age(),
        column("SignerName", "string", described(SIGNER), at("/spec/signerName")),
        column(
            "Requestor",
            "string",
            described("Base64-encoded PKCS#10 CSR data"),
            at("/spec/username"),
        ),
        column(
            "RequestedDuration",
            "string",
            documented(SPEC, "expirationSeconds"),
            duration,
        ),
        column(
            "Condition",
            "string",
            described("Conditions applied to the request, such as approval or denial."),
            |object| Value::from(condition(object)),
        ),
    ]);
    kind.side_effects(DurationCounts)
}

fn conditions(object: &Value) -> &[Value] {
    object.get("status").map_or(&[], |status| items(status, "conditions"))
}

fn has_condition(object: &Value, condition_type: &str) -> bool {
    conditions(object)
        .iter()
        .any(|condition| text(condition, "type") == condition_type)
}

fn condition(object: &Value) -> String {
    let decision = DECISIONS
        .into_iter()
        .rev()
        .find(|decision| has_condition(object, decision));
    let mut shown = decision.unwrap_or("Pending").to_owned();
    if has_condition(object, "Failed") {
        shown.push_str(",Failed");
    }
    if !text_at(object, "/status/certificate").is_empty() {
        shown.push_str(",Issued");
    }
    shown
}

struct SigningRequests;

impl Strategy for SigningRequests {
    fn name_check(&self) -> NameCheck {
        names::any_name
    }

    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields(match subresource {
            Subresource::Status => &["spec", "status.conditions"],
            Subresource::Update(_) => &["spec", "status.certificate"],
            _ => &["spec", "status"],
        })
    }

    fn prepare_for_create(&self, context: &WriteContext, object: &mut Value) {
        let spec = struct_mut(object, "spec");
        let user = &context.user;
        let given = [
            ("username", (!user.name.is_empty()).then(|| json!(user.name))),
            ("uid", (!user.uid.is_empty()).then(|| json!(user.uid))),
            ("groups", (!user.groups.is_empty()).then(|| json!(user.groups))),
            ("extra", (!user.extra.is_empty()).then(|| json!(user.extra))),
        ];
        for (field, value) in given {
            match value {
                Some(value) => spec.insert(field.into(), value),
                None => spec.remove(field),
            };
        }
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_certificate_signing_request(
            object.get("spec").unwrap_or(&Value::Null),
            &Path::new("spec"),
            &mut errors,
        );
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_field(new, old, "status");
    }

    /// As upstream's `ValidateUpdate`.
    fn validate_update(&self, _context: &WriteContext, _new: &Value, _old: &Value) -> ErrorList {
        ErrorList::new()
    }

    fn subresource(&self, name: &str) -> Option<SubresourceRole<'_>> {
        (name == "approval").then_some(SubresourceRole::Update(&Approval))
    }

    fn prepare_for_status_update(&self, context: &WriteContext, new: &mut Value, old: &Value) {
        keep_all_but_status_and_metadata(new, old);
        keep_decisions(new, old);
        date_conditions(context, new, old);
    }

    fn validate_status_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = validate_certificate_signing_request_update(new, old);
        for decision in DECISIONS {
            if has_condition(new, decision) && !has_condition(old, decision) {
                let detail = format!("updates may not add a condition of type {decision:?}");
                errors.push(Error::forbidden(&Path::new("status.conditions"), &detail));
            }
        }
        validate_immutable_certificate(new, old, &mut errors);
        errors
    }
}

/// `/approval`: the conditions, decisions among them, and nothing else of the status.
struct Approval;

impl Update for Approval {
    fn name(&self) -> &'static str {
        "approval"
    }

    fn prepare_for_update(&self, context: &WriteContext, new: &mut Value, old: &Value) {
        date_conditions(context, new, old);
        let decided = new.pointer("/status/conditions").cloned();
        keep_field(new, old, "spec");
        keep_field(new, old, "status");
        let status = struct_mut(new, "status");
        match decided {
            Some(conditions) => status.insert("conditions".into(), conditions),
            None => status.remove("conditions"),
        };
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_certificate_signing_request_update(new, old)
    }
}

/// Validates a status, and of conditions that are gone although they may not go.
/// Upstream: `ValidateCertificateSigningRequestUpdate`.
fn validate_certificate_signing_request_update(new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_conditions(new, &mut errors);
    validate_certificate(new, old, &mut errors);
    for kept in DECISIONS.iter().chain(&["Failed"]) {
        if has_condition(old, kept) && !has_condition(new, kept) {
            let detail = format!("updates may not remove a condition of type {kept:?}");
            errors.push(Error::forbidden(&Path::new("status.conditions"), &detail));
        }
    }
    errors
}

/// A certificate that was issued stays.
fn validate_immutable_certificate(new: &Value, old: &Value, errors: &mut ErrorList) {
    let issued = text_at(old, "/status/certificate");
    if !issued.is_empty() && issued != text_at(new, "/status/certificate") {
        let detail = "updates may not modify existing certificate content";
        errors.push(Error::forbidden(&Path::new("status.certificate"), detail));
    }
}

/// As upstream's `validateCertificateSigningRequest`.
fn validate_certificate_signing_request(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
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
    let usages_path = path.child("usages");
    let usages = items(spec, "usages");
    if usages.is_empty() {
        errors.push(Error::required(&usages_path, ""));
    }
    for (index, usage) in usages.iter().enumerate() {
        let name = usage.as_str().unwrap_or_default();
        if !USAGES.contains(&name) {
            errors.push(Error::not_supported(&usages_path.index(index), name, &USAGES));
        }
    }
    for (index, usage) in usages.iter().enumerate() {
        if usages.iter().take(index).any(|earlier| earlier == usage) {
            errors.push(Error::duplicate(&usages_path.index(index), usage));
        }
    }
    let signer = text(spec, "signerName");
    if signer == LEGACY_SIGNER {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(Error::invalid_str(&path.child("signerName"), signer, detail));
    } else {
        validate_signer_name(signer, &path.child("signerName"), errors);
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

/// Keeps the decisions as they were stored, unless the number of decisions changes, which is refused later.
fn keep_decisions(new: &mut Value, old: &Value) {
    for decision in DECISIONS {
        let is_one = |condition: &&Value| text(condition, "type") == decision;
        let before: Vec<&Value> = conditions(old).iter().filter(is_one).collect();
        if conditions(new).iter().filter(is_one).count() != before.len() {
            continue;
        }
        let list = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
        let decisions = list.into_iter().flatten();
        let decisions = decisions.filter(|condition| text(condition, "type") == decision);
        decisions
            .zip(before)
            .for_each(|(condition, before)| condition.clone_from(before));
    }
}

/// Says when conditions changed, where the client does not.
fn date_conditions(context: &WriteContext, new: &mut Value, old: &Value) {
    let now = time::Time::from(context.now).to_string();
    let Some(Value::Array(list)) = new.pointer_mut("/status/conditions") else {
        return;
    };
    for condition in list {
        let same = conditions(old).iter().find(|earlier| {
            text(earlier, "type") == text(condition, "type") && text(earlier, "status") == text(condition, "status")
        });
        let since = same
            .map(|earlier| text(earlier, "lastTransitionTime"))
            .filter(|time| !time.is_empty());
        let Some(fields) = condition.as_object_mut() else {
            continue;
        };
        fields.retain(|_, value| !value.is_null());
        set_default(fields, "lastUpdateTime", now.as_str());
        set_default(fields, "lastTransitionTime", since.unwrap_or(&now));
    }
}

fn validate_conditions(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("status.conditions");
    let conditions = conditions(object);
    for (index, condition) in conditions.iter().enumerate() {
        let at = path.index(index);
        let (condition_type, status) = (text(condition, "type"), text(condition, "status"));
        if condition_type.is_empty() {
            errors.push(Error::required(&at.child("type"), ""));
        }
        let must_be_true = DECISIONS.contains(&condition_type) || condition_type == "Failed";
        let supported: &[&str] = if must_be_true { &["True"] } else { &STATUSES };
        if status.is_empty() {
            errors.push(Error::required(&at.child("status"), ""));
        } else if !supported.contains(&status) {
            errors.push(Error::not_supported(&at.child("status"), status, supported));
        }
        let came_before = |wanted: &str| {
            let mut earlier = conditions.iter().take(index);
            earlier.any(|earlier| text(earlier, "type") == wanted)
        };
        let is_decision = DECISIONS.contains(&condition_type);
        if is_decision
            && DECISIONS
                .iter()
                .any(|other| *other != condition_type && came_before(other))
        {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(Error::invalid_str(&path, condition_type, detail));
        }
        if came_before(condition_type) {
            errors.push(Error::duplicate(&at.child("type"), &condition_type.into()));
        }
    }
}

/// As upstream's `validateCertificate`.
fn validate_certificate(new: &Value, old: &Value, errors: &mut ErrorList) {
    let certificate = text_at(new, "/status/certificate");
    if certificate.is_empty() || certificate == text_at(old, "/status/certificate") {
        return;
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
    if let Some(error) = messages.find_map(|error| error).or_else(none) {
        errors.push(Error::invalid_str(
            &Path::new("status.certificate"),
            "<certificate data>",
            &error,
        ));
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
