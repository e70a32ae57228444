//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`: what users say about writes in CEL
//! (`k8s.io/apiserver/pkg/admission/plugin/policy`).
//!
//! ```text
//!  policies, bindings ──view──► PolicySet {rules, programs}        compiled once per change, shared by all requests
//!  write ─► rules, selectors ─► binding ─► parameters ─► match conditions ─► expressions ─► actions
//! ```
//! A request that no policy matches costs a look at the rules and nothing else; objects are converted, and `request` and the
//! namespace are made, only if a policy that matches speaks of them. A policy whose parameters are of a kind that is not served
//! fails for the requests that one of its bindings selects.

mod mutating;
mod mutation;
mod params;
mod policy;
mod scope;
mod snapshot;
#[cfg(test)]
mod tests;
mod validating;
mod validation;

use std::sync::Arc;

use serde_json::Value;
use trireme_actors::ActorSystem;
use trireme_machinery::ApiError;
use trireme_registry::{Attributes, PublishedSurface, WriteRequest};

use self::{params::ParamScope, policy::Binding};
use crate::{matching, namespaces::Namespaces, permissions::Permissions};

pub(crate) use self::{mutating::MutatingPolicies, validating::ValidatingPolicies};

/// The parts that both plugins are made of.
#[derive(Clone)]
pub(crate) struct PolicyParts {
    pub(crate) system: ActorSystem,
    pub(crate) surface: PublishedSurface,
    pub(crate) namespaces: Namespaces,
    pub(crate) permissions: Arc<dyn Permissions>,
}

impl PolicyParts {
    /// Reports whether a binding is for a request of its policy.
    async fn is_bound(&self, binding: &Binding, attributes: &Attributes) -> Result<bool, ApiError> {
        match &binding.criteria {
            None => Ok(true),
            Some(criteria) => Ok(criteria.matched(attributes, &self.namespaces).await?.is_some()),
        }
    }

    fn params<'a>(&'a self, attributes: &'a Attributes) -> ParamScope<'a> {
        ParamScope {
            surface: &self.surface,
            namespace: matching::namespace_of(attributes),
            deadline: attributes.target.deadline,
        }
    }

    /// The namespace of a request, if it is wanted and there is one.
    async fn namespace(&self, attributes: &Attributes, is_wanted: bool) -> Result<Value, ApiError> {
        let namespace = attributes.namespace();
        if !is_wanted || namespace.is_empty() {
            return Ok(Value::Null);
        }
        self.namespaces.object(namespace).await
    }
}

/// Reports whether policies are never asked about such a request: it writes policies or their bindings, or is a review. They are asked
/// about configurations of webhooks.
fn is_ignored(request: &WriteRequest) -> bool {
    let is_review = match &*request.resource.group {
        "authentication.k8s.io" => matches!(&*request.resource.resource, "selfsubjectreviews" | "tokenreviews"),
        "authorization.k8s.io" => matches!(
            &*request.resource.resource,
            "localsubjectaccessreviews"
                | "selfsubjectaccessreviews"
                | "selfsubjectrulesreviews"
                | "subjectaccessreviews"
        ),
        _ => false,
    };
    is_review || is_of_policies(request)
}

/// Reports whether a request is about admission policies or their bindings.
pub(crate) fn is_of_policies(request: &WriteRequest) -> bool {
    &*request.resource.group == "admissionregistration.k8s.io"
        && matches!(
            &*request.resource.resource,
            "validatingadmissionpolicies"
                | "validatingadmissionpolicybindings"
                | "mutatingadmissionpolicies"
                | "mutatingadmissionpolicybindings"
        )
}
