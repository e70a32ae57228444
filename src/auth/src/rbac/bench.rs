//! The compiled policy for benches.

use serde_json::Value;
use trireme_registry::{Fold as _, ItemKey};

use super::{
    RbacAuthorizer,
    policy::{PolicyFold, RbacPolicy, SOURCES},
};
use crate::authorizer::{Attributes, Decision};

/// Roles and bindings, taken in one at a time.
#[derive(Default)]
pub struct PolicyBuilder(PolicyFold);

impl PolicyBuilder {
    /// Takes in an object of `clusterroles`, `clusterrolebindings`, `roles` or `rolebindings`; others are left out.
    pub fn put(&mut self, plural: &str, key: &str, object: &Value) {
        if let Some(source) = SOURCES.iter().position(|source| *source == plural) {
            self.0.put_object(source, &ItemKey::from(key), object);
        }
    }

    /// Publishes what has been taken in, as the view does after every change.
    pub fn publish(&self) -> PublishedPolicy {
        PublishedPolicy(self.0.value())
    }
}

/// A snapshot that requests are authorized by.
pub struct PublishedPolicy(RbacPolicy);

impl PublishedPolicy {
    /// Decides.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        RbacAuthorizer::decide_by(&self.0, attributes)
    }
}
