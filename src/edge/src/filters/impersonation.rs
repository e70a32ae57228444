//! Requests in the name of somebody else. They are not carried out yet, and never as if the headers were not there.

use actix_http::{HttpMessage, Request};
use actix_web::http::header::HeaderName;
use trireme_auth::{Attributes, AuthorizationRequest, Decision, forbidden};
use trireme_machinery::ApiError;

use crate::{
    exchange::{Exchange, header_text},
    state::ChainState,
    status::not_implemented,
};

/// The common start of all headers of impersonation.
const PREFIX: &str = "impersonate-";
const USER: HeaderName = HeaderName::from_static("impersonate-user");
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Lets requests pass that speak for nobody else.
///
/// # Errors
/// 400 without the user to speak for, 403 for those who may not, 501 for those who may.
pub(crate) async fn refuse(state: &ChainState, exchange: &Exchange, request: &Request) -> Result<(), ApiError> {
    if !request.headers().keys().any(|name| name.as_str().starts_with(PREFIX)) {
        return Ok(());
    }
    let whom = header_text(request.headers(), USER).unwrap_or_default();
    if whom.is_empty() {
        let text = "impersonation headers without Impersonate-User: say whom to speak for";
        return Err(ApiError::bad_request(text));
    }
    let user = exchange.user();
    let account = whom
        .strip_prefix(SERVICE_ACCOUNT)
        .and_then(|account| account.split_once(':'));
    let (resource, namespace, name) = match account {
        Some((namespace, name)) => ("serviceaccounts", namespace, name),
        None => ("users", "", whom.as_ref()),
    };
    let attributes = Attributes {
        user: &user,
        verb: "impersonate",
        wanted: AuthorizationRequest::Resource {
            group: "",
            version: "v1",
            resource,
            subresource: "",
            namespace,
            name,
        },
    };
    match state.authorizer.authorize(attributes).await {
        Decision::Allow(_) => Err(not_implemented("impersonation")),
        Decision::Deny(why) | Decision::NoOpinion(why) => Err(forbidden(&attributes, &why)),
    }
}
