//! The usage of pods (`pkg/quota/v1/evaluator/core/pods.go`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::pod_resources::{
    self, ListName, ResourceList, aggregate, is_extended, is_native, is_sidecar, listed, of_pod_as_a_whole, raise,
    resource_list,
};

use super::evaluators::{Measure, PodScopes, Scopes, is_over, one};

const NAMES: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// Compute resources that every container has to state once a quota limits them.
const TO_BE_STATED: [&str; 6] = [
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
];
const HUGE_PAGES: &str = "hugepages-";
pub(super) const REQUESTS: &str = "requests.";
pub(super) const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

/// Reports whether a limit of a quota concerns pods.
pub(super) fn counts(name: &str) -> bool {
    let asked = name.strip_prefix(REQUESTS);
    NAMES.contains(&name)
        || name.starts_with(HUGE_PAGES)
        || asked.is_some_and(|asked| asked.starts_with(HUGE_PAGES))
        || asked.is_some_and(|asked| !is_native(name) || asked.starts_with(DEVICE_CLASS))
}

/// Reports whether a container's request counts under `requests.`, as those of devices do.
fn is_device(name: &str) -> bool {
    is_extended(name) || name.starts_with(DEVICE_CLASS)
}

/// Measures a pod. One that has ended counts only as an object.
pub(super) fn measure(pod: &Value, count: &str, now: Timestamp) -> Measure {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut usage = ResourceList::new();
    if is_running(pod, now) {
        usage = compute_usage(&requests(pod, spec), &limits(pod, spec));
    }
    usage.insert(count.to_owned(), one());
    Measure {
        usage,
        unstated: unstated(spec),
        scopes: Scopes::Pod(scopes(pod, spec)),
        ..Measure::default()
    }
}

/// Reports whether a pod still uses anything (`QuotaV1Pod`).
fn is_running(pod: &Value, now: Timestamp) -> bool {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str);
    let deleted = pod.pointer("/metadata/deletionTimestamp").and_then(Value::as_str);
    let grace = pod
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64);
    !matches!(phase, Some("Failed" | "Succeeded"))
        && !deleted
            .zip(grace)
            .is_some_and(|(deleted, grace)| is_over(deleted, grace, now))
}

fn compute_usage(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::from([("pods".to_owned(), one())]);
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            usage.insert(name.to_owned(), *request);
            usage.insert(format!("{REQUESTS}{name}"), *request);
        }
        if let Some(limit) = limits.get(name) {
            usage.insert(format!("limits.{name}"), *limit);
        }
    }
    for (name, request) in requests {
        let is_huge = name.starts_with(HUGE_PAGES);
        if is_huge {
            usage.insert(name.clone(), *request);
        }
        if is_huge || is_device(name) {
            usage.insert(format!("{REQUESTS}{name}"), *request);
        }
    }
    usage
}

fn requests(pod: &Value, spec: &Value) -> ResourceList {
    let effective = Effective::of(pod, spec);
    pod_resources::requests(spec, |container| effective.requests(container))
}

fn limits(pod: &Value, spec: &Value) -> ResourceList {
    let effective = Effective::of(pod, spec);
    let mut sum = aggregate(spec, |container| effective.limits(container));
    sum.extend(of_pod_as_a_whole(spec, ListName::Limits));
    for (name, amount) in resource_list(spec.get("overhead")) {
        if let Some(limit) = sum.get_mut(&name).filter(|limit| !limit.is_zero()) {
            *limit = *limit + amount;
        }
    }
    sum
}

/// The amounts of containers while a resize is under way: the largest of those wanted and those in effect.
struct Effective<'p> {
    statuses: BTreeMap<&'p str, &'p Value>,
    /// The wanted amounts do not fit the node and do not count.
    is_infeasible: bool,
}

impl<'p> Effective<'p> {
    fn of(pod: &'p Value, spec: &Value) -> Self {
        let items = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let sidecars = spec
            .get("initContainers")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let sidecars: BTreeSet<&str> = sidecars.filter(|container| is_sidecar(container)).map(name).collect();
        let init = items("/status/initContainerStatuses").filter(|status| sidecars.contains(name(status)));
        let statuses = items("/status/containerStatuses").chain(init);
        let pending = items("/status/conditions").find(|condition| condition["type"] == "PodResizePending");
        Self {
            statuses: statuses
                .filter(|status| status.get("resources").is_some())
                .map(|status| (name(status), status))
                .collect(),
            is_infeasible: pending.is_some_and(|condition| condition["reason"] == "Infeasible"),
        }
    }

    fn requests(&self, container: &Value) -> ResourceList {
        let mut amounts = self.amounts(container, ListName::Requests);
        if let Some(status) = self.statuses.get(name(container)) {
            raise(&mut amounts, &resource_list(status.get("allocatedResources")));
        }
        amounts
    }

    fn limits(&self, container: &Value) -> ResourceList {
        self.amounts(container, ListName::Limits)
    }

    fn amounts(&self, container: &Value, list: ListName) -> ResourceList {
        let wanted = listed(container, list);
        let Some(status) = self.statuses.get(name(container)) else {
            return wanted;
        };
        let mut amounts = listed(status, list);
        if !self.is_infeasible {
            raise(&mut amounts, &wanted);
        }
        amounts
    }
}

fn name(of: &Value) -> &str {
    of.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The compute resources that containers do not state. A pod that states its own needs nothing of its containers.
fn unstated(spec: &Value) -> BTreeMap<&'static str, Vec<String>> {
    let of_pod = |list| !of_pod_as_a_whole(spec, list).is_empty();
    if of_pod(ListName::Requests) || of_pod(ListName::Limits) {
        return BTreeMap::new();
    }
    let mut unstated: BTreeMap<&'static str, BTreeSet<&str>> = BTreeMap::new();
    for field in ["containers", "initContainers"] {
        for container in spec.get(field).and_then(Value::as_array).into_iter().flatten() {
            let stated = compute_usage(
                &listed(container, ListName::Requests),
                &listed(container, ListName::Limits),
            );
            for resource in TO_BE_STATED
                .into_iter()
                .filter(|resource| !stated.contains_key(*resource))
            {
                unstated.entry(resource).or_default().insert(name(container));
            }
        }
    }
    let owned = |names: BTreeSet<&str>| names.into_iter().map(str::to_owned).collect();
    unstated
        .into_iter()
        .map(|(resource, names)| (resource, owned(names)))
        .collect()
}

fn scopes(pod: &Value, spec: &Value) -> PodScopes {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let deadline = spec.get("activeDeadlineSeconds").and_then(Value::as_i64);
    PodScopes {
        terminating: deadline.is_some_and(|seconds| seconds >= 0),
        // Set by the strategy before quotas look.
        best_effort: text(pod.pointer("/status/qosClass")) == "BestEffort",
        priority_class: text(spec.get("priorityClassName")),
        cross_namespace_affinity: uses_cross_namespace_affinity(spec),
    }
}

fn uses_cross_namespace_affinity(spec: &Value) -> bool {
    let terms = |pointer: &str| spec.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let crosses = |term: &Value| {
        let namespaces = term.get("namespaces").and_then(Value::as_array);
        namespaces.is_some_and(|namespaces| !namespaces.is_empty()) || term.get("namespaceSelector").is_some()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
        let required = format!("/affinity/{affinity}/requiredDuringSchedulingIgnoredDuringExecution");
        let preferred = format!("/affinity/{affinity}/preferredDuringSchedulingIgnoredDuringExecution");
        terms(&required).any(crosses)
            || terms(&preferred)
                .filter_map(|weighted| weighted.get("podAffinityTerm"))
                .any(crosses)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn usage(pod: Value) -> Vec<String> {
        let measure = measure(&pod, "count/pods", Timestamp::UNIX_EPOCH);
        measure
            .usage
            .iter()
            .map(|(name, amount)| format!("{name}={amount}"))
            .collect()
    }

    #[test]
    fn requests_count_under_both_names_and_devices_under_one() {
        let requests = json!({ "cpu": "1", "hugepages-2Mi": "4Mi", "example.com/gpu": "2" });
        let pod = json!({ "spec": {
            "containers": [{ "name": "c", "resources": { "requests": requests, "limits": { "cpu": "2" } } }],
            "overhead": { "cpu": "100m" },
        }});
        assert_eq!(
            usage(pod),
            [
                "count/pods=1",
                "cpu=1100m",
                "hugepages-2Mi=4Mi",
                "limits.cpu=2100m",
                "pods=1",
                "requests.cpu=1100m",
                "requests.example.com/gpu=2",
                "requests.hugepages-2Mi=4Mi",
            ]
        );
        for name in ["requests.example.com/gpu", "requests.hugepages-2Mi", "pods"] {
            assert!(counts(name), "{name}");
        }
        for name in ["services", "requests.storage", "example.com/gpu"] {
            assert!(!counts(name), "{name}");
        }
    }

    #[test]
    fn a_pod_that_has_ended_is_only_an_object() {
        let resources = json!({ "requests": { "cpu": "1" } });
        let mut pod =
            json!({ "spec": { "containers": [{ "resources": resources }] }, "status": { "phase": "Failed" } });
        assert_eq!(usage(pod.clone()), ["count/pods=1"]);
        pod["status"]["phase"] = "Running".into();
        pod["metadata"] = json!({ "deletionTimestamp": "1969-12-31T23:59:00Z", "deletionGracePeriodSeconds": 30 });
        assert_eq!(usage(pod.clone()), ["count/pods=1"]);
        pod["metadata"]["deletionGracePeriodSeconds"] = 60.into();
        assert_eq!(usage(pod).len(), 4);
    }

    #[test]
    fn the_larger_counts_while_a_resize_is_under_way() {
        let pod = |wanted: &str, infeasible: bool| {
            let reason = if infeasible { "Infeasible" } else { "Deferred" };
            json!({
                "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": wanted } } }] },
                "status": {
                    "conditions": [{ "type": "PodResizePending", "reason": reason }],
                    "containerStatuses": [{
                        "name": "c", "resources": { "requests": { "cpu": "2" } }, "allocatedResources": { "cpu": "3" },
                    }],
                },
            })
        };
        let cpu = |pod| {
            usage(pod)
                .into_iter()
                .find(|text| text.starts_with("cpu"))
                .unwrap_or_default()
        };
        assert_eq!(cpu(pod("1", false)), "cpu=3");
        assert_eq!(cpu(pod("4", false)), "cpu=4");
        assert_eq!(cpu(pod("4", true)), "cpu=3");
    }

    #[test]
    fn scopes_follow_the_spec() {
        let of = |spec: Value| scopes(&json!({ "status": { "qosClass": "BestEffort" } }), &spec);
        let term = json!({ "namespaceSelector": {} });
        let preferred = json!([{ "weight": 1, "podAffinityTerm": term }]);
        let affinity = json!({ "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": preferred } });
        let all = of(json!({ "activeDeadlineSeconds": 0, "affinity": affinity, "priorityClassName": "high" }));
        assert!(all.terminating && all.best_effort && all.cross_namespace_affinity);
        assert_eq!(all.priority_class, "high");
        let none = of(json!({}));
        assert!(!none.terminating && !none.cross_namespace_affinity);
    }
}
