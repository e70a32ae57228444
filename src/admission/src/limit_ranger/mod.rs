//! `LimitRanger`: containers without requests and limits get those of the namespace, and what pods and claims ask for stays
//! within its bounds (`plugin/pkg/admission/limitranger`).
//!
//! kube-apiserver looks at the ranges of a namespace in no order; here they go by name.

mod constraints;
mod defaults;

use std::sync::Arc;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError,
    go_text::aggregate_errors,
    pod_resources::{ListName, ResourceList, aggregate, listed, resource_list},
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use self::constraints::{Demand, LimitBounds};
use crate::{
    attributes::{forbidden, is_terminating},
    object_lookup::ObjectLookup,
};

/// The plugin.
pub(crate) struct LimitRanger {
    ranges: ObjectLookup,
}

impl LimitRanger {
    /// Looks at these limit ranges.
    pub(crate) fn new(ranges: ObjectLookup) -> Self {
        Self { ranges }
    }

    async fn ranges_for(&self, attributes: &Attributes) -> Result<Arc<[Value]>, ApiError> {
        if attributes.old_object.as_deref().is_some_and(is_terminating) {
            return Ok(Arc::default());
        }
        self.ranges.list(attributes.namespace()).await
    }

    async fn set(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        if !is_pod(attributes) {
            return Ok(());
        }
        let ranges = self.ranges_for(attributes).await?;
        if let Some(pod) = &mut attributes.object {
            ranges.iter().for_each(|range| defaults::set(pod, range));
        }
        Ok(())
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some(object) = &attributes.object else {
            return Ok(());
        };
        for range in &*self.ranges_for(attributes).await? {
            let mut errors = Vec::new();
            for limit in limits(range) {
                match (limit_type(limit), is_pod(attributes)) {
                    ("Container", true) => check_containers(limit, object, &mut errors),
                    ("Pod", true) => check_pod(limit, object, &mut errors),
                    ("PersistentVolumeClaim", false) => check_claim(limit, object, &mut errors),
                    _ => {}
                }
            }
            if let Some(why) = aggregate_errors(&errors) {
                return Err(forbidden(attributes, why));
            }
        }
        Ok(())
    }
}

fn is_pod(request: &WriteRequest) -> bool {
    &*request.resource.resource == "pods"
}

fn limits(range: &Value) -> impl Iterator<Item = &Value> {
    let limits = range.pointer("/spec/limits").and_then(Value::as_array);
    limits.into_iter().flatten()
}

fn limit_type(limit: &Value) -> &str {
    limit.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn check_containers(limit: &Value, pod: &Value, errors: &mut Vec<String>) {
    let bounds = LimitBounds::of(limit);
    for field in ["containers", "initContainers"] {
        let containers = pod.get("spec").and_then(|spec| spec.get(field)?.as_array());
        for container in containers.into_iter().flatten() {
            let demand = Demand {
                requests: listed(container, ListName::Requests),
                limits: listed(container, ListName::Limits),
            };
            demand.check("Container", &bounds, errors);
        }
    }
}

fn check_pod(limit: &Value, pod: &Value, errors: &mut Vec<String>) {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let together = |list| {
        let mut sum = aggregate(spec, |container| listed(container, list));
        // What the pod says of itself counts instead.
        let own = listed(spec, list).into_iter();
        sum.extend(own.filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
        sum
    };
    let demand = Demand {
        requests: together(ListName::Requests),
        limits: together(ListName::Limits),
    };
    demand.check("Pod", &LimitBounds::of(limit), errors);
}

fn check_claim(limit: &Value, claim: &Value, errors: &mut Vec<String>) {
    let demand = Demand {
        requests: resource_list(claim.pointer("/spec/resources/requests")),
        limits: ResourceList::new(),
    };
    demand.check_requests("PersistentVolumeClaim", &LimitBounds::of(limit), errors);
}

impl Admission for LimitRanger {
    fn handles(&self, request: &WriteRequest) -> bool {
        let is = |resource| request.resource.group.is_empty() && &*request.resource.resource == resource;
        match (request.subresource.name(), request.operation) {
            ("", Operation::Create) => is("pods") || is("persistentvolumeclaims"),
            ("", Operation::Update) => is("persistentvolumeclaims"),
            ("resize", Operation::Update) => is("pods"),
            _ => false,
        }
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.set(attributes).boxed()
    }

    fn validate<'a>(&'a self, attributes: &'a Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.check(attributes).boxed()
    }
}
