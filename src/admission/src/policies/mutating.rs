//! The plugin `MutatingAdmissionPolicy` (`k8s.io/apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go`).

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError, WebhookStatus,
    patch::{JsonPatch, PatchErrorKind},
};
use trireme_registry::{Admission, Attributes, Readiness, View, WriteRequest};

use super::{
    PolicyParts,
    mutation::{MutationChange, Mutations},
    params::ParamError,
    policy::{Binding, Policy},
    snapshot::{BoundPolicy, PolicySet},
};
use crate::{
    attributes::forbidden,
    authority::RequestAuthority,
    expression_input::{ExpressionInput, VersionedObjects},
    loading::loaded,
    matching::MatchedKind,
};

const PLUGIN: &str = "MutatingAdmissionPolicy";

/// The plugin.
pub(crate) struct MutatingPolicies {
    parts: PolicyParts,
    policies: View<PolicySet<Mutations>>,
}

/// A policy that is to be asked with a binding's parameters.
struct PolicyInvocation {
    policy: Arc<Policy<Mutations>>,
    binding: Arc<Binding>,
    matched: MatchedKind,
    params: Value,
}

/// The reason that the request is refused.
struct PolicyError {
    message: String,
    is_configuration: bool,
}

#[derive(Default)]
struct PolicyErrors(Vec<PolicyError>);

/// The end of a mutation that gives no object.
enum MutationFailure {
    /// The failure policy decides.
    Policy(String),
    /// The request fails.
    Request(ApiError),
}

impl MutatingPolicies {
    pub(crate) fn new(parts: PolicyParts) -> Self {
        let names = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings");
        let policies = PolicySet::follow(&parts.system, &parts.surface, names);
        Self { parts, policies }
    }

    /// The view that readiness waits for.
    pub(crate) fn readiness(&self) -> Arc<dyn Readiness> {
        Arc::new(self.policies.clone())
    }

    async fn dispatch(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let is_second = attributes.reinvocation().is_second_round();
        let (rounds, object) = attributes.rounds_of(PLUGIN);
        if is_second {
            rounds.compare(object);
        }
        let mut errors = PolicyErrors::default();
        let policies = loaded(&self.policies, self.parts.system.clock(), attributes).await?;
        let mut invocations = Vec::new();
        for bound in policies.iter() {
            self.collect(bound, attributes, &mut invocations, &mut errors).await;
        }
        for invocation in &invocations {
            self.invoke(invocation, attributes, &mut errors).await?;
        }
        let (rounds, object) = attributes.rounds_of(PLUGIN);
        rounds.leave(object);
        errors.verdict(attributes)
    }

    /// Collects the invocations of one policy.
    async fn collect(
        &self,
        bound: &BoundPolicy<Mutations>,
        attributes: &Attributes,
        invocations: &mut Vec<PolicyInvocation>,
        errors: &mut PolicyErrors,
    ) {
        let policy = &bound.policy;
        let matched = match policy.constraints.matched(attributes, &self.parts.namespaces).await {
            Ok(Some(matched)) => matched,
            Ok(None) => return,
            Err(error) => return errors.cannot_configure(policy, None, &error.message),
        };
        for binding in &bound.bindings {
            match self.parts.is_bound(binding, attributes).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    errors.cannot_configure(policy, Some(binding), &error.message);
                    continue;
                }
            }
            let params = self
                .parts
                .params(attributes)
                .collect(policy.param_kind.as_ref(), binding)
                .await;
            match params {
                Ok(params) => invocations.extend(params.into_iter().map(|params| PolicyInvocation {
                    policy: Arc::clone(policy),
                    binding: Arc::clone(binding),
                    matched: matched.clone(),
                    params,
                })),
                Err(ParamError::Policy(error)) => return errors.cannot_configure(policy, None, &error),
                Err(ParamError::Binding(error)) => errors.cannot_configure(policy, Some(binding), &error),
            }
        }
    }

    /// Carries out the mutations of an invocation, each on what those before it left.
    async fn invoke(
        &self,
        invocation: &PolicyInvocation,
        attributes: &mut Attributes,
        errors: &mut PolicyErrors,
    ) -> Result<(), ApiError> {
        let is_second = attributes.reinvocation().is_second_round();
        let key = invocation.key();
        if attributes.object.is_none() || (is_second && !attributes.reinvocation().of(PLUGIN).is_asked_again(&key)) {
            return Ok(());
        }
        let Some((before, after)) = self.mutated(invocation, attributes, errors).await? else {
            return Ok(());
        };
        if before != after {
            let version = invocation.matched.resource.group_version();
            attributes.change_object(&version, after).await?;
            attributes.reinvocation().of(PLUGIN).ask_again();
            attributes.reinvocation().want();
        }
        if invocation.policy.rules.reinvokes {
            attributes.reinvocation().of(PLUGIN).note_asked(&key);
        }
        Ok(())
    }

    /// The object before and after the mutations, in the kind that was matched; nothing if the match conditions do not hold.
    async fn mutated(
        &self,
        invocation: &PolicyInvocation,
        attributes: &Attributes,
        errors: &mut PolicyErrors,
    ) -> Result<Option<(Value, Value)>, ApiError> {
        let PolicyInvocation {
            policy,
            binding,
            matched,
            params,
        } = invocation;
        let authority = RequestAuthority::new(&*self.parts.permissions, &attributes.context.user);
        let objects = VersionedObjects::of(attributes, matched).await?;
        let namespace = self.parts.namespace(attributes, policy.roots.namespace).await?;
        let (before, old) = (objects.object.as_ref(), objects.old_object.as_ref());
        let input = ExpressionInput::new(attributes, matched, (before, old), &namespace, &authority);
        match authority.evaluate(|| policy.conditions_hold(&input, params)).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(error) => {
                errors.add(policy, Some(binding), error, false);
                return Ok(None);
            }
        }
        let mut object = before.clone();
        for mutation in &policy.rules.mutations {
            let input = ExpressionInput::new(attributes, matched, (&object, old), &namespace, &authority);
            let change = authority.evaluate(|| policy.change(mutation, &input, params)).await;
            let changed = change.map_err(MutationFailure::Policy);
            match changed.and_then(|change| self.apply(attributes, matched, &object, change)) {
                Ok(changed) => object = changed,
                Err(MutationFailure::Policy(error)) => errors.add(policy, Some(binding), error, false),
                Err(MutationFailure::Request(error)) => return Err(error),
            }
        }
        Ok(Some((before.clone(), object)))
    }

    /// Carries out a change.
    fn apply(
        &self,
        attributes: &Attributes,
        matched: &MatchedKind,
        object: &Value,
        change: MutationChange,
    ) -> Result<Value, MutationFailure> {
        let version = matched.resource.group_version();
        match change {
            MutationChange::JsonPatch(operations) => {
                let patch = JsonPatch::decode(operations.to_string().as_bytes());
                let patched = match patch.and_then(|patch| patch.apply(object.clone())) {
                    Ok(patched) => patched,
                    // A failed test says that the patch is not for this object.
                    Err(error) if error.kind == PatchErrorKind::TestFailed => return Ok(object.clone()),
                    Err(error) => return Err(MutationFailure::Policy(format!("JSON Patch: {}", error.message))),
                };
                let surface = self.parts.surface.load().filter(|_| !attributes.definition.is_custom);
                let checked = surface.map_or(Ok(()), |surface| {
                    surface.check_named_kind(&matched.kind, &patched, true)
                });
                checked
                    .and_then(|()| attributes.decode_strictly_in(&version, patched))
                    .map_err(MutationFailure::Request)
            }
            MutationChange::Apply(mut configuration) => {
                for name in ["apiVersion", "kind"] {
                    configuration[name] = object.get(name).cloned().unwrap_or_default();
                }
                let merged = attributes.merge_in(&version, object, &configuration);
                let merged = merged.map_err(|error| format!("error applying patch: {error}"));
                attributes
                    .decode_in(&version, merged.map_err(MutationFailure::Policy)?)
                    .map_err(MutationFailure::Request)
            }
        }
    }
}

impl PolicyInvocation {
    /// Tells invocations apart over the rounds.
    fn key(&self) -> String {
        let metadata = |field: &str| {
            let metadata = self.params.get("metadata");
            metadata
                .and_then(|metadata| metadata.get(field)?.as_str())
                .unwrap_or_default()
        };
        let (namespace, name) = (metadata("namespace"), metadata("name"));
        format!("{}/{}/{namespace}/{name}", self.policy.name, self.binding.name)
    }
}

impl PolicyErrors {
    fn cannot_configure(&mut self, policy: &Policy<Mutations>, binding: Option<&Binding>, error: &str) {
        let what = if binding.is_some() { "binding" } else { "policy" };
        self.add(policy, binding, format!("failed to configure {what}: {error}"), true);
    }

    fn add(&mut self, policy: &Policy<Mutations>, binding: Option<&Binding>, error: String, is_configuration: bool) {
        if policy.fails_open {
            return;
        }
        let name = &policy.name;
        let message = match binding {
            Some(binding) => format!(
                "policy '{name}' with binding '{}' denied request: {error}",
                binding.name
            ),
            None => format!("policy \"{name}\" denied request: {error}"),
        };
        self.0.push(PolicyError {
            message,
            is_configuration,
        });
    }

    /// Refuses with the first error; all are causes. The code is that of a refusal even where the reason is another.
    fn verdict(self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(first) = self.0.first() else {
            return Ok(());
        };
        let mut error = forbidden(attributes, "");
        error.message.clone_from(&first.message);
        if !first.is_configuration {
            error.webhook_status = Some(Box::new(WebhookStatus {
                code: 403,
                reason: "Invalid".to_owned(),
            }));
        }
        let errors = self.0.into_iter();
        Err(errors.fold(error, |error, cause| error.with_cause("", cause.message, "")))
    }
}

impl Admission for MutatingPolicies {
    fn handles(&self, request: &WriteRequest) -> bool {
        let policies = self.policies.load();
        !super::is_ignored(request) && (!policies.is_loaded() || policies.may_match(request))
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.dispatch(attributes).boxed()
    }
}
