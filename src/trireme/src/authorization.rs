//! Brings up what says who may do what: the authorizers of the settings, and the check that nobody grants more than he
//! has.

use std::sync::Arc;

use trireme_actors::ActorSystem;
use trireme_admission::{Check, CheckObject, Decision as CelDecision, PermissionRequest, Permissions};
use trireme_auth::{
    AlwaysAllow, AlwaysDeny, Attributes, AuthorizationMode, AuthorizationRequest, Authorizer as _, AuthorizerChain,
    BoxFuture, Decision, EscalationCheck, NodeAuthorizer, RbacAuthorizer, RequestSelectors,
};
use trireme_registry::{PublishedSurface, Readiness, request::UserInfo};

use crate::settings::{ModeName, Settings};

/// The authorizers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Authorization {
    /// All of them in their order.
    pub(crate) chain: Arc<AuthorizerChain>,
    rbac: RbacAuthorizer,
    node: Option<NodeAuthorizer>,
}

impl Authorization {
    /// Starts them; what they follow may be served later.
    pub(crate) fn start(system: &ActorSystem, settings: &Settings, served: &PublishedSurface) -> Self {
        // Also without the mode RBAC: what roles and bindings grant is checked whenever they are written.
        let rbac = RbacAuthorizer::start(system, served);
        let node = settings.authorization.contains(&ModeName::Node);
        let node = node.then(|| NodeAuthorizer::start(system, served));
        let modes = settings.authorization.iter().filter_map(|mode| match mode {
            ModeName::AlwaysAllow => Some(AuthorizationMode::of(AlwaysAllow)),
            ModeName::AlwaysDeny => Some(AuthorizationMode::of(AlwaysDeny)),
            ModeName::Rbac => Some(AuthorizationMode::of(rbac.clone())),
            ModeName::Node => node.clone().map(AuthorizationMode::of),
            // The settings are refused that name it without policies.
            ModeName::Abac => settings.abac.clone().map(AuthorizationMode::shared),
        });
        Self {
            chain: Arc::new(AuthorizerChain::new(modes.collect())),
            rbac,
            node,
        }
    }

    /// The last of the plugins that may change an object.
    pub(crate) fn escalation_check(&self, system: &ActorSystem) -> EscalationCheck {
        EscalationCheck::new(self.rbac.clone(), self.chain.clone(), system.clock().clone())
    }

    /// The authorizers as admission plugins ask them.
    pub(crate) fn permissions(&self) -> Arc<dyn Permissions> {
        Arc::new(ChainPermissions(Arc::clone(&self.chain)))
    }

    /// The views that readiness waits for.
    pub(crate) fn views(&self) -> impl Iterator<Item = Arc<dyn Readiness>> {
        std::iter::once(self.rbac.view()).chain(self.node.as_ref().map(NodeAuthorizer::view))
    }
}

struct ChainPermissions(Arc<AuthorizerChain>);

impl Permissions for ChainPermissions {
    fn allow<'a>(&'a self, request: PermissionRequest<'a>) -> BoxFuture<'a, bool> {
        let PermissionRequest {
            user,
            verb,
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        } = request;
        let wanted = AuthorizationRequest::Resource {
            group,
            version,
            resource,
            subresource,
            namespace,
            name,
        };
        let selectors = RequestSelectors::default();
        let decided = self.0.authorize(Attributes {
            user,
            verb,
            wanted,
            selectors,
        });
        Box::pin(async move { matches!(decided.await, Decision::Allow(_)) })
    }

    fn decide<'a>(&'a self, user: &'a UserInfo, check: &'a Check) -> BoxFuture<'a, CelDecision> {
        let mut selectors = RequestSelectors::default();
        let wanted = match &check.object {
            CheckObject::Resource(resource) => {
                selectors = RequestSelectors {
                    fields: resource.field_selector.as_ref().and_then(|parsed| parsed.as_ref().ok()),
                    labels: resource.label_selector.as_ref().and_then(|parsed| parsed.as_ref().ok()),
                };
                AuthorizationRequest::Resource {
                    group: &resource.group,
                    version: "*",
                    resource: &resource.resource,
                    subresource: &resource.subresource,
                    namespace: &resource.namespace,
                    name: &resource.name,
                }
            }
            CheckObject::Path(path) => AuthorizationRequest::Path(path),
            // The checker of expressions lets nobody ask before there is an object.
            CheckObject::Nothing | CheckObject::Group(_) => AuthorizationRequest::Path(""),
        };
        let decided = self.0.authorize(Attributes {
            user,
            verb: &check.verb,
            wanted,
            selectors,
        });
        Box::pin(async move { cel_decision(decided.await) })
    }
}

/// A decision as expressions see it.
fn cel_decision(decision: Decision) -> CelDecision {
    let (allowed, reason, error) = match decision {
        Decision::Allow(reason) => (true, reason, None),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => (false, reason, None),
        Decision::Failed(error) => (false, String::new(), Some(error)),
    };
    CelDecision { allowed, reason, error }
}
