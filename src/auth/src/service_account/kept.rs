//! Tokens that Secrets of the type `kubernetes.io/service-account-token` keep. kube-controller-manager makes them for
//! whoever creates such a Secret; they name no end and nobody whom they are for, and are good for as long as their Secret
//! holds them.

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use serde_json::Value;
use trireme_registry::request::UserInfo;

use super::{Rejected, ServiceAccountTokens, account_user};

/// In whose name they are signed, whatever the issuer of other tokens is called.
const ISSUER: &str = "kubernetes/serviceaccount";
/// A Secret with this label does not count: nobody has used it for long.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Whether a token says that it is one of these. Nothing is checked.
pub(super) fn is_kept(token: &str) -> bool {
    let claims = token
        .split('.')
        .nth(1)
        .and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims = claims.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    claims.is_some_and(|claims| claims["iss"] == ISSUER)
}

impl ServiceAccountTokens {
    /// The service account whose token this is, if its Secret holds it.
    pub(super) async fn user_of_kept(&self, token: &str) -> Result<UserInfo, Rejected> {
        let claims = self.signed(token, |rules| {
            rules.set_required_spec_claims(&["iss", "sub"]);
            rules.set_issuer(&[ISSUER]);
            rules.validate_aud = false;
        })?;
        let claim = |name: &str| {
            let claim = claims[format!("kubernetes.io/serviceaccount/{name}")].as_str();
            let claim = claim.filter(|value| !value.is_empty());
            claim.ok_or(Rejected("a token that does not say whose it is"))
        };
        let (namespace, secret) = (claim("namespace")?, claim("secret.name")?);
        let (account, uid) = (claim("service-account.name")?, claim("service-account.uid")?);
        let name = format!("system:serviceaccount:{namespace}:{account}");
        if claims["sub"] != name.as_str() {
            return Err(Rejected("the subject is not the service account"));
        }
        let holds = |object: &Value| is_staying(object) && object["data"]["token"] == STANDARD.encode(token);
        let is_valid = |object: &Value| holds(object) && object["metadata"]["labels"][INVALID_SINCE].is_null();
        self.check_with("secrets", namespace, secret, is_valid).await?;
        let is_account = |object: &Value| is_staying(object) && object["metadata"]["uid"] == uid;
        self.check_with("serviceaccounts", namespace, account, is_account)
            .await?;
        Ok(account_user(name, uid.to_owned(), namespace))
    }
}

fn is_staying(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null()
}
