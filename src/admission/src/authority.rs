//! Questions of expressions to the authorizer.
//!
//! Expressions are evaluated without waiting, an authorizer may wait. So answers are remembered for the request, a question
//! that has no answer yet is noted, and what was evaluated with such a question in it is evaluated again once it is answered.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use futures_util::FutureExt as _;
use trireme_cel::{AuthorizerCheck, CheckAuthorizer, CheckDecision, CheckObject, ResourceCheck};
use trireme_registry::{Attributes, request::UserInfo};

use crate::{matching, permissions::Permissions};

/// The authorizer of one request.
pub(crate) struct RequestAuthority<'a> {
    permissions: &'a dyn Permissions,
    user: &'a UserInfo,
    answers: Mutex<Answers>,
}

#[derive(Default)]
struct Answers {
    decided: HashMap<String, CheckDecision>,
    open: Vec<AuthorizerCheck>,
}

impl<'a> RequestAuthority<'a> {
    /// Of the user of a request.
    pub(crate) fn new(permissions: &'a dyn Permissions, user: &'a UserInfo) -> Self {
        Self {
            permissions,
            user,
            answers: Mutex::default(),
        }
    }

    /// Evaluates until no question is open.
    pub(crate) async fn evaluate<T>(&self, evaluate: impl Fn() -> T) -> T {
        loop {
            let evaluated = evaluate();
            let open = std::mem::take(&mut self.answers().open);
            if open.is_empty() {
                return evaluated;
            }
            for check in open {
                let decision = self.decide(&check).await;
                self.answers().decided.insert(key(&check), decision);
            }
        }
    }

    async fn decide(&self, check: &AuthorizerCheck) -> CheckDecision {
        match &check.service_account {
            Some((namespace, name)) => {
                let user = service_account(namespace, name);
                self.permissions.decide(&user, check).await
            }
            None => self.permissions.decide(self.user, check).await,
        }
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckAuthorizer for RequestAuthority<'_> {
    fn authorize(&self, check: &AuthorizerCheck) -> CheckDecision {
        let key = key(check);
        if let Some(decision) = self.answers().decided.get(&key) {
            return decision.clone();
        }
        // Most authorizers answer from a snapshot.
        if let Some(decision) = self.decide(check).now_or_never() {
            self.answers().decided.insert(key, decision.clone());
            return decision;
        }
        self.answers().open.push(check.clone());
        CheckDecision::default()
    }
}

/// Everything that a check says.
fn key(check: &AuthorizerCheck) -> String {
    format!("{check:?}")
}

fn service_account(namespace: &str, name: &str) -> UserInfo {
    UserInfo {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ],
        ..UserInfo::default()
    }
}

/// `authorizer.requestResource`: the resource of the request.
pub(crate) fn request_resource(attributes: &Attributes) -> AuthorizerCheck {
    AuthorizerCheck {
        object: CheckObject::Resource(Box::new(ResourceCheck {
            group: attributes.resource.group.to_string(),
            resource: attributes.resource.resource.to_string(),
            subresource: attributes.subresource.name().to_owned(),
            namespace: matching::namespace_of(attributes).to_owned(),
            name: attributes.name.clone(),
            ..ResourceCheck::default()
        })),
        ..AuthorizerCheck::default()
    }
}
