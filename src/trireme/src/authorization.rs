//! Brings up authorization: the authorizers of the settings, and the check that users grant only permissions that they
//! have.

use std::collections::BTreeSet;
use std::sync::Arc;

use trireme_actors::{ActorSystem, Clock};
use trireme_admission::{AuthorizerCheck, CheckDecision as CelDecision, CheckObject, PermissionRequest, Permissions};
use trireme_auth::{
    AbacPolicies, AlwaysAllow, AlwaysDeny, Attributes, AuthorizationMode, AuthorizationRequest, Authorizer as _,
    AuthorizerChain, AuthorizerType, BoxFuture, Decision, EscalationCheck, NodeAuthorizer, RbacAuthorizer,
    RequestSelectors, ReviewWebhook, WebhookAuthorizer, forbidden,
};
use trireme_http::client::{Client, ClientSettings};
use trireme_registry::{PublishedSurface, Readiness, request::UserInfo};

use crate::settings::{AuthorizerSettings, Settings, of_configuration};

/// The kinds of pods' certificates, which the graph of nodes has if it is served.
const POD_CERTIFICATES: (&str, &str) = ("certificates.k8s.io", "podcertificaterequests");

fn node_authorizer(system: &ActorSystem, settings: &Settings, served: &PublishedSurface) -> NodeAuthorizer {
    let row = trireme_schema::resource(POD_CERTIFICATES.0, POD_CERTIFICATES.1);
    let has_pod_certificates = row.is_some_and(|row| {
        let mut versions = row.versions.iter();
        versions.any(|version| settings.apis.serves(row, version))
    });
    let features = settings.feature_gates.features();
    NodeAuthorizer::start(system, served, features, has_pod_certificates)
}

/// The authorizers. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Authorization {
    /// All of them in their order.
    pub(crate) chain: Arc<AuthorizerChain>,
    parts: Arc<AuthorizerParts>,
}

/// The parts that last while the authorizers of the configuration come and go.
struct AuthorizerParts {
    rbac: RbacAuthorizer,
    node: Option<NodeAuthorizer>,
    abac: Option<Arc<AbacPolicies>>,
    client: Client,
    clock: Clock,
    /// The kinds that were there at the start, but for webhooks: they must stay, and no others may come.
    started_with: BTreeSet<AuthorizerType>,
}

impl Authorization {
    /// Starts them; what they follow may be served later.
    pub(crate) fn start(system: &ActorSystem, whole: &Settings, served: &PublishedSurface) -> Self {
        let settings = &whole.authorization;
        let kinds = settings.authorizers.iter().map(|it| it.kind);
        let started_with: BTreeSet<AuthorizerType> = kinds.filter(|kind| *kind != AuthorizerType::Webhook).collect();
        let (clock, tasks) = (system.clock().clone(), system.tasks().clone());
        let has_node = started_with.contains(&AuthorizerType::Node);
        let parts = AuthorizerParts {
            // Also without the mode RBAC: what roles and bindings grant is checked whenever they are written.
            rbac: RbacAuthorizer::start(system, served),
            node: has_node.then(|| node_authorizer(system, whole, served)),
            abac: settings.abac.clone(),
            client: Client::new("authorization-webhook", ClientSettings::default(), clock.clone(), tasks),
            clock,
            started_with,
        };
        let modes = settings.authorizers.iter().filter_map(|it| parts.mode(it));
        Self {
            chain: Arc::new(AuthorizerChain::new(modes.collect())),
            parts: Arc::new(parts),
        }
    }

    /// Takes the authorizers of another configuration, unless it cannot be used.
    pub(crate) fn reload(&self, content: &[u8]) -> Result<(), String> {
        let authorizers = of_configuration(content)?;
        let kinds: BTreeSet<AuthorizerType> = authorizers.iter().map(|it| it.kind).collect();
        let missing: Vec<&str> = self.parts.started_with.difference(&kinds).map(|it| it.name()).collect();
        if !missing.is_empty() {
            return Err(format!("missing required types: [{}]", missing.join(" ")));
        }
        for kind in [AuthorizerType::Node, AuthorizerType::Abac, AuthorizerType::Rbac] {
            if kinds.contains(&kind) && !self.parts.started_with.contains(&kind) {
                let name = kind.name();
                return Err(format!(
                    "authorizer type {name} is not allowed if it was not enabled at initial server startup"
                ));
            }
        }
        let modes = authorizers.iter().filter_map(|it| self.parts.mode(it));
        self.chain.replace(modes.collect());
        Ok(())
    }

    /// The last of the plugins that may change an object.
    pub(crate) fn escalation_check(&self, system: &ActorSystem) -> EscalationCheck {
        EscalationCheck::new(self.parts.rbac.clone(), self.chain.clone(), system.clock().clone())
    }

    /// The authorizers as admission plugins ask them.
    pub(crate) fn permissions(&self) -> Arc<dyn Permissions> {
        Arc::new(ChainPermissions(Arc::clone(&self.chain)))
    }

    /// The views that readiness waits for.
    pub(crate) fn views(&self) -> impl Iterator<Item = Arc<dyn Readiness>> {
        std::iter::once(self.parts.rbac.view()).chain(self.parts.node.as_ref().map(NodeAuthorizer::view))
    }
}

impl AuthorizerParts {
    /// Makes an authorizer. The settings name none without what it is made of.
    fn mode(&self, settings: &AuthorizerSettings) -> Option<AuthorizationMode> {
        let (kind, name) = (settings.kind, settings.name.as_str());
        Some(match kind {
            AuthorizerType::AlwaysAllow => AuthorizationMode::new(kind, name, Arc::new(AlwaysAllow)),
            AuthorizerType::AlwaysDeny => AuthorizationMode::new(kind, name, Arc::new(AlwaysDeny)),
            AuthorizerType::Rbac => AuthorizationMode::new(kind, name, Arc::new(self.rbac.clone())),
            AuthorizerType::Node => AuthorizationMode::new(kind, name, Arc::new(self.node.clone()?)),
            AuthorizerType::Abac => AuthorizationMode::new(kind, name, self.abac.clone()?),
            AuthorizerType::Webhook => {
                let (server, webhook) = settings.webhook.clone()?;
                let review = ReviewWebhook::new(server, self.client.clone(), self.clock.clone());
                let authorizer = WebhookAuthorizer::new(review, webhook, self.clock.clone());
                AuthorizationMode::new(kind, name, Arc::new(authorizer))
            }
        })
    }
}

struct ChainPermissions(Arc<AuthorizerChain>);

impl Permissions for ChainPermissions {
    fn require<'a>(&'a self, request: PermissionRequest<'a>) -> BoxFuture<'a, Result<(), String>> {
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
        let attributes = Attributes {
            user,
            verb,
            wanted,
            selectors,
        };
        Box::pin(async move {
            match self.0.authorize(attributes).await {
                Decision::Allow(_) => Ok(()),
                Decision::Deny(why) | Decision::NoOpinion(why) => Err(forbidden(&attributes, &why).message),
                Decision::Failed { error, reason, .. } => {
                    let why = if reason.is_empty() {
                        error
                    } else {
                        format!("{error}: {reason}")
                    };
                    Err(forbidden(&attributes, &why).message)
                }
            }
        })
    }

    fn decide<'a>(&'a self, user: &'a UserInfo, check: &'a AuthorizerCheck) -> BoxFuture<'a, CelDecision> {
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
            // The checker of expressions does not ask before there is an object.
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
        Decision::Failed { error, reason, .. } => (false, reason, Some(error)),
    };
    CelDecision { allowed, reason, error }
}
