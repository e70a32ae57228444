//! The objects of other resources, as the subresources of a kind reach them.
//!
//! Registries implement this from above: strategies and subresources are part of what a registry is made of.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, GroupResource};

use crate::{
    item::Item,
    request::{Answer, DeleteRequest, Deleted, GetRequest, ListRequest, Target, WriteContext},
};

/// A change of an object that the server itself makes.
pub type Rule = dyn Fn(&WriteContext, &mut Value) -> Result<(), ApiError> + Send + Sync;

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

    /// Changes an object by a rule of the server's own: no admission, no validation. On a lost race the rule sees the
    /// newer object.
    fn change(&self, target: Target, dry_run: bool, rule: Arc<Rule>) -> BoxFuture<'_, Result<Answer, ApiError>>;

    /// Deletes an object, or marks it for deletion.
    fn delete(&self, request: DeleteRequest) -> BoxFuture<'_, Result<Deleted, ApiError>>;
}

/// All resources that are served.
pub trait ResourceIndex: Send + Sync {
    /// A resource, by one of its served versions.
    fn objects(&self, group: &str, version: &str, plural: &str) -> Option<Arc<dyn ObjectAccess>>;
}
