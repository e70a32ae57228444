//! The modes of impersonation and what each asks of the requestor.

use std::collections::BTreeMap;

use trireme_actors::Clock;
use trireme_machinery::{
    ApiError,
    field::{Error, Path},
    go_text::quote,
    names,
};
use trireme_registry::request::UserInfo;

use super::{ImpersonatedRequest, metrics::record_authorization};
use crate::{
    ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision, RequestSelectors, forbidden},
    user_names::{node_name, service_account},
};

const AUTHENTICATION: &str = "authentication.k8s.io";
const NODES: &str = "system:nodes";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const ASSOCIATED_KEYS: &str = "authentication.kubernetes.io/associated-node-keys";
/// From so many groups or extra values on, one question about all of them is asked before one about each.
const MANY: usize = 4;

/// A way to impersonate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ImpersonationMode {
    /// A service account as the node that its pod runs on.
    AssociatedNode,
    /// As any node.
    ArbitraryNode,
    /// As a service account.
    ServiceAccount,
    /// As any other user.
    UserInfo,
    /// As any user, for any request.
    Legacy,
}

/// In the order in which they are tried.
pub(super) const MODES: [ImpersonationMode; 5] = [
    ImpersonationMode::AssociatedNode,
    ImpersonationMode::ArbitraryNode,
    ImpersonationMode::ServiceAccount,
    ImpersonationMode::UserInfo,
    ImpersonationMode::Legacy,
];

/// An authorizer whose decisions are recorded.
#[derive(Clone, Copy)]
pub(super) struct TimedAuthorizer<'a> {
    pub(super) authorizer: &'a dyn Authorizer,
    pub(super) clock: &'a Clock,
}

impl TimedAuthorizer<'_> {
    async fn authorize(self, mode: ImpersonationMode, attributes: Attributes<'_>) -> Decision {
        let begun = self.clock.now();
        let decision = self.authorizer.authorize(attributes).await;
        let took = self.clock.now().saturating_duration_since(begun);
        record_authorization(mode.name(), matches!(decision, Decision::Allow(_)), took);
        decision
    }
}

/// The questions of one mode about one requestor.
struct Questions<'a> {
    mode: ImpersonationMode,
    verb: String,
    requestor: &'a UserInfo,
    authorizer: TimedAuthorizer<'a>,
}

impl ImpersonationMode {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "legacy",
        }
    }

    /// The verb on the user that it asks for.
    fn verb(self) -> String {
        if self.is_constrained() {
            format!("impersonate:{}", self.name())
        } else {
            "impersonate".to_owned()
        }
    }

    /// The verb that lets its holder act as another user for some requests; none if it does for all.
    pub(super) fn constraint(self) -> Option<String> {
        self.is_constrained().then(|| self.verb())
    }

    fn is_constrained(self) -> bool {
        self != Self::Legacy
    }

    /// The user to go on as, or why not; `None` if the mode is not for such users.
    pub(super) async fn check(
        self,
        authorizer: TimedAuthorizer<'_>,
        request: &ImpersonatedRequest<'_>,
    ) -> Option<Result<UserInfo, ApiError>> {
        if !self.is_for(request) {
            return None;
        }
        // Whichever node it is, the decision is the same: so the answer must be good for all of them.
        let associated = (self == Self::AssociatedNode).then(|| without_extra_values(request.requestor));
        let questions = Questions {
            mode: self,
            verb: self.verb(),
            requestor: associated.as_ref().unwrap_or(request.requestor),
            authorizer,
        };
        if self.is_constrained() {
            let on = format!("impersonate-on:{}:{}", self.name(), request.verb);
            if let Err(why) = questions.ask(&on, request.request, "").await {
                return Some(Err(why));
            }
        }
        Some(questions.check_user(request.wanted).await)
    }

    fn is_for(self, request: &ImpersonatedRequest<'_>) -> bool {
        let wanted = request.wanted;
        let has_name_only = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node_name(&wanted.name), service_account(&wanted.name));
        match self {
            Self::AssociatedNode => has_name_only && node.is_some_and(|node| runs_on(request.requestor, node)),
            Self::ArbitraryNode => has_name_only && node.is_some(),
            Self::ServiceAccount => has_name_only && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }
}

fn runs_on(requestor: &UserInfo, node: &str) -> bool {
    let of_token = requestor.extra.get(NODE_NAME).map(Vec::as_slice);
    service_account(&requestor.name).is_some() && matches!(of_token, Some([one]) if one == node)
}

fn without_extra_values(requestor: &UserInfo) -> UserInfo {
    let keys = requestor.extra.keys().cloned().collect();
    UserInfo {
        extra: BTreeMap::from([(ASSOCIATED_KEYS.to_owned(), keys)]),
        ..requestor.clone()
    }
}

/// The right that is asked about.
#[derive(Clone, Copy)]
struct ImpersonationRight<'a> {
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> ImpersonationRight<'a> {
    fn request(self) -> AuthorizationRequest<'a> {
        AuthorizationRequest::Resource {
            group: self.group,
            version: "v1",
            resource: self.resource,
            subresource: self.subresource,
            namespace: self.namespace,
            name: self.name,
        }
    }
}

impl Questions<'_> {
    async fn ask(&self, verb: &str, request: AuthorizationRequest<'_>, refused: &str) -> Result<(), ApiError> {
        let attributes = Attributes {
            user: self.requestor,
            verb,
            wanted: request,
            selectors: RequestSelectors::default(),
        };
        if !refused.is_empty() {
            return Err(forbidden(&attributes, refused));
        }
        match self.authorizer.authorize(self.mode, attributes).await {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(why) | Decision::NoOpinion(why) | Decision::Failed { error: why, .. } => {
                Err(forbidden(&attributes, &why))
            }
        }
    }

    async fn may(&self, asked: ImpersonationRight<'_>) -> Result<(), ApiError> {
        self.ask(&self.verb, asked.request(), "").await
    }

    async fn refuse(&self, asked: ImpersonationRight<'_>, why: &str) -> Result<(), ApiError> {
        self.ask(&self.verb, asked.request(), why).await
    }

    /// The right to a user or group; other facts always are of the group of authentication.
    fn about<'n>(&self, resource: &'n str, name: &'n str) -> ImpersonationRight<'n> {
        let is_old = !self.mode.is_constrained() && matches!(resource, "users" | "groups" | "serviceaccounts");
        ImpersonationRight {
            group: if is_old { "" } else { AUTHENTICATION },
            resource,
            subresource: "",
            namespace: "",
            name,
        }
    }

    async fn check_user(&self, wanted: &UserInfo) -> Result<UserInfo, ApiError> {
        let mut user = wanted.clone();
        self.check_name(wanted, &mut user.groups).await?;
        if !wanted.uid.is_empty() {
            self.may(self.about("uids", &wanted.uid)).await?;
        }
        self.check_groups(&wanted.groups).await?;
        self.check_extra(&wanted.extra).await?;
        let implied = match user.name.as_str() {
            ANONYMOUS => Some(UNAUTHENTICATED),
            _ if user.groups.iter().any(|group| group == UNAUTHENTICATED) => None,
            _ => Some(AUTHENTICATED),
        };
        if let Some(group) = implied.filter(|implied| !user.groups.iter().any(|group| group == implied)) {
            user.groups.push(group.to_owned());
        }
        Ok(user)
    }

    /// Checks the name, and sets the groups that go with it.
    async fn check_name(&self, wanted: &UserInfo, groups: &mut Vec<String>) -> Result<(), ApiError> {
        let name = wanted.name.as_str();
        if let Some((namespace, account)) = service_account(name) {
            if wanted.groups.is_empty() {
                *groups = vec![SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")];
            }
            let asked = self.about("serviceaccounts", account);
            return self.may(ImpersonationRight { namespace, ..asked }).await;
        }
        match node_name(name).filter(|_| self.mode.is_constrained()) {
            Some(node) => {
                *groups = vec![NODES.to_owned()];
                let any = self.mode == ImpersonationMode::AssociatedNode;
                self.may(self.about("nodes", if any { "*" } else { node })).await
            }
            None => self.may(self.about("users", name)).await,
        }
    }

    async fn check_groups(&self, groups: &[String]) -> Result<(), ApiError> {
        if self.mode.is_constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                self.refuse(self.about("groups", ""), why).await?;
            }
            if groups.iter().any(|group| group == MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                self.refuse(self.about("groups", MASTERS), why).await?;
            }
            if groups.len() >= MANY && self.may(self.about("groups", "*")).await.is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            self.may(self.about("groups", group)).await?;
        }
        Ok(())
    }

    async fn check_extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), ApiError> {
        let asked = self.about("userextras", "");
        if self.mode.is_constrained() && !extra.is_empty() {
            if let Err(why) = validate_extra(extra) {
                return self.refuse(asked, &why).await;
            }
            let values: usize = extra.values().map(Vec::len).sum();
            let of_all = ImpersonationRight {
                subresource: "*",
                name: "*",
                ..asked
            };
            if (extra.len() >= MANY || values >= MANY) && self.may(of_all).await.is_ok() {
                return Ok(());
            }
        }
        for (subresource, values) in extra {
            for name in values {
                self.may(ImpersonationRight {
                    subresource,
                    name,
                    ..asked
                })
                .await?;
            }
        }
        Ok(())
    }
}

/// Validates what only the first mode of all lets pass (`validateExtra`).
fn validate_extra(extra: &BTreeMap<String, Vec<String>>) -> Result<(), String> {
    for (key, values) in extra {
        if key.is_empty() {
            return Err("impersonating the empty string key in extra is not allowed".to_owned());
        }
        if let Some(error) = domain_prefixed_path_error(key) {
            return Err(format!("impersonating an invalid key in extra is not allowed: {error}"));
        }
        if *key != key.to_lowercase() {
            let key = quote(key);
            return Err(format!(
                "impersonating a non-lowercase key in extra is not allowed: {key}"
            ));
        }
        if values.is_empty() {
            return Err("impersonating empty values in extra is not allowed".to_owned());
        }
        if values.iter().any(String::is_empty) {
            return Err("impersonating the empty string value in extra is not allowed".to_owned());
        }
    }
    Ok(())
}

/// `IsDomainPrefixedPath`: the first error.
fn domain_prefixed_path_error(key: &str) -> Option<Error> {
    let (extra, at) = (Path::new("extra"), "key");
    let at = extra.child(at);
    let parts = key
        .split_once('/')
        .filter(|(domain, path)| !domain.is_empty() && !path.is_empty());
    let Some((domain, path)) = parts else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        return Some(Error::invalid_str(&at, key, why));
    };
    if let Some(why) = names::dns1123_subdomain(domain).first() {
        return Some(Error::invalid_str(&at, domain, why));
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    let why = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    (!path.chars().all(is_allowed)).then(|| Error::invalid_str(&at, path, why))
}
