//! The objects of other resources, as the subresources of a kind reach them.
//!
//! Registries implement this from above: strategies and subresources are part of what a registry is made of.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, GroupResource};

use crate::{
    item::Item,
    request::{Answer, DeleteRequest, Deleted, GetRequest, ListRequest, Subresource, Target, WriteContext},
};

/// A function that changes an object, or says why it may not be changed.
pub type Rule = dyn Fn(&WriteContext, &mut Value) -> Result<(), ApiError> + Send + Sync;

/// The stages of a change that the server itself makes; each is what kube-apiserver does in some place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleStages {
    /// The commit alone, as `GuaranteedUpdate` of the storage: a pod is bound past its strategy, since admission and
    /// validation have seen the `Binding`.
    CommitOnly,
    /// Preparation and validation as an update of this subresource, but no admission, as `Store.Update` with
    /// `ValidateAllObjectUpdateFunc`.
    WithoutAdmission(Subresource),
    /// All stages of an update of this subresource, as a request over the loopback client.
    All(Subresource),
}

/// A change of an object that the server itself makes by a rule. On a lost race the rule sees the newer object.
#[derive(Clone)]
pub struct RuleChange {
    /// The object.
    pub target: Target,
    /// The stages that the changed object passes.
    pub stages: RuleStages,
    /// Store nothing.
    pub dry_run: bool,
    /// Makes the change.
    pub rule: Arc<Rule>,
}

impl RuleChange {
    /// A change of the user and the object of `target`.
    pub fn new(
        target: Target,
        stages: RuleStages,
        rule: impl Fn(&WriteContext, &mut Value) -> Result<(), ApiError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            target,
            stages,
            dry_run: false,
            rule: Arc::new(rule),
        }
    }

    /// The same change, stored or not.
    #[must_use]
    pub fn with_dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }
}

/// The objects of one resource.
pub trait ObjectAccess: Send + Sync {
    /// The resource.
    fn resource(&self) -> &GroupResource;

    /// The key under which an object is stored.
    fn storage_key(&self, namespace: &str, name: &str) -> String;

    /// Reads one object.
    fn get(&self, request: GetRequest) -> BoxFuture<'_, Result<Arc<Item>, ApiError>>;

    /// Reads a collection.
    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Vec<Arc<Item>>, ApiError>>;

    /// Changes an object by a rule of the server's own.
    fn change(&self, change: RuleChange) -> BoxFuture<'_, Result<Answer, ApiError>>;

    /// Deletes an object, or marks it for deletion. Admission has seen the request that this is the work of, and sees no
    /// other.
    fn delete(&self, request: DeleteRequest) -> BoxFuture<'_, Result<Deleted, ApiError>>;
}

/// All resources that are served.
pub trait ResourceIndex: Send + Sync {
    /// A resource, by one of its served versions.
    fn objects(&self, group: &str, version: &str, plural: &str) -> Option<Arc<dyn ObjectAccess>>;
}
