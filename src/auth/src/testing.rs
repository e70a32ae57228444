//! For benches: roles and bindings, compiled without the registries around them. For fuzzing: what reads tokens and the answers
//! of webhooks, without the servers that give them.

use serde_json::Value;

pub use crate::{
    oidc::testing::{id_token_claims, is_verification_key},
    rbac::bench::{PolicyBuilder, PublishedPolicy},
};
use crate::{
    token::{TokenError, TokenHolder},
    token_webhook,
    webhook_authorizer::review::AccessReviewStatus,
};

/// The holder whom the status of a `TokenReview` names, for those of the audiences that are wanted.
///
/// # Errors
/// If it names none, or none for us.
pub fn reviewed_user(status: &Value, own: &[String], wanted: &[String]) -> Result<TokenHolder, TokenError> {
    token_webhook::judge(status, own, wanted)
}

/// The answer of a webhook that authorizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessVerdict {
    /// It allows the request.
    pub allowed: bool,
    /// It denies it, whatever others say.
    pub denied: bool,
    /// The reason.
    pub reason: String,
}

/// Reads an answered `SubjectAccessReview`.
pub fn access_verdict(answer: &Value) -> AccessVerdict {
    let status = AccessReviewStatus::read(answer);
    AccessVerdict {
        allowed: status.is_allowed,
        denied: status.is_denied,
        reason: status.reason,
    }
}
