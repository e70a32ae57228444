//! The answer of a webhook: what holds it to its form (`VerifyAdmissionResponse`), and what a refusal becomes.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_machinery::{
    ApiError, ErrorDetails, Reason, StatusCause, WebhookStatus,
    go_text::{kind_name, quote},
};

use super::configuration::{ReviewVersion, WebhookKind};

/// The outcome of a call of a webhook that did not allow the write.
#[derive(Debug)]
pub(crate) enum HookFailure {
    /// `ErrCallingWebhook`: there is no usable answer; what that means is up to the failure policy.
    Calling {
        /// The error.
        reason: String,
        /// For metrics.
        code: u16,
    },
    /// The webhook is against it.
    Rejected(ApiError),
    /// This server cannot go on.
    Server(ApiError),
}

/// The answer of a webhook.
#[derive(Debug, Default)]
pub(crate) struct WebhookVerdict {
    pub(crate) allowed: bool,
    /// `status`, or null.
    pub(super) status: Value,
    pub(super) audit_annotations: BTreeMap<String, String>,
    pub(super) warnings: Vec<String>,
    /// The JSON patch, if there is one.
    pub(crate) patch: Option<Vec<u8>>,
    pub(super) patch_type: String,
}

impl WebhookVerdict {
    /// Reads the answer to the review of this uid.
    ///
    /// # Errors
    /// If it is none that counts.
    pub(crate) fn read(
        answer: &Value,
        uid: &str,
        version: ReviewVersion,
        kind: WebhookKind,
    ) -> Result<Self, HookFailure> {
        check_kind(answer, version)
            .and_then(|()| Self::decode(answer.get("response")))
            .map_err(|why| calling(format!("failed to call webhook: {why}")))?
            .ok_or_else(|| "webhook response was absent".to_owned())
            .and_then(|response| response.verified(answer, uid, version, kind))
            .map_err(|why| calling(format!("received invalid webhook response: {why}")))
    }

    fn decode(response: Option<&Value>) -> Result<Option<DecodedResponse>, String> {
        let Some(response) = response.filter(|response| !response.is_null()) else {
            return Ok(None);
        };
        let wrong = |field: &str, value: &Value, kind: &str| {
            let given = kind_name(value);
            format!(
                "json: cannot unmarshal {given} into Go struct field AdmissionResponse.response{field} of type {kind}"
            )
        };
        let fields = response
            .as_object()
            .ok_or_else(|| wrong("", response, "v1.AdmissionResponse"))?;
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(wrong(&format!(".{name}"), other, "string")),
        };
        let allowed = match fields.get("allowed") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(allowed)) => *allowed,
            Some(other) => return Err(wrong(".allowed", other, "bool")),
        };
        let patch = match text("patch")? {
            Some(patch) => STANDARD.decode(&patch).map_err(|error| illegal_base64(&error))?,
            None => Vec::new(),
        };
        let annotations = fields.get("auditAnnotations").and_then(Value::as_object);
        let warnings = fields.get("warnings").and_then(Value::as_array);
        let verdict = Self {
            allowed,
            status: fields.get("status").cloned().unwrap_or_default(),
            audit_annotations: annotations
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
            warnings: warnings
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            patch: (!patch.is_empty()).then_some(patch),
            patch_type: String::new(),
        };
        Ok(Some(DecodedResponse {
            verdict,
            uid: text("uid")?.unwrap_or_default(),
            patch_type: text("patchType")?,
        }))
    }

    /// The error of a refusal (`ToStatusErr`).
    pub(crate) fn refusal(&self, webhook: &str) -> ApiError {
        let denied = format!("admission webhook {} denied the request", quote(webhook));
        let text = |name: &str| self.status.get(name).and_then(Value::as_str).unwrap_or_default();
        let (message, reason) = (text("message"), text("reason"));
        let message = match (message, reason) {
            ("", "") => format!("{denied} without explanation"),
            ("", reason) => format!("{denied}: {reason}"),
            (message, _) => format!("{denied}: {message}"),
        };
        let code = self.status.get("code").and_then(Value::as_u64).unwrap_or_default();
        let code = u16::try_from(code).unwrap_or(u16::MAX).clamp(400, 999);
        // Of no reason that anything here would act on.
        let mut error = ApiError::new(Reason::Forbidden, message);
        error.details = self
            .status
            .get("details")
            .filter(|details| details.is_object())
            .map(read_details);
        error.webhook_status = Some(Box::new(WebhookStatus {
            code,
            reason: reason.to_owned(),
        }));
        error
    }
}

struct DecodedResponse {
    verdict: WebhookVerdict,
    uid: String,
    patch_type: Option<String>,
}

impl DecodedResponse {
    fn verified(
        mut self,
        answer: &Value,
        uid: &str,
        version: ReviewVersion,
        kind: WebhookKind,
    ) -> Result<WebhookVerdict, String> {
        if version == ReviewVersion::V1Beta1 {
            // Neither uid nor type of the patch ever counted in this version.
            if kind == WebhookKind::Validating {
                self.verdict.patch = None;
            }
            "JSONPatch".clone_into(&mut self.verdict.patch_type);
            return Ok(self.verdict);
        }
        if self.uid != uid {
            return Err(format!(
                "expected response.uid={}, got {}",
                quote(uid),
                quote(&self.uid)
            ));
        }
        let named = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
        if (named("apiVersion"), named("kind")) == ("", "") {
            let expected = "admission.k8s.io/v1, Kind=AdmissionReview";
            return Err(format!("expected webhook response of {expected}, got /, Kind="));
        }
        let has_patch = self.verdict.patch.is_some();
        match (kind, self.patch_type) {
            (WebhookKind::Validating, _) if has_patch => {
                Err("validating webhook may not return response.patch".to_owned())
            }
            (WebhookKind::Validating, Some(_)) => {
                Err("validating webhook may not return response.patchType".to_owned())
            }
            (WebhookKind::Mutating, None) if has_patch => {
                Err("webhook returned response.patch but not response.patchType".to_owned())
            }
            (WebhookKind::Mutating, Some(_)) if !has_patch => {
                Err("webhook returned response.patchType but not response.patch".to_owned())
            }
            (_, Some(given)) if given.is_empty() => {
                Err("webhook returned invalid response.patchType of \"\"".to_owned())
            }
            (_, given) => {
                self.verdict.patch_type = given.unwrap_or_default();
                Ok(self.verdict)
            }
        }
    }
}

fn calling(reason: String) -> HookFailure {
    HookFailure::Calling { reason, code: 503 }
}

/// Holds an answer to being of the kind and version of the review; one that names neither is judged later.
fn check_kind(answer: &Value, version: ReviewVersion) -> Result<(), String> {
    let named = |name: &str| answer.get(name).and_then(Value::as_str).unwrap_or_default();
    let (group_version, kind) = (named("apiVersion"), named("kind"));
    if (group_version, kind) == ("", "") {
        return Ok(());
    }
    let given = match (group_version, kind) {
        ("admission.k8s.io/v1", "AdmissionReview") => ReviewVersion::V1,
        ("admission.k8s.io/v1beta1", "AdmissionReview") => ReviewVersion::V1Beta1,
        _ => {
            let (kind, group_version) = (quote(kind), quote(group_version));
            return Err(format!(
                "no kind {kind} is registered for version {group_version} in scheme \"pkg/util/webhook/client.go:71\""
            ));
        }
    };
    if given == version {
        return Ok(());
    }
    let (given, wanted) = (given.name(), version.name());
    Err(format!(
        "converting ({given}.AdmissionReview) to ({wanted}.AdmissionReview): unknown conversion"
    ))
}

/// As Go tells it.
fn illegal_base64(error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => *at,
        base64::DecodeError::InvalidLength(length) => *length,
        base64::DecodeError::InvalidPadding => 0,
    };
    format!("illegal base64 data at input byte {at}")
}

fn read_details(details: &Value) -> Box<ErrorDetails> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let causes = details.get("causes").and_then(Value::as_array).into_iter().flatten();
    let seconds = details.get("retryAfterSeconds").and_then(Value::as_u64);
    Box::new(ErrorDetails {
        name: text(details, "name"),
        group: text(details, "group"),
        kind: text(details, "kind"),
        uid: text(details, "uid"),
        causes: causes
            .map(|cause| StatusCause {
                reason: text(cause, "reason"),
                message: text(cause, "message"),
                field: text(cause, "field"),
            })
            .collect(),
        retry_after_seconds: seconds.and_then(|seconds| u32::try_from(seconds).ok()).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(response: Value, kind: WebhookKind) -> Result<WebhookVerdict, String> {
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        WebhookVerdict::read(&answer, "u", ReviewVersion::V1, kind).map_err(|failure| match failure {
            HookFailure::Calling { reason, .. } => reason,
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn an_answer_is_held_to_its_form() {
        let patch = || json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"});
        assert_eq!(
            read(patch(), WebhookKind::Mutating).expect("a patch").patch.as_deref(),
            Some(&b"[]"[..])
        );
        let invalid = "received invalid webhook response: ";
        for (response, kind, why) in [
            (
                patch(),
                WebhookKind::Validating,
                "validating webhook may not return response.patch",
            ),
            (
                json!({"uid": "v"}),
                WebhookKind::Validating,
                "expected response.uid=\"u\", got \"v\"",
            ),
            (Value::Null, WebhookKind::Mutating, "webhook response was absent"),
            (
                json!({"uid": "u", "patch": "W10="}),
                WebhookKind::Mutating,
                "webhook returned response.patch but not response.patchType",
            ),
        ] {
            assert_eq!(read(response, kind).expect_err("invalid"), format!("{invalid}{why}"));
        }
        let undecodable = read(json!({"uid": "u", "patch": "!!"}), WebhookKind::Mutating).expect_err("no base64");
        assert_eq!(
            undecodable,
            "failed to call webhook: illegal base64 data at input byte 0"
        );
    }

    #[test]
    fn a_refusal_has_the_code_and_the_reason_that_the_webhook_gives() {
        let refusal = |status: Value| {
            let verdict = WebhookVerdict {
                status,
                ..WebhookVerdict::default()
            };
            let error = verdict.refusal("h");
            let given = error.webhook_status.expect("a status");
            (error.message, given.code, given.reason)
        };
        let denied = "admission webhook \"h\" denied the request";
        assert_eq!(
            refusal(Value::Null),
            (format!("{denied} without explanation"), 400, String::new())
        );
        assert_eq!(
            refusal(json!({"code": 418, "message": "tea"})),
            (format!("{denied}: tea"), 418, String::new())
        );
        assert_eq!(
            refusal(json!({"reason": "NoWay"})),
            (format!("{denied}: NoWay"), 400, "NoWay".to_owned())
        );
    }
}
