//! `PodGroupProtection`, `PodGroupWorkloadExists` and `JobValidation`: PodGroups, the Workloads that they are made from, and the
//! Jobs whose pods are in them (`plugin/pkg/admission/scheduling/podgroupprotection`, `podgroup`, `job`). They run while the feature
//! GenericWorkload is on.

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{ApiError, go_text::quote};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{
    attributes::{forbidden, is_terminating, is_write_of, push},
    object_lookup::ObjectLookup,
};

pub(crate) const GROUP: &str = "scheduling.k8s.io";
const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Gives PodGroups the finalizer that keeps them while pods are in them.
pub(crate) struct PodGroupProtection;

impl Admission for PodGroupProtection {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, GROUP, "podgroups", &[Operation::Create])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        let metadata = attributes.object.as_mut().and_then(|group| group.get_mut("metadata"));
        if let Some(metadata) = metadata {
            let there = metadata.get("finalizers").and_then(Value::as_array);
            if !there.is_some_and(|there| there.iter().any(|name| name == FINALIZER)) {
                push(metadata, "finalizers", FINALIZER.into());
            }
        }
        async { Ok(()) }.boxed()
    }
}

/// Checks that the template exists that a PodGroup is made from.
pub(crate) struct PodGroupWorkloadExists {
    workloads: ObjectLookup,
}

impl PodGroupWorkloadExists {
    /// Looks at these Workloads.
    pub(crate) fn new(workloads: ObjectLookup) -> Self {
        Self { workloads }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let reference = attributes
            .object
            .as_ref()
            .and_then(|group| group.pointer("/spec/podGroupTemplateRef/workload"));
        let Some(reference) = reference.filter(|reference| !reference.is_null()) else {
            return Ok(());
        };
        let (name, template) = (
            text(reference, "/workloadName"),
            text(reference, "/podGroupTemplateName"),
        );
        let reject = |why: String| Err(forbidden(attributes, format!("PodGroup rejected: {why}")));
        let shown = quote(name);
        let Some(workload) = self.workloads.find(attributes.namespace(), name).await? else {
            return reject(format!("Workload {shown} not found"));
        };
        if is_terminating(&workload) {
            return reject(format!("Workload {shown} is being deleted"));
        }
        let templates = workload.pointer("/spec/podGroupTemplates").and_then(Value::as_array);
        let mut templates = templates.into_iter().flatten();
        if templates.any(|of_workload| text(of_workload, "/name") == template) {
            return Ok(());
        }
        let template = quote(template);
        reject(format!("PodGroupTemplate {template} not found in Workload {shown}"))
    }
}

impl Admission for PodGroupWorkloadExists {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, GROUP, "podgroups", &[Operation::Create])
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

/// Keeps the parallelism of Jobs whose pods are scheduled all at once.
pub(crate) struct JobValidation {
    groups: ObjectLookup,
}

impl JobValidation {
    /// Looks at these PodGroups.
    pub(crate) fn new(groups: ObjectLookup) -> Self {
        Self { groups }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let (Some(new), Some(old)) = (attributes.object.as_ref(), attributes.old_object.as_deref()) else {
            return Ok(());
        };
        if new.pointer("/spec/parallelism") == old.pointer("/spec/parallelism") {
            return Ok(());
        }
        match self.gang_of(attributes.namespace(), old).await {
            None => Ok(()),
            Some(gang) => {
                let gang = quote(&gang);
                let why = format!("cannot change parallelism for a Job referencing gang-scheduled PodGroup {gang}");
                Err(forbidden(attributes, why))
            }
        }
    }

    /// The name of the PodGroup with gang scheduling that a Job's pods are in: the one that its template names, or else
    /// one that the Job controls. What cannot be read counts for none, as upstream.
    async fn gang_of(&self, namespace: &str, job: &Value) -> Option<String> {
        let is_gang = |group: &&Value| {
            let gang = group.pointer("/spec/schedulingPolicy/gang");
            gang.is_some_and(Value::is_object)
        };
        let name = |group: &Value| text(group, "/metadata/name").to_owned();
        let named = job.pointer("/spec/template/spec/schedulingGroup/podGroupName");
        if let Some(named) = named.and_then(Value::as_str) {
            let found = self.groups.find(namespace, named).await.ok().flatten();
            return found.as_ref().filter(is_gang).map(name);
        }
        let groups = self.groups.list(namespace).await.ok()?;
        let uid = text(job, "/metadata/uid");
        let mut of_job = groups.iter().filter(|group| controller(group) == Some(uid));
        of_job.find(is_gang).map(name)
    }
}

/// The uid of the controller of an object.
fn controller(object: &Value) -> Option<&str> {
    let mut owners = object.pointer("/metadata/ownerReferences")?.as_array()?.iter();
    owners.find(|owner| owner["controller"] == true)?["uid"].as_str()
}

impl Admission for JobValidation {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "batch", "jobs", &[Operation::Update])
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_controller_of_an_object_is_the_owner_that_says_so() {
        let owned =
            |owners: Value| controller(&json!({ "metadata": { "ownerReferences": owners } })).map(str::to_owned);
        assert_eq!(
            owned(json!([{ "uid": "a" }, { "uid": "b", "controller": true }])),
            Some("b".to_owned())
        );
        assert_eq!(owned(json!([{ "uid": "a", "controller": false }])), None);
        assert_eq!(controller(&json!({})), None);
    }
}
