//! No user grants permissions beyond their own: the check before roles and bindings are written
//! (`pkg/registry/rbac/*/policybased`).
//!
//! The last of the mutating plugins, as in kube-apiserver, where it sits between mutating admission and the strategy. It
//! judges by what is in the store when it is asked, not by what the authorizer happens to have seen.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_actors::Clock;
use trireme_machinery::{
    ApiError,
    go_text::quote,
    policy_rule::{PolicyRule, describe_rules, missing_rules, quote_all},
};
use trireme_registry::{
    Admission, Attributes as Write, Operation,
    request::{Subresource, UserInfo},
};

use super::{GROUP, RbacAuthorizer, policy::RbacPolicy};
use crate::{
    MASTERS,
    authorizer::{Attributes, AuthorizationRequest, Authorizer, Decision, RequestSelectors},
};

/// Patience of a write without a deadline for the roles and bindings of now.
const PATIENCE: Duration = Duration::from_secs(3);

/// The check.
pub struct EscalationCheck {
    rbac: RbacAuthorizer,
    /// Says who may `escalate` and `bind`.
    authorizer: Arc<dyn Authorizer>,
    clock: Clock,
}

impl EscalationCheck {
    /// Holds users against their own rules; those whom `authorizer` lets escalate or bind need none.
    pub fn new(rbac: RbacAuthorizer, authorizer: Arc<dyn Authorizer>, clock: Clock) -> Self {
        Self {
            rbac,
            authorizer,
            clock,
        }
    }

    async fn check(&self, write: &Write) -> Result<(), ApiError> {
        let Some(object) = write.object.as_ref().filter(|_| concerns(write)) else {
            return Ok(());
        };
        let user = &write.context.user;
        if user.groups.iter().any(|group| group == MASTERS) || changes_nothing_but_owners(write, object) {
            return Ok(());
        }
        if matches!(&*write.definition.resource.resource, "roles" | "clusterroles") {
            self.check_role(write, user, object).await
        } else {
            self.check_binding(write, user, object).await
        }
    }

    async fn check_role(&self, write: &Write, user: &UserInfo, role: &Value) -> Result<(), ApiError> {
        let resource = &*write.definition.resource.resource;
        if self
            .may(user, "escalate", resource, write.namespace(), &write.target.name)
            .await
        {
            return Ok(());
        }
        let policy = self.policy_of_now(write).await?;
        let wanted = PolicyRule::all_of(role);
        confirm_no_escalation(&policy, user, write.namespace(), &wanted).map_err(|why| forbidden(write, role, &why))?;
        if has_aggregation_rule(role) || write.old_object.as_deref().is_some_and(has_aggregation_rule) {
            // It can gather anything.
            let full = full_authority();
            let why = "must have cluster-admin privileges to use the aggregationRule";
            confirm_no_escalation(&policy, user, "", &full).map_err(|_| forbidden(write, role, why))?;
        }
        Ok(())
    }

    async fn check_binding(&self, write: &Write, user: &UserInfo, binding: &Value) -> Result<(), ApiError> {
        let text = |field: &str| binding["roleRef"][field].as_str().unwrap_or_default();
        let (kind, name) = (text("kind"), text("name"));
        let resource = match kind {
            "ClusterRole" => "clusterroles",
            "Role" => "roles",
            // Validation refuses it.
            _ => return Ok(()),
        };
        if text("apiGroup") == GROUP && self.may(user, "bind", resource, write.namespace(), name).await {
            return Ok(());
        }
        let policy = self.policy_of_now(write).await?;
        let rules = match kind {
            "ClusterRole" => policy.cluster_role(name),
            _ => policy.role(write.namespace(), name),
        };
        let rules = rules.ok_or_else(|| ApiError::not_found(&write.definition.resource, name))?;
        confirm_no_escalation(&policy, user, write.namespace(), rules).map_err(|why| forbidden(write, binding, &why))
    }

    async fn may(&self, user: &UserInfo, verb: &str, resource: &str, namespace: &str, name: &str) -> bool {
        let attributes = Attributes {
            user,
            verb,
            wanted: AuthorizationRequest::Resource {
                group: GROUP,
                version: "*",
                resource,
                subresource: "",
                namespace,
                name,
            },
            selectors: RequestSelectors::default(),
        };
        matches!(self.authorizer.authorize(attributes).await, Decision::Allow(_))
    }

    async fn policy_of_now(&self, write: &Write) -> Result<Arc<RbacPolicy>, ApiError> {
        let deadline = write.target.deadline.unwrap_or_else(|| self.clock.now() + PATIENCE);
        let snapshot = self.rbac.policy.wait_for_now(deadline).await?;
        Ok(Arc::clone(&snapshot.value))
    }
}

/// True for writes of roles and bindings themselves.
fn concerns(write: &Write) -> bool {
    &*write.definition.resource.group == GROUP
        && write.subresource == Subresource::None
        && matches!(write.operation, Operation::Create | Operation::Update)
}

/// True for what the garbage collector does, so that an object can go whose rules its owner no longer has
/// (`IsOnlyMutatingGCFields`).
fn changes_nothing_but_owners(write: &Write, object: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            for field in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
                metadata.remove(field);
            }
        }
        object
    };
    write
        .old_object
        .as_deref()
        .is_some_and(|old| without(old) == without(object))
}

fn has_aggregation_rule(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    selectors
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

fn full_authority() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule {
            verbs: all(),
            api_groups: all(),
            resources: all(),
            ..PolicyRule::default()
        },
        PolicyRule {
            verbs: all(),
            non_resource_urls: all(),
            ..PolicyRule::default()
        },
    ]
}

/// Checks that a user has all of these rules.
///
/// # Errors
/// Names the missing rules in kube-apiserver's words.
fn confirm_no_escalation(
    policy: &RbacPolicy,
    user: &UserInfo,
    namespace: &str,
    wanted: &[PolicyRule],
) -> Result<(), String> {
    let (held, errors) = policy.rules_of(user, namespace);
    let missing = missing_rules(&held, wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let mut message = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&user.name),
        quote_all(&user.groups),
        describe_rules(&missing)
    );
    if let Some(errors) = errors {
        message.push_str(&format!("; resolution errors: [{errors}]"));
    }
    Err(message)
}

fn forbidden(write: &Write, object: &Value, why: &str) -> ApiError {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    ApiError::forbidden(&write.definition.resource, name, why)
}

impl Admission for EscalationCheck {
    fn mutate<'a>(&'a self, write: &'a mut Write) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(write).boxed()
    }

    fn validate<'a>(&'a self, _: &'a Write) -> BoxFuture<'a, Result<(), ApiError>> {
        futures_util::future::ok(()).boxed()
    }
}
