//! CertificateSigningRequests (`pkg/registry/certificates/certificates`).
//!
//! The right to approve and sign is checked where requests are authorized.

use serde_json::{Value, json};
use trireme_machinery::{
    field::ErrorList,
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
    requested_duration::DurationCounts,
    signing_request_checks::{
        DECISIONS, conditions, has_condition, validate_certificate_signing_request,
        validate_certificate_signing_request_update, validate_immutable_certificate, validate_kept_decisions,
    },
};
use crate::{
    columns::{self, column, described, documented, or_none},
    kind::Kind,
    values::{keep_field, set_default, struct_mut, text, text_at},
};

const SPEC: &str = "io.k8s.api.certificates.v1.CertificateSigningRequestSpec";
const SIGNER: &str = "Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:\n 1. If it's a kubelet client certificate, it is assigned\n    \"kubernetes.io/kube-apiserver-client-kubelet\".\n 2. If it's a kubelet serving certificate, it is assigned\n    \"kubernetes.io/kubelet-serving\".\n 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".\nDistribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.";
/// The kind's parts.
pub(crate) fn kind() -> Kind {
    let at = |pointer: &'static str| move |object: &Value| Value::from(text_at(object, pointer));
    let duration = |object: &Value| {
        let seconds = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
        let shown = |seconds| time::human_duration(jiff::SignedDuration::from_secs(seconds));
        Value::from(seconds.map_or_else(|| "<none>".to_owned(), shown))
    };
    let kind = Kind::new("certificates.k8s.io", "certificatesigningrequests", SigningRequests).columns(vec![
        columns::name(),
        columns::age(),
        column("SignerName", "string", described(SIGNER), |object| {
            or_none(text_at(object, "/spec/signerName"))
        }),
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
        validate_certificate_signing_request(object, &Value::Null)
    }

    fn prepare_for_update(&self, _context: &WriteContext, new: &mut Value, old: &Value) {
        keep_field(new, old, "spec");
        keep_field(new, old, "status");
    }

    fn validate_update(&self, _context: &WriteContext, new: &Value, old: &Value) -> ErrorList {
        validate_certificate_signing_request(new, old)
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
        validate_kept_decisions(new, old, &mut errors);
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

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
