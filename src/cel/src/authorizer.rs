//! Questions of expressions to an authorizer (`k8s.io/apiserver/pkg/cel/library/authz.go`).
//!
//! The authorizer answers from a snapshot, without waiting: an authorizer that asks others has to be asked before the
//! expression is evaluated, or on a thread that may wait.

use std::fmt;

use trireme_machinery::selector::{FieldSelector, LabelSelector};

/// Answers whether a user may do something.
pub trait CheckAuthorizer: Sync {
    /// The decision about a check.
    fn authorize(&self, check: &AuthorizerCheck) -> CheckDecision;
}

/// An authorizer that lives as long as the evaluation.
#[derive(Clone, Copy)]
pub struct AuthorizerRef<'v>(pub &'v dyn CheckAuthorizer);

impl fmt::Debug for AuthorizerRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authorizer")
    }
}

/// A check, complete once it has a verb.
#[derive(Debug, Clone, Default)]
pub struct AuthorizerCheck {
    /// The verb that is asked for.
    pub verb: String,
    /// The service account that is asked about instead of the user of the request: namespace and name.
    pub service_account: Option<(String, String)>,
    /// The object of the check.
    pub object: CheckObject,
}

/// The object of a check.
#[derive(Debug, Clone, Default)]
pub enum CheckObject {
    /// None yet.
    #[default]
    Nothing,
    /// A path that is no resource.
    Path(String),
    /// A group, with no resource yet.
    Group(String),
    /// A resource.
    Resource(Box<ResourceCheck>),
}

/// A resource that a check is about.
#[derive(Debug, Clone, Default)]
pub struct ResourceCheck {
    /// The API group.
    pub group: String,
    /// The plural name.
    pub resource: String,
    /// The subresource, if any.
    pub subresource: String,
    /// The namespace, if any.
    pub namespace: String,
    /// The name, if any.
    pub name: String,
    /// The field selector, or why there is none.
    pub field_selector: Option<Result<FieldSelector, String>>,
    /// The label selector, or why there is none.
    pub label_selector: Option<Result<LabelSelector, String>>,
}

/// The answer of an authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckDecision {
    /// It is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// The error of the check, if it had one.
    pub error: Option<String>,
}

impl AuthorizerCheck {
    pub(crate) const fn type_name(&self) -> &'static str {
        match self.object {
            CheckObject::Nothing => "kubernetes.authorization.Authorizer",
            CheckObject::Path(_) => "kubernetes.authorization.PathCheck",
            CheckObject::Group(_) => "kubernetes.authorization.GroupCheck",
            CheckObject::Resource(_) => "kubernetes.authorization.ResourceCheck",
        }
    }
}
