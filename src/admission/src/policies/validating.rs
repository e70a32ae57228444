//! The plugin `ValidatingAdmissionPolicy` (`k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go`).

use std::{collections::BTreeMap, sync::Arc};

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use trireme_machinery::{ApiError, Reason};
use trireme_registry::{Admission, Attributes, Readiness, View, WriteRequest};

use super::{
    PolicyParts,
    params::ParamError,
    policy::{Binding, Policy},
    snapshot::{BoundPolicy, PolicySet},
    validation::{FailedValidation, Validated, Validations},
};
use crate::{
    attributes::forbidden,
    authority::RequestAuthority,
    expression_input::{ExpressionInput, VersionedObjects},
    loading::loaded,
    matching::MatchedKind,
};

/// The plugin.
pub(crate) struct ValidatingPolicies {
    parts: PolicyParts,
    policies: View<PolicySet<Validations>>,
}

/// A reason to refuse the request.
struct PolicyRefusal {
    policy: String,
    binding: Option<String>,
    message: String,
    reason: Option<String>,
}

/// The verdicts of policies about a request so far.
#[derive(Default)]
struct PolicyFindings {
    refusals: Vec<PolicyRefusal>,
    /// Audit annotations of the policy that is evaluated, each value once.
    annotations: BTreeMap<String, Vec<String>>,
}

impl ValidatingPolicies {
    pub(crate) fn new(parts: PolicyParts) -> Self {
        let names = ("validatingadmissionpolicies", "validatingadmissionpolicybindings");
        let policies = PolicySet::follow(&parts.system, &parts.surface, names);
        Self { parts, policies }
    }

    /// The view that readiness waits for.
    pub(crate) fn readiness(&self) -> Arc<dyn Readiness> {
        Arc::new(self.policies.clone())
    }

    async fn dispatch(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let policies = loaded(&self.policies, self.parts.system.clock(), attributes).await?;
        let authority = RequestAuthority::new(&*self.parts.permissions, &attributes.context.user);
        let mut findings = PolicyFindings::default();
        for bound in policies.iter() {
            match bound
                .policy
                .constraints
                .matched(attributes, &self.parts.namespaces)
                .await
            {
                Ok(None) => {}
                Ok(Some(matched)) => {
                    self.run(bound, attributes, &matched, &authority, &mut findings).await?;
                }
                Err(error) => findings.cannot_configure(&bound.policy, None, &error.message),
            }
        }
        findings.verdict(attributes)
    }

    /// Evaluates one policy with its bindings.
    async fn run(
        &self,
        bound: &BoundPolicy<Validations>,
        attributes: &Attributes,
        matched: &MatchedKind,
        authority: &RequestAuthority<'_>,
        findings: &mut PolicyFindings,
    ) -> Result<(), ApiError> {
        let policy = &bound.policy;
        for binding in &bound.bindings {
            match self.parts.is_bound(binding, attributes).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    findings.cannot_configure(policy, Some(binding), &error.message);
                    continue;
                }
            }
            let params = self
                .parts
                .params(attributes)
                .collect(policy.param_kind.as_ref(), binding)
                .await;
            let params = match params {
                Ok(params) => params,
                Err(ParamError::Policy(error)) => {
                    findings.cannot_configure(policy, None, &error);
                    break;
                }
                Err(ParamError::Binding(error)) => {
                    findings.cannot_configure(policy, Some(binding), &error);
                    continue;
                }
            };
            let objects = match VersionedObjects::of(attributes, matched).await {
                Ok(objects) => objects,
                Err(error) => {
                    findings.cannot_configure(policy, Some(binding), &error.message);
                    continue;
                }
            };
            let namespace = self.parts.namespace(attributes, policy.roots.namespace).await?;
            let objects = (objects.object.as_ref(), objects.old_object.as_ref());
            let input = ExpressionInput::new(attributes, matched, objects, &namespace, authority);
            for params in &params {
                let validated = authority.evaluate(|| policy.validate(&input, params)).await;
                findings.add(policy, binding, validated, attributes);
            }
        }
        findings.publish(&policy.name, attributes);
        Ok(())
    }
}

impl PolicyFindings {
    /// A policy or binding cannot be evaluated for the request.
    fn cannot_configure(&mut self, policy: &Policy<Validations>, binding: Option<&Binding>, error: &str) {
        if policy.fails_open {
            return;
        }
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.refuse(policy, binding, format!("failed to configure {what}: {error}"), None);
    }

    fn refuse(
        &mut self,
        policy: &Policy<Validations>,
        binding: Option<&Binding>,
        message: String,
        reason: Option<String>,
    ) {
        self.refusals.push(PolicyRefusal {
            policy: policy.name.clone(),
            binding: binding.map(|binding| binding.name.clone()),
            message,
            reason,
        });
    }

    /// Does with failures what the binding says.
    fn add(&mut self, policy: &Policy<Validations>, binding: &Binding, validated: Validated, attributes: &Attributes) {
        for failed in validated.failed {
            for action in &binding.actions {
                match action.as_str() {
                    "Deny" => self.refuse(policy, Some(binding), failed.message.clone(), failed.reason.clone()),
                    "Warn" => attributes.warn(format!(
                        "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                        policy.name, binding.name, failed.message
                    )),
                    "Audit" => annotate_failure(policy, binding, &failed, attributes),
                    _ => {}
                }
            }
        }
        for (key, value) in validated.annotations {
            let values = self.annotations.entry(key).or_default();
            if !values.contains(&value) {
                values.push(value);
            }
        }
        for error in validated.annotation_errors {
            self.refuse(policy, Some(binding), error, None);
        }
    }

    /// Notes the audit annotations of a policy; the values of several parameters stand in one.
    fn publish(&mut self, policy: &str, attributes: &Attributes) {
        for (key, values) in std::mem::take(&mut self.annotations) {
            attributes.annotate(format!("{policy}/{key}"), values.join(", "));
        }
    }

    /// Refuses with the first reason.
    fn verdict(self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(first) = self.refusals.into_iter().next() else {
            return Ok(());
        };
        let binding = first.binding.map(|binding| format!(" with binding '{binding}'"));
        let message = format!(
            "ValidatingAdmissionPolicy '{}'{} denied request: {}",
            first.policy,
            binding.unwrap_or_default(),
            first.message
        );
        let mut error = forbidden(attributes, &message);
        error.reason = match first.reason.as_deref() {
            Some("Forbidden") => Reason::Forbidden,
            Some("Unauthorized") => Reason::Unauthorized,
            Some("RequestEntityTooLarge") => Reason::RequestEntityTooLarge,
            _ => Reason::Invalid,
        };
        Err(error.with_cause("", message, ""))
    }
}

/// The audit annotation of a failure, which holds those of all policies.
fn annotate_failure(
    policy: &Policy<Validations>,
    binding: &Binding,
    failed: &FailedValidation,
    attributes: &Attributes,
) {
    const KEY: &str = "validation.policy.admission.k8s.io/validation_failure";
    // With the fields in the order of kube-apiserver.
    let failure = format!(
        r#"[{{"message":{},"policy":{},"binding":{},"expressionIndex":{},"validationActions":{}}}]"#,
        json!(failed.message),
        json!(policy.name),
        json!(binding.name),
        failed.index,
        json!(binding.actions),
    );
    attributes.annotate(KEY, failure);
}

impl Admission for ValidatingPolicies {
    fn handles(&self, request: &WriteRequest) -> bool {
        let policies = self.policies.load();
        !super::is_ignored(request) && (!policies.is_loaded() || policies.may_match(request))
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.dispatch(attributes).boxed()
    }
}
