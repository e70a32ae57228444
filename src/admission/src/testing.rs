//! For fuzzing: what reads certificate signing requests and the answers of webhooks, without the writes and servers around them.

use serde_json::Value;
use trireme_machinery::ApiError;

use crate::{
    certificate_subject_restriction, node_restriction,
    webhooks::{
        configuration::{ReviewVersion, WebhookKind},
        verdict::{HookFailure, WebhookVerdict},
    },
};

/// Reports whether a signing request, PEM in base64, is for `system:masters`; `None` if it cannot be read.
pub fn is_request_for_masters(request: &str) -> Option<bool> {
    certificate_subject_restriction::is_for_masters(request)
}

/// The common name that a signing request, PEM in base64, is for.
///
/// # Errors
/// If it cannot be read.
pub fn common_name_of_request(request: &str) -> Result<String, &'static str> {
    node_restriction::requests::common_name(request)
}

/// The versions of reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookVersion {
    /// `admission.k8s.io/v1`
    V1,
    /// `admission.k8s.io/v1beta1`
    V1Beta1,
}

/// The kinds of webhooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookKind {
    /// They may change objects.
    Mutating,
    /// They may refuse them.
    Validating,
}

/// An answer that counts.
#[derive(Debug)]
pub struct Verdict {
    /// The webhook allows the write.
    pub allowed: bool,
    /// Its JSON patch, if there is one.
    pub patch: Option<Vec<u8>>,
    /// The error of a write that it does not allow, if its name is `h`.
    pub refusal: ApiError,
}

/// Reads the answer to the review of this uid.
///
/// # Errors
/// If it is none that counts.
pub fn read_verdict(answer: &Value, uid: &str, version: HookVersion, kind: HookKind) -> Result<Verdict, String> {
    let version = match version {
        HookVersion::V1 => ReviewVersion::V1,
        HookVersion::V1Beta1 => ReviewVersion::V1Beta1,
    };
    let kind = match kind {
        HookKind::Mutating => WebhookKind::Mutating,
        HookKind::Validating => WebhookKind::Validating,
    };
    let read = WebhookVerdict::read(answer, uid, version, kind);
    let read = read.map_err(|failure| match failure {
        HookFailure::Calling { reason, .. } => reason,
        HookFailure::Rejected(error) | HookFailure::Server(error) => error.message,
    })?;
    Ok(Verdict {
        allowed: read.allowed,
        refusal: read.refusal("h"),
        patch: read.patch,
    })
}
