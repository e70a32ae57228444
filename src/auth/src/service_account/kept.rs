//! Tokens that Secrets of the type `kubernetes.io/service-account-token` keep. kube-controller-manager makes them
//! when such a Secret is created; they have no expiry and no audience, and are good for as long as their Secret
//! holds them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use trireme_machinery::ApiError;
use trireme_registry::request::UserInfo;

use super::{
    INVALID_CLAIMS, INVALIDATED, ObjectIdentity, ServiceAccountTokens, TokenError, account_user, seen_or_latest,
};

/// In whose name they are signed, whatever the issuer of other tokens is called.
pub(super) const ISSUER: &str = "kubernetes/serviceaccount";
/// A Secret with this label does not count: it was long unused.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Returns true if a token is one of these. Another issuer may have the same name: the claims of its tokens stand
/// elsewhere.
pub(super) fn is_kept(claims: &Value) -> bool {
    claims["iss"] == ISSUER && claims.get("kubernetes.io").is_none()
}

impl ServiceAccountTokens {
    /// The service account whose token this is, if its Secret holds it.
    pub(super) async fn user_of_kept(&self, token: &str, claims: &Value) -> Result<UserInfo, TokenError> {
        let claim = |name: &str| {
            let claim = claims[format!("kubernetes.io/serviceaccount/{name}")].as_str();
            let claim = claim.filter(|value| !value.is_empty());
            claim.ok_or(TokenError::Bad(INVALID_CLAIMS))
        };
        let (namespace, secret) = (claim("namespace")?, claim("secret.name")?);
        let (account, uid) = (claim("service-account.name")?, claim("service-account.uid")?);
        let name = format!("system:serviceaccount:{namespace}:{account}");
        if claims["sub"] != name.as_str() {
            return Err(TokenError::Bad("the subject is not the service account"));
        }
        let holds = |object: &Value| is_staying(object) && object["data"]["token"] == STANDARD.encode(token);
        let is_valid = |object: &Value| holds(object) && object["metadata"]["labels"][INVALID_SINCE].is_null();
        let is_kept = |found: Result<Value, ApiError>| or_gone(found.is_ok_and(|object| is_valid(&object)));
        seen_or_latest(
            |latest| self.objects.find("secrets", namespace, secret, latest),
            is_kept,
        )
        .await?;
        let is_account = |object: &ObjectIdentity| object.leaves.is_none() && *object.uid == *uid;
        let is_there = |found: Result<ObjectIdentity, ApiError>| or_gone(found.is_ok_and(|object| is_account(&object)));
        let identify = |latest| self.objects.identify("serviceaccounts", namespace, account, latest);
        seen_or_latest(identify, is_there).await?;
        Ok(account_user(name, uid.to_owned(), namespace))
    }
}

fn or_gone(is_there: bool) -> Result<(), TokenError> {
    if is_there {
        Ok(())
    } else {
        Err(TokenError::Bad(INVALIDATED))
    }
}

fn is_staying(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null()
}
