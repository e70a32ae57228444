//! Finds out whether the user may do this.

use trireme_auth::{Attributes, AuthorizationRequest, Decision, forbidden};
use trireme_machinery::ApiError;
use trireme_registry::request::UserInfo;

use crate::{exchange::Exchange, state::ChainState};

/// Lets the request pass if it may.
///
/// # Errors
/// 403 if not.
pub(crate) async fn authorize(state: &ChainState, exchange: &Exchange) -> Result<(), ApiError> {
    let info = &exchange.info;
    let nobody = UserInfo::default();
    let attributes = Attributes {
        user: exchange.user.get().unwrap_or(&nobody),
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
    };
    match state.authorizer.authorize(attributes).await {
        Decision::Allow(_) => Ok(()),
        Decision::Deny(why) | Decision::NoOpinion(why) => Err(forbidden(&attributes, &why)),
    }
}
