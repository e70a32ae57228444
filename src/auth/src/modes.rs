//! The authorizers of `--authorization-mode` one after the other, and the simple ones among them.

use std::{sync::Arc, time::Instant};

use trireme_machinery::ApiError;
use trireme_registry::request::UserInfo;

use crate::{
    MASTERS,
    authenticator::BoxFuture,
    authorizer::{Attributes, Authorizer, Decision},
    rules::{PathRule, ResourceRule, RuleResolver, Rules},
};

/// One of the authorizers of a chain.
#[derive(Clone)]
pub struct AuthorizationMode {
    /// Decides.
    pub authorizer: Arc<dyn Authorizer>,
    /// Lists what it would allow.
    pub rules: Arc<dyn RuleResolver>,
}

impl AuthorizationMode {
    /// A mode that does both.
    pub fn of(both: impl Authorizer + RuleResolver) -> Self {
        Self::shared(Arc::new(both))
    }

    /// The same for one that is shared.
    pub fn shared(both: Arc<impl Authorizer + RuleResolver>) -> Self {
        Self {
            authorizer: both.clone(),
            rules: both,
        }
    }
}

/// Asks authorizers in order: the first that allows or denies decides. `system:masters` may do everything before any of
/// them is asked.
pub struct AuthorizerChain {
    modes: Vec<AuthorizationMode>,
}

impl AuthorizerChain {
    /// Of these, in this order.
    pub fn new(modes: Vec<AuthorizationMode>) -> Self {
        Self { modes }
    }

    async fn decide(&self, attributes: Attributes<'_>) -> Decision {
        if is_privileged(attributes.user) {
            return Decision::Allow(String::new());
        }
        let (mut reasons, mut errors) = (Vec::new(), Vec::new());
        for mode in &self.modes {
            match mode.authorizer.authorize(attributes).await {
                Decision::NoOpinion(reason) if reason.is_empty() => {}
                Decision::NoOpinion(reason) => reasons.push(reason),
                Decision::Failed(error) => errors.push(error),
                decision => return decision,
            }
        }
        if errors.is_empty() {
            return Decision::NoOpinion(reasons.join("\n"));
        }
        Decision::Failed(errors.join(", "))
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
            for mode in &self.modes {
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
            for mode in &self.modes {
                let rules = mode.rules.rules(user, namespace).await;
                listed.resources.extend(rules.resources);
                listed.paths.extend(rules.paths);
                listed.is_incomplete |= rules.is_incomplete;
                errors.extend(rules.error);
            }
            listed.error = trireme_machinery::go_text::aggregate_errors(&errors);
            listed
        })
    }
}

/// `AlwaysAllow`: everybody may do everything.
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

/// `AlwaysDeny`: nobody but `system:masters` may do anything.
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
        let modes = decisions.iter().map(|it| AuthorizationMode::of(Says(it.clone())));
        let chain = AuthorizerChain::new(modes.collect());
        now(chain.authorize(Attributes {
            user: &user,
            verb: "get",
            wanted: AuthorizationRequest::Path("/"),
            selectors: RequestSelectors::default(),
        }))
    }

    #[test]
    fn the_first_that_knows_decides_and_reasons_of_the_others_are_told_together() {
        let no = |why: &str| Decision::NoOpinion(why.to_owned());
        let [allow, deny] = [Decision::Allow("a".into()), Decision::Deny("d".into())];
        let check = |decisions: &[Decision], expected: Decision| assert_eq!(decide("dev", decisions), expected);
        check(&[], no(""));
        check(&[no("one"), no(""), no("two")], no("one\ntwo"));
        check(&[no("one"), deny.clone(), allow.clone()], deny.clone());
        let failed = Decision::Failed("away".into());
        check(&[failed.clone(), allow.clone(), deny.clone()], allow);
        check(&[failed.clone(), no("one")], failed);
        assert_eq!(decide(MASTERS, &[deny]), Decision::Allow(String::new()));
    }

    #[test]
    fn what_one_cannot_list_is_told() {
        let modes = vec![
            AuthorizationMode::of(AlwaysAllow),
            AuthorizationMode::of(Says(Decision::NoOpinion(String::new()))),
        ];
        let user = UserInfo::default();
        let listed = now(AuthorizerChain::new(modes).rules(&user, "default"));
        assert!(listed.is_incomplete);
        assert_eq!(listed.error.as_deref(), Some("it cannot list"));
        assert_eq!((listed.resources.len(), listed.paths.len()), (1, 1));
    }
}
