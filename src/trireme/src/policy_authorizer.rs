//! The authorizer as expressions of admission policies ask it.

use std::sync::Arc;


use trireme_admission::{Check, CheckObject, Decision, PolicyAuthorizer};
use trireme_auth::{
    Attributes, AuthorizationRequest, Authorizer, AuthorizerChain, BoxFuture, Decision as AuthDecision,
};
use trireme_registry::request::UserInfo;

/// Asks the authorizers of the settings.
pub(crate) struct ChainForPolicies(pub(crate) Arc<AuthorizerChain>);

impl PolicyAuthorizer for ChainForPolicies {
    fn decide<'a>(&'a self, user: &'a UserInfo, check: &'a Check) -> BoxFuture<'a, Decision> {
        let wanted = match &check.object {
            CheckObject::Resource(resource) => AuthorizationRequest::Resource {
                group: &resource.group,
                version: "*",
                resource: &resource.resource,
                subresource: &resource.subresource,
                namespace: &resource.namespace,
                name: &resource.name,
            },
            CheckObject::Path(path) => AuthorizationRequest::Path(path),
            CheckObject::Nothing | CheckObject::Group(_) => AuthorizationRequest::Path(""),
        };
        let attributes = Attributes {
            user,
            verb: &check.verb,
            wanted,
        };
        Box::pin(async move { decision(self.0.authorize(attributes).await) })
    }
}

fn decision(decision: AuthDecision) -> Decision {
    let (allowed, reason, error) = match decision {
        AuthDecision::Allow(reason) => (true, reason, None),
        AuthDecision::Deny(reason) | AuthDecision::NoOpinion(reason) => (false, reason, None),
        AuthDecision::Failed(error) => (false, String::new(), Some(error)),
    };
    Decision { allowed, reason, error }
}
