//! The question that plugins ask of the authorizers.

use futures_util::future::BoxFuture;
use trireme_cel::{AuthorizerCheck, CheckDecision};
use trireme_registry::request::UserInfo;

/// An access to objects that a plugin asks about.
#[derive(Debug, Clone, Copy)]
pub struct PermissionRequest<'a> {
    /// The user.
    pub user: &'a UserInfo,
    /// `update`, `sign`, …
    pub verb: &'a str,
    /// API group.
    pub group: &'a str,
    /// API version; `*` for those that no URL has.
    pub version: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// `finalizers`, or empty.
    pub subresource: &'a str,
    /// Empty at the cluster scope.
    pub namespace: &'a str,
    /// The name of the object.
    pub name: &'a str,
}

/// Says what users may do. Made from the authorizers by the composition root: admission knows no room that has any.
pub trait Permissions: Send + Sync + 'static {
    /// Allows the access, or says why not as a refused user reads it; what cannot be found out is not allowed.
    fn require<'a>(&'a self, access: PermissionRequest<'a>) -> BoxFuture<'a, Result<(), String>>;

    /// Reports whether the access is allowed.
    fn allow<'a>(&'a self, access: PermissionRequest<'a>) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.require(access).await.is_ok() })
    }

    /// The decision about a check that an expression makes.
    fn decide<'a>(&'a self, user: &'a UserInfo, check: &'a AuthorizerCheck) -> BoxFuture<'a, CheckDecision>;
}
