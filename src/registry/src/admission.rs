//! The admission chain's trait; the plugins live in the `admission` room.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use trireme_machinery::{ApiError, GroupVersionKind, GroupVersionResource};

use crate::request::UserInfo;

/// What is being done to the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A change.
    Update,
    /// A deletion.
    Delete,
    /// A connection to a subresource.
    Connect,
}

/// A request as admission sees it.
#[derive(Debug, Clone)]
pub struct Attributes {
    /// What is being done.
    pub operation: Operation,
    /// The kind as requested.
    pub kind: GroupVersionKind,
    /// The resource as requested.
    pub resource: GroupVersionResource,
    /// `status`, `scale`, …; empty for the object itself.
    pub subresource: String,
    /// Empty for cluster-scoped resources.
    pub namespace: String,
    /// Empty for a create with `generateName`.
    pub name: String,
    /// Who asks.
    pub user: UserInfo,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// The object as it would be stored; none on delete.
    pub object: Option<Value>,
    /// The object as it is; none on create.
    pub old_object: Option<Arc<Value>>,
    /// `Warning` texts for the client, added by plugins.
    pub warnings: Vec<String>,
}

/// A chain of plugins, or one of them. All of a chain's `mutate` run before any `validate`.
pub trait Admission: Send + Sync + 'static {
    /// May change `object` or refuse.
    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>>;

    /// May refuse.
    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>>;
}
