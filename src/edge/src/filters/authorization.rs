//! Finds out whether the user may do this.

use std::{fmt, sync::Arc, time::Duration};

use actix_http::Request;
use actix_web::{HttpResponse, http::StatusCode};
use futures_util::future::BoxFuture;
use trireme_auth::{Attributes, AuthorizationRequest, Authorizer, Decision, RequestSelectors, forbidden};
use trireme_machinery::{ApiError, GroupResource, go_text::quote};
use trireme_registry::request::{CreationCheck, UserInfo};

use crate::{
    exchange::Exchange,
    metrics::access::{self, TimedFilter},
    request_info::RequestInfo,
    respond,
    state::ChainState,
};

/// The group of roles and bindings.
const RBAC: &str = "rbac.authorization.k8s.io";
/// The annotations of audit events.
const DECISION: &str = "authorization.k8s.io/decision";
const REASON: &str = "authorization.k8s.io/reason";
/// The verb that a user needs to delete what cannot be read, beside `delete`.
const UNSAFE_DELETE: &str = "unsafe-delete-ignore-read-errors";
const CREATE: &str = "create";
/// The answer to a change of the rules is held back for at most this long until they count here.
const SETTLES_WITHIN: Duration = Duration::from_secs(1);

/// Lets the request pass if it may.
///
/// # Errors
/// 403 if not. If it is not known whether it may, the answer is that of kube-apiserver, which is no `Status`.
pub(crate) async fn authorize(state: &ChainState, exchange: &Exchange, request: &Request) -> Result<(), HttpResponse> {
    let anonymous = UserInfo::default();
    let attributes = attributes(exchange, exchange.acting_user().unwrap_or(&anonymous));
    let decision = state.authorizer.authorize(attributes).await;
    let took = exchange.lap(&state.clock);
    access::record_authorization(&decision, took);
    annotate(exchange, &decision);
    match decision {
        Decision::Allow(_) => {
            access::record_filter(TimedFilter::Authorization, took);
            Ok(())
        }
        Decision::Deny(why) | Decision::NoOpinion(why) => Err(respond::refused(exchange, forbidden(&attributes, &why))),
        Decision::Failed { error, .. } => Err(internal_error(request, &error)),
    }
}

/// Notes a decision for the audit log.
fn annotate(exchange: &Exchange, decision: &Decision) {
    let (word, why) = match decision {
        Decision::Allow(why) => ("allow", why.as_str()),
        Decision::Deny(why) | Decision::NoOpinion(why) => ("forbid", why.as_str()),
        Decision::Failed { .. } => return exchange.annotate(REASON, "internal error"),
    };
    exchange.annotate(DECISION, word);
    exchange.annotate(REASON, why);
}

/// `responsewriters.InternalError`
fn internal_error(request: &Request, error: &str) -> HttpResponse {
    let text = format!("Internal Server Error: {}: {error}", quote(&request.uri().to_string()));
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    respond::text(StatusCode::INTERNAL_SERVER_ERROR, text + "\n")
}

/// Lets an update or an apply create what it does not find, if its user may create it.
pub(crate) struct CreationAuthorization {
    /// Decides.
    pub(crate) authorizer: Arc<dyn Authorizer>,
    /// The update.
    pub(crate) info: RequestInfo,
}

impl fmt::Debug for CreationAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreationAuthorization").finish_non_exhaustive()
    }
}

impl CreationCheck for CreationAuthorization {
    fn check<'a>(&'a self, user: &'a UserInfo) -> BoxFuture<'a, Result<(), ApiError>> {
        let attributes = Attributes {
            verb: CREATE,
            ..attributes_of(&self.info, user)
        };
        Box::pin(decide(&*self.authorizer, attributes))
    }
}

/// Lets a deletion ignore that its object cannot be read, if its user may do that.
///
/// # Errors
/// 403 if not.
pub(crate) async fn authorize_unsafe_deletion(
    authorizer: &dyn Authorizer,
    exchange: &Exchange,
) -> Result<(), ApiError> {
    let anonymous = UserInfo::default();
    let attributes = Attributes {
        verb: UNSAFE_DELETE,
        ..attributes(exchange, exchange.acting_user().unwrap_or(&anonymous))
    };
    let why = match authorizer.authorize(attributes).await {
        Decision::Allow(_) => return Ok(()),
        Decision::Deny(why) | Decision::NoOpinion(why) => {
            format!("not permitted to do {}, reason: {why}", quote(UNSAFE_DELETE))
        }
        Decision::Failed { error, .. } => {
            format!("error while checking permission for {}, {error}", quote(UNSAFE_DELETE))
        }
    };
    Err(forbidden_object(exchange, why))
}

/// Checks that the user may create the subresource that a request connects to, whatever its method
/// (`pkg/registry/core/pod/rest/authorize.go` of Kubernetes).
///
/// # Errors
/// 403 if not.
pub(crate) async fn authorize_connection(authorizer: &dyn Authorizer, exchange: &Exchange) -> Result<(), ApiError> {
    if exchange.info.verb.as_str() == CREATE {
        return Ok(());
    }
    let anonymous = UserInfo::default();
    let attributes = Attributes {
        verb: CREATE,
        ..attributes(exchange, exchange.acting_user().unwrap_or(&anonymous))
    };
    match authorizer.authorize(attributes).await {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(why) | Decision::NoOpinion(why) => Err(forbidden_object(exchange, why)),
        Decision::Failed { error, .. } => Err(ApiError::internal(&error)),
    }
}

fn forbidden_object(exchange: &Exchange, why: String) -> ApiError {
    let info = &exchange.info;
    let resource = GroupResource {
        group: info.group().into(),
        resource: info.resource().into(),
    };
    ApiError::forbidden(&resource, info.name(), why)
}

async fn decide(authorizer: &dyn Authorizer, attributes: Attributes<'_>) -> Result<(), ApiError> {
    match authorizer.authorize(attributes).await {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(why) | Decision::NoOpinion(why) => Err(forbidden(&attributes, &why)),
        Decision::Failed { error, .. } => Err(ApiError::internal(&error)),
    }
}

/// The question whether a user may do this.
pub(crate) fn attributes<'a>(exchange: &'a Exchange, user: &'a UserInfo) -> Attributes<'a> {
    attributes_of(&exchange.info, user)
}

fn attributes_of<'a>(info: &'a RequestInfo, user: &'a UserInfo) -> Attributes<'a> {
    Attributes {
        user,
        verb: info.verb.as_str(),
        wanted: if info.is_resource {
            AuthorizationRequest::Resource {
                group: info.group(),
                version: info.version(),
                resource: info.resource(),
                subresource: info.subresource(),
                namespace: info.namespace(),
                name: info.name(),
            }
        } else {
            AuthorizationRequest::Path(info.path())
        },
        selectors: RequestSelectors {
            fields: info.field_selector(),
            labels: info.label_selector(),
        },
    }
}

/// Holds back the answer to a change of the rules until they are obeyed here: the next request of who reads it is
/// authorized by them. What was done is done, so a view that does not catch up delays the answer and changes nothing.
pub(crate) async fn settle(state: &ChainState, exchange: &Exchange, response: &HttpResponse) {
    let info = &exchange.info;
    let has_changed_rules = info.is_resource
        && info.group() == RBAC
        && !matches!(info.verb.as_str(), "get" | "list" | "watch")
        && response.status().is_success();
    if !has_changed_rules {
        return;
    }
    if let Err(error) = state.authorizer.settle(state.clock.now() + SETTLES_WITHIN).await {
        tracing::warn!(audit_id = %exchange.audit_id, %error, "rules were changed and are not obeyed here yet");
    }
}
