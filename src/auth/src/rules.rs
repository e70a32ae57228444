//! The trait of everything that can list what a user may do: what `kubectl auth can-i --list` shows.
//!
//! An [`Authorizer`](crate::Authorizer) answers one question; this is for those who want to know beforehand which answers
//! will be yes.

use trireme_registry::request::UserInfo;

use crate::authenticator::BoxFuture;

/// Verbs that may be used on objects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceRule {
    /// `get`, `list`, …; `*` stands for all.
    pub verbs: Vec<String>,
    /// The API groups; empty stands for core, `*` for all.
    pub groups: Vec<String>,
    /// Plurals, with `/subresource`; `*` stands for all.
    pub resources: Vec<String>,
    /// The objects' names; none stands for all.
    pub names: Vec<String>,
}

/// Verbs that may be used on paths that are no resources.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathRule {
    /// Methods in lower case; `*` stands for all.
    pub verbs: Vec<String>,
    /// Paths; `*` at the end stands for whatever follows.
    pub paths: Vec<String>,
}

/// The rules of a user in a namespace and beside it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// On objects.
    pub resources: Vec<ResourceRule>,
    /// On other paths.
    pub paths: Vec<PathRule>,
    /// There may be more than is listed.
    pub is_incomplete: bool,
    /// The error that came up while they were listed.
    pub error: Option<String>,
}

/// Lists what a user may do.
pub trait RuleResolver: Send + Sync + 'static {
    /// Lists it, as far as it concerns a namespace or no object in any.
    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules>;
}
