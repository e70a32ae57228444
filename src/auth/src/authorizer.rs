//! The trait of everything that can say what a user may do, and the words of a refusal.

use std::time::Instant;

use trireme_machinery::{
    ApiError, ErrorDetails, GroupResource, Reason,
    go_text::quote,
    selector::{FieldSelector, LabelSelector},
};
use trireme_registry::request::UserInfo;

use crate::authenticator::BoxFuture;

/// A user and the request to authorize.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    /// The user.
    pub user: &'a UserInfo,
    /// `get`, `list`, `create`, …; for paths that are no resources the method in lower case.
    pub verb: &'a str,
    /// On what.
    pub wanted: AuthorizationRequest<'a>,
    /// On which objects of a collection only.
    pub selectors: RequestSelectors<'a>,
}

/// The selectors of a request for a collection. One that cannot be parsed selects everything here, so that nothing is allowed
/// for its sake.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequestSelectors<'a> {
    /// By fields.
    pub fields: Option<&'a FieldSelector>,
    /// By labels.
    pub labels: Option<&'a LabelSelector>,
}

impl RequestSelectors<'_> {
    /// Reports whether all selected objects have this value in a field.
    pub fn require_field(&self, field: &str, value: &str) -> bool {
        let mut terms = self.fields.map_or(&[][..], FieldSelector::terms).iter();
        terms.any(|term| term.field == field && term.value == value && !term.negated)
    }
}

/// The object or path of a request.
#[derive(Debug, Clone, Copy)]
pub enum AuthorizationRequest<'a> {
    /// Objects.
    Resource {
        /// API group; empty for core.
        group: &'a str,
        /// API version.
        version: &'a str,
        /// Plural.
        resource: &'a str,
        /// `status`, `log`, …; or empty.
        subresource: &'a str,
        /// Empty at the cluster scope.
        namespace: &'a str,
        /// Empty for collections.
        name: &'a str,
    },
    /// A path that is no resource.
    Path(&'a str),
}

/// The decision of an authorizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may happen; the text says by what, and may be empty.
    Allow(String),
    /// It may not, and no other authorizer is to be asked.
    Deny(String),
    /// This authorizer has nothing to say; without another that allows it, it may not happen.
    NoOpinion(String),
    /// This authorizer could not find out: the request fails, unless another one allows it.
    Failed {
        /// The error.
        error: String,
        /// The words of a refusal beside it; may be empty.
        reason: String,
        /// True if no other authorizer is to be asked.
        denies: bool,
    },
}

/// Says what a user may do.
pub trait Authorizer: Send + Sync + 'static {
    /// Decides; the text of a refusal is shown to the user.
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision>;

    /// Waits until all that was in the store at this call counts in decisions: who writes a rule and has the answer finds
    /// it obeyed.
    fn settle(&self, _deadline: Instant) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Texts that users choose do not look like HTML.
fn sanitized(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The error that a refused user reads; `why` may be empty.
pub fn forbidden(attributes: &Attributes<'_>, why: &str) -> ApiError {
    let user = quote(&attributes.user.name);
    let verb = attributes.verb;
    let because = if why.is_empty() {
        String::new()
    } else {
        format!(": {why}")
    };
    match attributes.wanted {
        AuthorizationRequest::Path(path) => {
            let text = sanitized(&format!("User {user} cannot {verb} path {}", quote(path)));
            let message = format!("forbidden: {text}{because}");
            ApiError::new(Reason::Forbidden, message).with_details(ErrorDetails::default())
        }
        AuthorizationRequest::Resource {
            group,
            resource,
            subresource,
            namespace,
            name,
            ..
        } => {
            let what = if subresource.is_empty() {
                quote(resource)
            } else {
                quote(&format!("{resource}/{subresource}"))
            };
            let place = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", quote(namespace))
            };
            let resource = GroupResource {
                group: group.into(),
                resource: resource.into(),
            };
            let text = format!(
                "User {user} cannot {verb} resource {what} in API group {} {place}",
                quote(group)
            );
            ApiError::forbidden(&resource, name, sanitized(&text) + &because)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(verb: &str, wanted: AuthorizationRequest<'_>, why: &str, message: &str) {
        let user = UserInfo {
            name: "alice".into(),
            ..UserInfo::default()
        };
        let user = &user;
        let attributes = Attributes {
            user,
            verb,
            wanted,
            selectors: RequestSelectors::default(),
        };
        assert_eq!(forbidden(&attributes, why).message, message);
    }

    fn resource<'a>(
        group: &'a str,
        resource: &'a str,
        sub: &'a str,
        ns: &'a str,
        name: &'a str,
    ) -> AuthorizationRequest<'a> {
        AuthorizationRequest::Resource {
            group,
            version: "v1",
            resource,
            subresource: sub,
            namespace: ns,
            name,
        }
    }

    #[test]
    fn refusals_read_as_those_of_kube_apiserver() {
        check(
            "list",
            resource("", "configmaps", "", "n", ""),
            "",
            r#"configmaps is forbidden: User "alice" cannot list resource "configmaps" in API group "" in the namespace "n""#,
        );
        check(
            "get",
            resource("apps", "deployments", "scale", "n", "d"),
            "",
            r#"deployments.apps "d" is forbidden: User "alice" cannot get resource "deployments/scale" in API group "apps" in the namespace "n""#,
        );
        check(
            "list",
            resource("", "nodes", "", "", ""),
            "no",
            r#"nodes is forbidden: User "alice" cannot list resource "nodes" in API group "" at the cluster scope: no"#,
        );
        check(
            "post",
            AuthorizationRequest::Path("/nope"),
            "",
            r#"forbidden: User "alice" cannot post path "/nope""#,
        );
    }
}
