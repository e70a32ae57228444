//! `/eviction`: a deletion that disruption budgets have a say in.
//!
//! A budget that allows a disruption is charged before the pod is deleted, so that two evictions cannot use the same
//! allowance; a crash in between leaves the pod in the budget's `disruptedPods`, from which its controller takes it.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError, GroupKind, GroupResource, GroupVersion, Reason,
    field::{Error, Path},
    selector::compile_label_selector,
};
use trireme_registry::{
    ObjectAccess, RuleChange, RuleStages, WriteContext,
    audit_notes::AuditNotes,
    item::parse,
    request::{
        Answer, DeleteOptions, DeleteRequest, ListOptions, ListRequest, Selection, Subresource, Target, own_user,
    },
    subresource::{Create, CreateBody, CreateCall},
};

use super::conditions::{condition, set_condition};
use crate::{
    core::delete_options,
    policy::disruption,
    values::{text, text_at},
};

/// The number of retries for a pod that changes under an eviction.
const ATTEMPTS: usize = 20;

/// POST of an `Eviction`.
pub(super) struct Eviction;

impl Create for Eviction {
    fn name(&self) -> &'static str {
        "eviction"
    }

    fn body(&self) -> CreateBody {
        CreateBody {
            kind: GroupVersion::new("policy", "v1").with_kind("Eviction"),
            // Its group serves this version no longer, but drainers that were built for it still send it.
            also: vec![GroupVersion::new("policy", "v1beta1").with_kind("Eviction")],
            type_name: "io.k8s.api.policy.v1.Eviction",
        }
    }

    fn check(&self, target: &Target, body: &Value) -> Result<(), ApiError> {
        if text_at(body, "/metadata/name") != target.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        check_read_error_is_not_ignored(&target.name, body)?;
        delete_options::read(body.get("deleteOptions")).map(drop)
    }

    fn run<'a>(&'a self, call: &'a CreateCall) -> BoxFuture<'a, Result<Option<Value>, ApiError>> {
        Box::pin(async move {
            let mut options = delete_options::read(call.body.get("deleteOptions"))?;
            options.dry_run |= call.dry_run;
            evict(call, options).await?;
            Ok(None)
        })
    }
}

/// An eviction looks at its pod, so it cannot do without.
fn check_read_error_is_not_ignored(name: &str, body: &Value) -> Result<(), ApiError> {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let option = body.get("deleteOptions").and_then(|options| options.get(OPTION));
    if option.and_then(Value::as_bool) != Some(true) {
        return Ok(());
    }
    let path = Path::new("deleteOptions");
    let detail = "can not be set for pod eviction, try after removing the option";
    let error = Error::invalid(&path.child(OPTION), &true.into(), detail);
    let kind = GroupKind {
        group: "policy".into(),
        kind: "Eviction".into(),
    };
    Err(ApiError::invalid(&kind, name, &vec![error]))
}

async fn evict(call: &CreateCall, options: DeleteOptions) -> Result<(), ApiError> {
    let Some(pod) = delete_if_free(call, &options).await? else {
        return Ok(());
    };
    let Some(budgets) = call.routes.objects("policy", "v1", "poddisruptionbudgets") else {
        return Err(ApiError::internal("disruption budgets are not served"));
    };
    let Some(budget) = budget_of(&*budgets, &call.target.namespace, &pod).await? else {
        return delete_marked(call, options).await;
    };
    let name = text_at(&budget, "/metadata/name").to_owned();
    let is_ready = condition(&pod, "Ready").is_some_and(|ready| text(ready, "status") == "True");
    if is_ready || !disruption::may_lose_unhealthy(&budget) {
        charge(call, &*budgets, &name, options.dry_run).await?;
        return delete_marked(call, options).await;
    }
    // An unhealthy pod costs nothing, but only as long as it is unhealthy.
    let asked = options.resource_version.is_some();
    let seen = text_at(&pod, "/metadata/resourceVersion").to_owned();
    let options = DeleteOptions {
        resource_version: Some(seen),
        ..options
    };
    match delete_marked(call, options).await {
        Err(error) if error.reason == Reason::Conflict && !asked => Err(disruption::not_processed(&name)),
        done => done,
    }
}

/// Deletes a pod that no budget protects: one that has not begun or is over. Gives back any other.
async fn delete_if_free(call: &CreateCall, options: &DeleteOptions) -> Result<Option<Value>, ApiError> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let pod = call.object().await?;
        let phase = text_at(&pod, "/status/phase");
        let ends = matches!(phase, "Succeeded" | "Failed") || pod.pointer("/metadata/deletionTimestamp").is_some();
        if !ends && phase != "Pending" {
            return Ok(Some(pod));
        }
        let mut options = options.clone();
        let is_ours = options.resource_version.is_none();
        if !ends && is_ours {
            // It must not have become healthy meanwhile.
            options.resource_version = Some(text_at(&pod, "/metadata/resourceVersion").to_owned());
        }
        let same = options
            .uid
            .as_deref()
            .is_none_or(|uid| uid == text_at(&pod, "/metadata/uid"));
        match delete_marked(call, options).await {
            Err(error) if error.reason == Reason::Conflict && is_ours && same && attempts < ATTEMPTS => {}
            done => return done.map(|()| None),
        }
    }
}

async fn delete(call: &CreateCall, options: DeleteOptions) -> Result<(), ApiError> {
    let target = call.target.clone();
    call.registry.delete(DeleteRequest { target, options }).await.map(drop)
}

/// Says in the pod's status why it goes, and deletes it.
async fn delete_marked(call: &CreateCall, mut options: DeleteOptions) -> Result<(), ApiError> {
    if !options.dry_run {
        let asked = options.clone();
        let rule = move |context: &WriteContext, pod: &mut Value| {
            check_preconditions(pod, &asked)?;
            let wanted = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            set_condition(pod, context.now, wanted);
            Ok(())
        };
        let stages = RuleStages::WithoutAdmission(Subresource::Status);
        let change = RuleChange::new(call.target.clone(), stages, rule);
        let marked = call.registry.change(change).await?;
        if let (Some(version), Answer::Cached(item)) = (&mut options.resource_version, marked) {
            *version = item.revision.to_string();
        }
    }
    delete(call, options).await
}

fn check_preconditions(pod: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let checks = [
        ("uid", "UID", &options.uid, "deleted and then recreated"),
        (
            "resourceVersion",
            "ResourceVersion",
            &options.resource_version,
            "modified",
        ),
    ];
    let metadata = pod.get("metadata").unwrap_or(&Value::Null);
    for (field, what, given, happened) in checks {
        let actual = text(metadata, field);
        if let Some(given) = given.as_deref().filter(|given| !given.is_empty() && *given != actual) {
            let why = format!(
                "the {what} in the precondition ({given}) does not match the {what} in record ({actual}). The object \
                 might have been {happened}"
            );
            // Kubernetes names the kind here, where all other conflicts name the resource.
            let resource = GroupResource {
                group: "".into(),
                resource: "Pod".into(),
            };
            return Err(ApiError::conflict(&resource, text(metadata, "name"), why));
        }
    }
    Ok(())
}

/// The one budget that selects the pod. kube-apiserver answers 500 if there are more, which no client can mend by
/// trying again; it is a conflict.
async fn budget_of(budgets: &dyn ObjectAccess, namespace: &str, pod: &Value) -> Result<Option<Value>, ApiError> {
    let labels = pod.pointer("/metadata/labels").and_then(Value::as_object);
    let items = budgets
        .list(ListRequest {
            target: Target {
                namespace: namespace.to_owned(),
                user: own_user(),
                ..Target::default()
            },
            selection: Selection::default(),
            options: ListOptions::default(),
        })
        .await?;
    let mut found = None;
    for item in items {
        let budget = parse(&item)?;
        let selector = compile_label_selector(budget.pointer("/spec/selector").and_then(Value::as_object));
        // A selector that cannot be read selects nothing.
        if !selector.is_ok_and(|selector| selector.matches(labels)) {
            continue;
        }
        if found.replace(budget).is_some() {
            let text =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(Reason::Conflict, text));
        }
    }
    Ok(found)
}

/// Takes one disruption from the budget, or says why there is none.
async fn charge(call: &CreateCall, budgets: &dyn ObjectAccess, name: &str, dry_run: bool) -> Result<(), ApiError> {
    let target = Target {
        version: 0,
        namespace: call.target.namespace.clone(),
        name: name.to_owned(),
        user: own_user(),
        trace: call.target.trace.clone(),
        audit: AuditNotes::default(),
        webhooks: call.target.webhooks.clone(),
        fence: call.target.fence.clone(),
        deadline: call.target.deadline,
    };
    let pod = call.target.name.clone();
    let rule = move |context: &WriteContext, budget: &mut Value| disruption::charge(budget, &pod, context.now);
    // A budget that would be charged is not written, so admission is not asked about it.
    let stages = if dry_run {
        RuleStages::CommitOnly
    } else {
        RuleStages::All(Subresource::Status)
    };
    let change = RuleChange::new(target, stages, rule);
    budgets.change(change.with_dry_run(dry_run)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(body: &Value) -> Option<String> {
        let target = Target {
            name: "p".to_owned(),
            ..Target::default()
        };
        Eviction.check(&target, body).err().map(|error| error.message)
    }

    #[test]
    fn an_eviction_does_not_ignore_a_pod_that_cannot_be_read() {
        let ignoring = |ignores: bool, policy: &str| {
            let options = json!({
                "ignoreStoreReadErrorWithClusterBreakingPotential": ignores, "propagationPolicy": policy,
            });
            json!({ "metadata": { "name": "p" }, "deleteOptions": options })
        };
        let refused = "Eviction.policy \"p\" is invalid: deleteOptions.ignoreStoreReadErrorWithClusterBreakingPotential: \
                       Invalid value: true: can not be set for pod eviction, try after removing the option";
        for policy in ["Background", "Unknown"] {
            assert_eq!(refusal(&ignoring(true, policy)).as_deref(), Some(refused));
        }
        assert_eq!(refusal(&ignoring(false, "Background")), None);
        let mut elsewhere = ignoring(true, "Background");
        elsewhere["metadata"]["name"] = "q".into();
        let name = "name in URL does not match name in Eviction object";
        assert_eq!(refusal(&elsewhere).as_deref(), Some(name));
    }
}
