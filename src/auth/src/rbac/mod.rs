//! RBAC: what roles allow those whom bindings name (`plugin/pkg/auth/authorizer/rbac`).
//!
//! ```text
//! roles, clusterroles,          ┌── PolicyFold ──► RbacPolicy (immutable) ◄── RbacAuthorizer: requests, rules of a user
//! rolebindings,          ──view─┤
//! clusterrolebindings           └─────────────────────────────────────── ◄── EscalationCheck: writes of these objects
//! ```
//!
//! Promise: a request is answered from one snapshot without a lock. [`Authorizer::settle`] makes what was written before
//! it count.

#[cfg(feature = "testing")]
pub(crate) mod bench;
mod compiled;
mod escalation;
mod grants;
mod policy;
#[cfg(test)]
mod properties;
mod resolve;
mod roles;

use std::{ops::ControlFlow, sync::Arc, time::Instant};

use trireme_actors::ActorSystem;
use trireme_machinery::{ApiError, go_text::aggregate_errors};
use trireme_registry::{PublishedSurface, Readiness, View, request::UserInfo};

pub use self::escalation::EscalationCheck;
use self::{
    policy::{PolicyFold, RbacPolicy},
    roles::{CheckedRoles, RequestFilter},
};
use crate::{
    authenticator::BoxFuture,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision},
    rules::{PathRule, ResourceRule, RuleResolver, Rules},
};

const GROUP: &str = "rbac.authorization.k8s.io";
const VERSION: &str = "v1";

/// Answers by roles and bindings. Cheap to clone.
#[derive(Clone)]
pub struct RbacAuthorizer {
    policy: View<RbacPolicy>,
}

impl RbacAuthorizer {
    /// Starts to follow roles and bindings as soon as they are served.
    pub fn start(system: &ActorSystem, served: &PublishedSurface) -> Self {
        let sources = policy::SOURCES.map(|plural| served.resource(GROUP, VERSION, plural));
        Self {
            policy: View::start_when_served(system, "rbac", sources.to_vec(), PolicyFold::default),
        }
    }

    /// The view, for readiness.
    pub fn view(&self) -> Arc<dyn Readiness> {
        Arc::new(self.policy.clone())
    }

    fn decide_by(policy: &RbacPolicy, attributes: &Attributes<'_>) -> Decision {
        if policy.has_no_bindings() && is_probe(attributes) {
            return Decision::Allow("RBAC: probes are open until there are bindings".to_owned());
        }
        let namespace = match attributes.wanted {
            AuthorizationRequest::Resource { namespace, .. } => namespace,
            AuthorizationRequest::Path(_) => "",
        };
        let filter = RequestFilter::of(attributes);
        let (mut checked, mut missing) = (CheckedRoles::new(), Vec::new());
        let allowed = policy.visit(attributes.user, namespace, |grant| {
            if checked.is_new(grant.role) {
                match policy.table.role(grant.role) {
                    Some(role) if role.allows(&filter, attributes) => return ControlFlow::Break(&grant.binding),
                    Some(_) => {}
                    None => missing.push(grant.binding.role.not_found()),
                }
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(binding) = allowed {
            return Decision::Allow(binding.reason(attributes.user));
        }
        Decision::NoOpinion(match aggregate_errors(&missing) {
            Some(errors) => format!("RBAC: {errors}"),
            None => String::new(),
        })
    }
}

/// Reports whether a request is a probe of the server's health. The bootstrap policy opens these paths to all clients; before it
/// is written they must be open too, else what starts replicas by their probes never gets a quorum that could write it.
fn is_probe(attributes: &Attributes<'_>) -> bool {
    matches!(attributes.verb, "get" | "head")
        && matches!(
            attributes.wanted,
            AuthorizationRequest::Path("/healthz" | "/livez" | "/readyz")
        )
}

impl Authorizer for RbacAuthorizer {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Self::decide_by(&self.policy.load(), &attributes)))
    }

    fn settle(&self, deadline: Instant) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async move { self.policy.wait_for_now(deadline).await.map(|_| ()) })
    }
}

impl RuleResolver for RbacAuthorizer {
    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        let (rules, error) = self.policy.load().rules_of(user, namespace);
        let mut listed = Rules {
            error,
            ..Rules::default()
        };
        for rule in rules {
            if !rule.resources.is_empty() {
                listed.resources.push(ResourceRule {
                    verbs: rule.verbs.clone(),
                    groups: rule.api_groups.clone(),
                    resources: rule.resources.clone(),
                    names: rule.resource_names.clone(),
                });
            }
            if !rule.non_resource_urls.is_empty() {
                listed.paths.push(PathRule {
                    verbs: rule.verbs,
                    paths: rule.non_resource_urls,
                });
            }
        }
        Box::pin(std::future::ready(listed))
    }
}

#[cfg(test)]
mod tests;
