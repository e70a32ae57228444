//! The authorizers of `--authorization-mode` one after the other, and the simple ones among them.

use std::{sync::Arc, time::Instant};

use ::metrics::{Counter, counter};
use arc_swap::ArcSwap;
use trireme_machinery::{ApiError, go_text::aggregate_errors};
use trireme_registry::request::UserInfo;

use crate::{
    MASTERS,
    authenticator::BoxFuture,
    authorizer::{Attributes, Authorizer, Decision},
    rules::{PathRule, ResourceRule, RuleResolver, Rules},
};

/// The kinds of authorizers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AuthorizerType {
    /// The policies of a file.
    Abac,
    /// All users may do everything.
    AlwaysAllow,
    /// Only `system:masters` may do anything.
    AlwaysDeny,
    /// A node may do what its pods need.
    Node,
    /// Roles and bindings.
    Rbac,
    /// The word of another server.
    Webhook,
}

impl AuthorizerType {
    /// All of them, by name.
    pub const ALL: [Self; 6] = [
        Self::Abac,
        Self::AlwaysAllow,
        Self::AlwaysDeny,
        Self::Node,
        Self::Rbac,
        Self::Webhook,
    ];

    /// The name in flags and configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abac => "ABAC",
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook => "Webhook",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The name of the one authorizer of a kind of which there is one (`GetNameForAuthorizerMode`).
    pub fn only_name(self) -> String {
        self.name().to_lowercase()
    }
}

/// One of the authorizers of a chain.
#[derive(Clone)]
pub struct AuthorizationMode {
    authorizer: Arc<dyn Authorizer>,
    rules: Arc<dyn RuleResolver>,
    /// The number of decisions that were its own.
    allowed: Counter,
    denied: Counter,
}

impl AuthorizationMode {
    /// One that decides, and lists what it would allow.
    pub fn new(kind: AuthorizerType, name: &str, both: Arc<impl Authorizer + RuleResolver>) -> Self {
        let decisions = |decision: &'static str| {
            let name = name.to_owned();
            counter!(
                "apiserver_authorization_decisions_total",
                "type" => kind.name(), "name" => name, "decision" => decision
            )
        };
        Self {
            authorizer: both.clone(),
            rules: both,
            allowed: decisions("allowed"),
            denied: decisions("denied"),
        }
    }

    async fn decide(&self, attributes: Attributes<'_>) -> Decision {
        let decision = self.authorizer.authorize(attributes).await;
        match decision {
            Decision::Allow(_) => self.allowed.increment(1),
            Decision::Deny(_) | Decision::Failed { denies: true, .. } => self.denied.increment(1),
            Decision::NoOpinion(_) | Decision::Failed { denies: false, .. } => {}
        }
        decision
    }
}

/// Asks authorizers in order: the first that allows or denies decides. `system:masters` may do everything before any of
/// them is asked. The authorizers may be replaced while requests are authorized.
pub struct AuthorizerChain {
    modes: ArcSwap<Vec<AuthorizationMode>>,
}

impl AuthorizerChain {
    /// Of these, in this order.
    pub fn new(modes: Vec<AuthorizationMode>) -> Self {
        Self {
            modes: ArcSwap::from_pointee(modes),
        }
    }

    /// Asks these from now on; a request that is being authorized is judged by those before.
    pub fn replace(&self, modes: Vec<AuthorizationMode>) {
        self.modes.store(Arc::new(modes));
    }

    async fn decide(&self, attributes: Attributes<'_>) -> Decision {
        if is_privileged(attributes.user) {
            return Decision::Allow(String::new());
        }
        let modes = self.modes.load_full();
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        for mode in modes.iter() {
            match mode.decide(attributes).await {
                Decision::NoOpinion(reason) => reasons.push(reason),
                Decision::Failed {
                    error,
                    reason,
                    denies: false,
                } => {
                    errors.push(error);
                    reasons.push(reason);
                }
                decision => return decision,
            }
        }
        reasons.retain(|reason| !reason.is_empty());
        let reason = reasons.join("\n");
        match aggregate_errors(&errors) {
            None => Decision::NoOpinion(reason),
            Some(error) => Decision::Failed {
                error,
                reason,
                denies: false,
            },
        }
    }
}

fn is_privileged(user: &UserInfo) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

impl Authorizer for AuthorizerChain {
    fn authorize<'a>(&'a self, attributes: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(self.decide(attributes))
    }

    fn settle(&self, deadline: Instant) -> BoxFuture<'_, Result<(), ApiError>> {
        Box::pin(async move {
            for mode in self.modes.load_full().iter() {
                mode.authorizer.settle(deadline).await?;
            }
            Ok(())
        })
    }
}

impl RuleResolver for AuthorizerChain {
    fn rules<'a>(&'a self, user: &'a UserInfo, namespace: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async move {
            let (mut listed, mut errors) = (Rules::default(), Vec::new());
            for mode in self.modes.load_full().iter() {
                let rules = mode.rules.rules(user, namespace).await;
                listed.resources.extend(rules.resources);
                listed.paths.extend(rules.paths);
                listed.is_incomplete |= rules.is_incomplete;
                errors.extend(rules.error);
            }
            listed.error = aggregate_errors(&errors);
            listed
        })
    }
}

/// `AlwaysAllow`: all users may do everything.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysAllow;

impl Authorizer for AlwaysAllow {
    fn authorize<'a>(&'a self, _: Attributes<'a>) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::Allow(String::new())))
    }
}

impl RuleResolver for AlwaysAllow {
    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
        let all = || vec!["*".to_owned()];
        let rules = Rules {
            resources: vec![ResourceRule {
                verbs: all(),
                groups: all(),
                resources: all(),
                names: Vec::new(),
            }],
            paths: vec![PathRule {
                verbs: all(),
                paths: all(),
            }],
            ..Rules::default()
        };
        Box::pin(std::future::ready(rules))
    }
}

/// `AlwaysDeny`: only `system:masters` may do anything.
#[derive(Debug, Clone, Copy)]
pub struct AlwaysDeny;

impl Authorizer for AlwaysDeny {
    fn authorize<'a>(&'a self, _: Attributes<'a>) -> BoxFuture<'a, Decision> {
        let why = "Everything is forbidden.".to_owned();
        Box::pin(std::future::ready(Decision::NoOpinion(why)))
    }
}

impl RuleResolver for AlwaysDeny {
    fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(std::future::ready(Rules::default()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::authorizer::{AuthorizationRequest, RequestSelectors};

    struct Says(Decision);

    impl Authorizer for Says {
        fn authorize<'a>(&'a self, _: Attributes<'a>) -> BoxFuture<'a, Decision> {
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    impl RuleResolver for Says {
        fn rules<'a>(&'a self, _: &'a UserInfo, _: &'a str) -> BoxFuture<'a, Rules> {
            Box::pin(std::future::ready(Rules {
                is_incomplete: true,
                error: Some("it cannot list".to_owned()),
                ..Rules::default()
            }))
        }
    }

    fn mode(both: impl Authorizer + RuleResolver) -> AuthorizationMode {
        AuthorizationMode::new(AuthorizerType::AlwaysAllow, "one", Arc::new(both))
    }

    fn now<T>(mut future: BoxFuture<'_, T>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("these authorizers never wait"),
        }
    }

    fn decide(group: &str, decisions: &[Decision]) -> Decision {
        let user = UserInfo {
            groups: vec![group.to_owned()],
            ..UserInfo::default()
        };
        let modes = decisions.iter().map(|it| mode(Says(it.clone())));
        let chain = AuthorizerChain::new(modes.collect());
        now(chain.authorize(Attributes {
            user: &user,
            verb: "get",
            wanted: AuthorizationRequest::Path("/"),
            selectors: RequestSelectors::default(),
        }))
    }

    #[test]
    fn the_first_decision_counts_and_reasons_of_the_others_are_joined() {
        let no = |why: &str| Decision::NoOpinion(why.to_owned());
        let [allow, deny] = [Decision::Allow("a".into()), Decision::Deny("d".into())];
        let check = |decisions: &[Decision], expected: Decision| assert_eq!(decide("dev", decisions), expected);
        check(&[], no(""));
        check(&[no("one"), no(""), no("two")], no("one\ntwo"));
        check(&[no("one"), deny.clone(), allow.clone()], deny.clone());
        let failed = |reason: &str, denies| Decision::Failed {
            error: "away".into(),
            reason: reason.into(),
            denies,
        };
        check(&[failed("", false), allow.clone(), deny.clone()], allow.clone());
        check(&[failed("", false), no("one")], failed("one", false));
        check(&[failed("", true), allow], failed("", true));
        assert_eq!(decide(MASTERS, &[deny]), Decision::Allow(String::new()));
    }

    #[test]
    fn an_incomplete_rule_list_is_reported_as_such() {
        let modes = vec![mode(AlwaysAllow), mode(Says(Decision::NoOpinion(String::new())))];
        let user = UserInfo::default();
        let listed = now(AuthorizerChain::new(modes).rules(&user, "default"));
        assert!(listed.is_incomplete);
        assert_eq!(listed.error.as_deref(), Some("it cannot list"));
        assert_eq!((listed.resources.len(), listed.paths.len()), (1, 1));
    }
}
