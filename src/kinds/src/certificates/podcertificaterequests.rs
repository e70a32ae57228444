//! PodCertificateRequests (`pkg/registry/certificates/podcertificaterequest`), behind the gate of their name.
//!
//! NodeRestriction checks the requests of nodes, and a plugin of admission the right to sign.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use trireme_machinery::{
    field::{Error, ErrorList, Path},
    go_text::structs::{self, PrintedField, PrintedShape},
    names,
};
use trireme_registry::{Column, ResetFields, Strategy, WriteContext, request::Subresource, strategy::MetadataChecks};

use super::{
    issued::validate_issued,
    keys::{KeySort, has_signed, is_signed, pkix_key, signing_request},
};
use crate::{
    checks::{number, push_invalid},
    columns::{self, column, described, or_none},
    conditions::validate_conditions,
    kind::Kind,
    signers::{most_seconds, validate_signer_name, validate_user_annotations},
    values::{entries, items, keep_field, keep_metadata, text, text_at},
};

const MAX_UID_BYTES: usize = 128;
const MAX_KEY_BYTES: usize = 10 * 1024;
const MIN_SECONDS: i64 = 60 * 60;
/// The conditions that end a request.
const DECISIONS: [&str; 3] = ["Issued", "Denied", "Failed"];
const INVALID_REQUEST: &str = "must be a valid PKCS#10 CSR";

/// `certificates.PodCertificateRequestSpec`.
const INTERNAL_SPEC: &[PrintedField] = &[
    ("SignerName", "signerName", PrintedShape::Text),
    ("PodName", "podName", PrintedShape::Text),
    ("PodUID", "podUID", PrintedShape::Text),
    ("ServiceAccountName", "serviceAccountName", PrintedShape::Text),
    ("ServiceAccountUID", "serviceAccountUID", PrintedShape::Text),
    ("NodeName", "nodeName", PrintedShape::Text),
    ("NodeUID", "nodeUID", PrintedShape::Text),
    ("MaxExpirationSeconds", "maxExpirationSeconds", PrintedShape::Plain),
    ("PKIXPublicKey", "pkixPublicKey", PrintedShape::Plain),
    ("ProofOfPossession", "proofOfPossession", PrintedShape::Plain),
    ("StubPKCS10Request", "stubPKCS10Request", PrintedShape::Plain),
    (
        "UnverifiedUserAnnotations",
        "unverifiedUserAnnotations",
        PrintedShape::Plain,
    ),
];

const SIGNER: &str = "signerName indicates the requested signer.\n\nAll signer names beginning with `kubernetes.io` are reserved for use by the Kubernetes project.  There is currently one well-known signer documented by the Kubernetes project, `kubernetes.io/kube-apiserver-client-pod`, which will issue client certificates understood by kube-apiserver.  It is currently unimplemented.";
const ANNOTATIONS: &str = "unverifiedUserAnnotations allow pod authors to pass additional information to the signer implementation.  Kubernetes does not restrict or validate this metadata in any way.\n\nEntries are subject to the same validation as object metadata annotations, with the addition that all keys must be domain-prefixed. No restrictions are placed on values, except an overall size limitation on the entire field.\n\nSigners should document the keys and values they support.  Signers should deny requests that contain keys they do not recognize.";

/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let of = |name: &'static str, description: &'static str, pointer: &'static str| -> Column {
        column(name, "string", described(description), move |object| {
            text_at(object, pointer).into()
        })
    };
    Kind::new("certificates.k8s.io", "podcertificaterequests", PodRequests).columns(vec![
        columns::name(),
        of(
            "PodName",
            "podName is the name of the pod into which the certificate will be mounted.",
            "/spec/podName",
        ),
        of(
            "ServiceAccountName",
            "serviceAccountName is the name of the service account the pod is running as.",
            "/spec/serviceAccountName",
        ),
        of(
            "NodeName",
            "nodeName is the name of the node the pod is assigned to.",
            "/spec/nodeName",
        ),
        of("SignerName", SIGNER, "/spec/signerName"),
        column(
            "State",
            "string",
            described("Is the request Pending, Issued, Denied, or Failed?"),
            |object| state(object).into(),
        ),
        column(
            "UnverifiedUserAnnotations",
            "string",
            described(ANNOTATIONS),
            |object| {
                let spec = object.get("spec").unwrap_or(&Value::Null);
                let shown = entries(spec, "unverifiedUserAnnotations")
                    .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
                or_none(&shown.collect::<Vec<_>>().join(","))
            },
        ),
    ])
}

fn conditions(object: &Value) -> &[Value] {
    object.get("status").map_or(&[], |status| items(status, "conditions"))
}

fn state(object: &Value) -> &str {
    let mut types = conditions(object).iter().map(|condition| text(condition, "type"));
    types.rfind(|kind| DECISIONS.contains(kind)).unwrap_or("Pending")
}

/// Reports whether a request has been decided in one of these ways.
fn is(object: &Value, decisions: &[&str]) -> bool {
    conditions(object)
        .iter()
        .any(|condition| decisions.contains(&text(condition, "type")) && text(condition, "status") == "True")
}

struct PodRequests;

impl Strategy for PodRequests {
    fn reset_fields(&self, subresource: Subresource) -> ResetFields {
        ResetFields(match subresource {
            Subresource::Status => &["spec"],
            _ => &[],
        })
    }

    fn metadata_checks_of_update(&self, _context: &WriteContext) -> MetadataChecks {
        MetadataChecks::OfChange
    }

    fn prepare_for_create(&self, _context: &WriteContext, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, _context: &WriteContext, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_pod_certificate_request_create(spec, &Path::new("spec"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if new.get("spec") != old.get("spec") {
            let shown = structs::compact(new.get("spec"), PrintedShape::Struct(INTERNAL_SPEC));
            errors.push(Error::invalid_shown(&Path::new("spec"), shown, "field is immutable"));
        }
        errors
    }

    fn prepare_for_status_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_metadata(new, old);
    }

    fn validate_status_update(&self, context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_pod_certificate_request_status_update(context, new, old)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

/// As upstream's `ValidatePodCertificateRequestCreate`.
fn validate_pod_certificate_request_create(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let signer = text(spec, "signerName");
    validate_signer_name(signer, &path.child("signerName"), errors);
    if let Some(annotations) = spec.get("unverifiedUserAnnotations").and_then(Value::as_object) {
        validate_user_annotations(annotations, &path.child("unverifiedUserAnnotations"), errors);
    }
    for (name, uid) in [
        ("podName", "podUID"),
        ("serviceAccountName", "serviceAccountUID"),
        ("nodeName", "nodeUID"),
    ] {
        let value = text(spec, name);
        push_invalid(&path.child(name), value, names::dns1123_subdomain(value), errors);
        let value = text(spec, uid);
        if value.is_empty() {
            errors.push(Error::invalid_str(&path.child(uid), value, "must not be empty"));
        }
        if value.len() > MAX_UID_BYTES {
            errors.push(Error::too_long(&path.child(uid), MAX_UID_BYTES));
        }
    }
    let at = path.child("maxExpirationSeconds");
    let Some(seconds) = number(spec, "maxExpirationSeconds") else {
        errors.push(Error::required(&at, "must be set"));
        return;
    };
    let most = most_seconds(signer);
    if !(MIN_SECONDS..=most).contains(&seconds) {
        let detail = format!("must be in the range [{MIN_SECONDS}, {most}]");
        errors.push(Error::invalid(&at, &seconds.into(), &detail));
    }
    validate_keys(spec, path, errors);
}

/// Bytes of a spec; empty if they are absent.
fn bytes(spec: &Value, field: &str) -> Vec<u8> {
    STANDARD.decode(text(spec, field)).unwrap_or_default()
}

fn validate_keys(spec: &Value, path: &Path<'_>, errors: &mut ErrorList) {
    let [request, key, proof] =
        ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|field| bytes(spec, field));
    let error = match [request.is_empty(), key.is_empty(), proof.is_empty()] {
        [false, true, true] => stub_request_error(&request, &path.child("stubPKCS10Request")),
        [true, false, false] => pkix_key_error(spec, &key, &proof, path),
        _ => Some(Error::invalid_omitted(
            path,
            "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set",
        )),
    };
    errors.extend(error);
}

/// As upstream's `validateStubPKCS10Request`.
fn stub_request_error(request: &[u8], path: &Path<'_>) -> Option<Error> {
    if request.len() > MAX_KEY_BYTES {
        return Some(Error::too_long(path, MAX_KEY_BYTES));
    }
    let omitted = |detail: &str| Some(Error::invalid_omitted(path, detail));
    let Some(request) = signing_request(request) else {
        return omitted(INVALID_REQUEST);
    };
    let Some(sort) = KeySort::of(&request.certification_request_info.subject_pki) else {
        return omitted(INVALID_REQUEST);
    };
    if let Some((shown, detail)) = sort.weakness("elliptic public keys must use curve P256, P384, or P521") {
        return Some(Error::invalid_str(path, &shown, detail));
    }
    if sort == KeySort::Unknown {
        return omitted("unknown public key type; supported types are Ed25519, ECDSA, and RSA");
    }
    match is_signed(&request) {
        true => None,
        false => omitted("invalid signature"),
    }
}

/// As upstream's `validateDeprecatedPKIXPublicKey`.
fn pkix_key_error(spec: &Value, key: &[u8], proof: &[u8], path: &Path<'_>) -> Option<Error> {
    let (at_key, at_proof) = (path.child("pkixPublicKey"), path.child("proofOfPossession"));
    for (value, at) in [(key, &at_key), (proof, &at_proof)] {
        if value.len() > MAX_KEY_BYTES {
            return Some(Error::too_long(at, MAX_KEY_BYTES));
        }
    }
    let shown = spec.get("pkixPublicKey").unwrap_or(&Value::Null);
    let parsed = pkix_key(key).and_then(|key| Some((KeySort::of(&key)?, key)));
    let Some((sort, key)) = parsed.filter(|(sort, _)| *sort != KeySort::Unknown) else {
        let detail = "must be a valid PKIX-serialized public key";
        return Some(Error::invalid(&at_key, shown, detail));
    };
    if let Some((shown, detail)) = sort.weakness("elliptic public keys must use curve P256 or P384") {
        return Some(Error::invalid_str(&at_key, &shown, detail));
    }
    match has_signed(&key, text(spec, "podUID"), proof) {
        true => None,
        false => Some(Error::invalid_omitted(
            &at_proof,
            "could not verify proof-of-possession signature",
        )),
    }
}

/// As upstream's `ValidatePodCertificateRequestStatusUpdate`.
fn validate_pod_certificate_request_status_update(context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let status = new.get("status").unwrap_or(&Value::Null);
    validate_decisions(new, &mut errors);
    validate_conditions(status, &Path::new("status.conditions"), &mut errors);
    if !errors.is_empty() {
        return errors;
    }
    let omitted = |detail: &str| vec![Error::invalid_omitted(&Path::new("status"), detail)];
    let is_unchanged = given(status) == given(old.get("status").unwrap_or(&Value::Null));
    if is(old, &DECISIONS) {
        return match is_unchanged {
            true => errors,
            false => omitted("immutable after PodCertificateRequest is issued, denied, or failed"),
        };
    }
    if is(new, &["Denied", "Failed"]) {
        let mut others = given(status).into_iter().filter(|(name, _)| *name != "conditions");
        return match others.next() {
            None => errors,
            Some(_) => {
                omitted("non-condition status fields must be empty when denying or failing the PodCertificateRequest")
            }
        };
    }
    if is(new, &["Issued"]) {
        return validate_issued(new, context.now);
    }
    match is_unchanged {
        true => errors,
        false => omitted(r#"status is immutable unless transitioning to "Issued", "Denied", or "Failed""#),
    }
}

/// The fields of a status that say something.
fn given(status: &Value) -> Vec<(&str, &Value)> {
    let fields = status.as_object().into_iter().flatten();
    fields
        .map(|(name, value)| (name.as_str(), value))
        .filter(|(_, value)| !value.is_null() && **value != json!([]) && **value != json!(""))
        .collect()
}

/// Checks that there is one decision at most, and no other condition.
fn validate_decisions(new: &Value, errors: &mut ErrorList) {
    let mut decided = 0_usize;
    for (index, condition) in conditions(new).iter().enumerate() {
        // Upstream makes the index a name of its own.
        let path = format!("status.conditions.[{index}]");
        let path = Path::new(&path);
        let kind = text(condition, "type");
        if !DECISIONS.contains(&kind) {
            errors.push(Error::not_supported(&path.child("type"), kind, &DECISIONS));
            continue;
        }
        decided += 1;
        if decided > 1 {
            let detail = r#"There may be at most one condition with type "Issued", "Denied", or "Failed""#;
            errors.push(Error::invalid_str(&path.child("type"), kind, detail));
        }
        let status = text(condition, "status");
        if status != "True" {
            errors.push(Error::not_supported(&path.child("status"), status, &["True"]));
        }
    }
}

#[cfg(test)]
#[path = "podcertificaterequests_tests.rs"]
mod tests;
