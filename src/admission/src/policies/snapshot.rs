//! The policies with their bindings, derived from both resources.

use std::sync::Arc;

use trireme_actors::ActorSystem;
use trireme_registry::{Entries, Fold, Item, ItemKey, PublishedSurface, View, WriteRequest, item};

use super::policy::{Binding, Policy, PolicyRules};

const GROUP: &str = "admissionregistration.k8s.io";
const BINDINGS: usize = 1;

/// The policies that are bound, by name.
pub(super) struct PolicySet<R>(Vec<BoundPolicy<R>>);

/// A policy and its bindings by name.
pub(super) struct BoundPolicy<R> {
    pub(super) policy: Arc<Policy<R>>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

impl<R: PolicyRules> PolicySet<R> {
    /// Follows policies and bindings.
    pub(super) fn follow(
        system: &ActorSystem,
        surface: &PublishedSurface,
        (policies, bindings): (&'static str, &'static str),
    ) -> View<Self> {
        let sources = vec![
            surface.resource(GROUP, "v1", policies),
            surface.resource(GROUP, "v1", bindings),
        ];
        View::start_when_served(system, policies, sources, BoundPolicyFold::<R>::default)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &BoundPolicy<R>> {
        self.0.iter()
    }

    /// Reports whether a policy may be for a request.
    pub(super) fn may_match(&self, request: &WriteRequest) -> bool {
        self.0.iter().any(|bound| bound.policy.constraints.may_match(request))
    }
}

struct BoundPolicyFold<R> {
    policies: Entries<Policy<R>>,
    bindings: Entries<Binding>,
}

impl<R> Default for BoundPolicyFold<R> {
    fn default() -> Self {
        Self {
            policies: Entries::default(),
            bindings: Entries::default(),
        }
    }
}

impl<R: PolicyRules> Fold for BoundPolicyFold<R> {
    type Value = PolicySet<R>;

    fn put(&mut self, source: usize, item: &Arc<Item>) {
        let Ok(object) = item::parse(item) else {
            return;
        };
        if source == BINDINGS {
            self.bindings.insert(item.key.clone(), Binding::read(&object));
        } else {
            self.policies.insert(item.key.clone(), Policy::compile(&object));
        }
    }

    fn remove(&mut self, source: usize, key: &ItemKey) {
        if source == BINDINGS {
            self.bindings.remove(key);
        } else {
            self.policies.remove(key);
        }
    }

    fn value(&self) -> PolicySet<R> {
        let bound = self.policies.iter().map(|(name, policy)| BoundPolicy {
            policy: Arc::clone(policy),
            bindings: self
                .bindings
                .iter()
                .filter(|(_, binding)| *binding.policy == **name)
                .map(|(_, binding)| Arc::clone(binding))
                .collect(),
        });
        PolicySet(bound.filter(|bound| !bound.bindings.is_empty()).collect())
    }
}
