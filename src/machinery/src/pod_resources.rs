//! Resource lists, and what a pod asks for as a whole (`k8s.io/component-helpers/resource`).

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{names, quantity::Quantity};

/// Amounts by the name of the resource.
pub type ResourceList = BTreeMap<String, Quantity>;

/// One of the two lists of a container's or a pod's `resources`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListName {
    /// `requests`
    Requests,
    /// `limits`
    Limits,
}

impl ListName {
    /// The name of the field.
    pub fn field(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Limits => "limits",
        }
    }
}

/// Reads a resource list; texts that are no quantities count as nothing.
pub fn resource_list(value: Option<&Value>) -> ResourceList {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    let amount = |value: &Value| value.as_str().and_then(|text| Quantity::parse(text).ok());
    entries
        .map(|(name, value)| (name.clone(), amount(value).unwrap_or(Quantity::ZERO)))
        .collect()
}

/// The list of a container, or of anything else with `resources`.
pub fn listed(container: &Value, list: ListName) -> ResourceList {
    resource_list(
        container
            .get("resources")
            .and_then(|resources| resources.get(list.field())),
    )
}

/// Adds all amounts of `more`.
pub fn add(list: &mut ResourceList, more: &ResourceList) {
    for (name, amount) in more {
        let sum = list.get(name).map_or(*amount, |so_far| *so_far + *amount);
        list.insert(name.clone(), sum);
    }
}

/// Raises every amount to at least that of `other`.
pub fn raise(list: &mut ResourceList, other: &ResourceList) {
    for (name, amount) in other {
        if list.get(name).is_none_or(|so_far| so_far < amount) {
            list.insert(name.clone(), *amount);
        }
    }
}

/// Reports whether an init container runs beside the others.
pub fn is_sidecar(container: &Value) -> bool {
    container.get("restartPolicy").and_then(Value::as_str) == Some("Always")
}

/// Reports whether the name of a resource is one of Kubernetes' own, or has no domain.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Reports whether a name is that of a resource which Kubernetes does not know; as part of a quota it must be well-formed
/// too.
pub fn is_extended(name: &str) -> bool {
    let is_own = !is_native(name) && !name.starts_with("requests.");
    is_own && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Reports whether a pod as a whole may ask for a resource.
pub fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The list of the pod as a whole, which counts instead of those of its containers.
pub fn of_pod_as_a_whole(spec: &Value, list: ListName) -> ResourceList {
    let mut own = listed(spec, list);
    own.retain(|name, _| is_pod_level(name));
    own
}

/// The requests of a pod together with its overhead, as its spec has it (`PodRequests`).
pub fn requests_of_spec(spec: &Value) -> ResourceList {
    requests(spec, |container| listed(container, ListName::Requests))
}

/// The same with the requests of each container as `of` gives them.
pub fn requests(spec: &Value, of: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let mut sum = aggregate(spec, of);
    sum.extend(of_pod_as_a_whole(spec, ListName::Requests));
    add(&mut sum, &resource_list(spec.get("overhead")));
    sum
}

/// Sums what containers need at the same time: sidecars count beside the others, other init containers one by one.
/// `of` gives the list of one container.
pub fn aggregate(spec: &Value, of: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let containers = |field: &str| spec.get(field).and_then(Value::as_array).into_iter().flatten();
    let mut sum = ResourceList::new();
    for container in containers("containers") {
        add(&mut sum, &of(container));
    }
    let (mut sidecars, mut peak) = (ResourceList::new(), ResourceList::new());
    for container in containers("initContainers") {
        let own = of(container);
        if is_sidecar(container) {
            add(&mut sum, &own);
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &own);
            raise(&mut peak, &now);
        }
    }
    raise(&mut sum, &peak);
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sidecars_count_beside_the_others_and_init_containers_by_the_larger() {
        let container = |cpu: &str| json!({ "resources": { "requests": { "cpu": cpu } } });
        let sidecar = |cpu: &str| {
            let mut container = container(cpu);
            container["restartPolicy"] = "Always".into();
            container
        };
        let cpu = |spec: Value| {
            let sum = aggregate(&spec, |container| listed(container, ListName::Requests));
            sum.get("cpu").map(ToString::to_string).unwrap_or_default()
        };
        let one = json!([container("1")]);
        assert_eq!(
            cpu(json!({ "containers": one, "initContainers": [container("3")] })),
            "3"
        );
        assert_eq!(
            cpu(json!({ "containers": one, "initContainers": [sidecar("500m"), container("900m")] })),
            "1500m"
        );
        assert_eq!(
            cpu(json!({ "containers": one, "initContainers": [sidecar("500m"), container("2")] })),
            "2500m"
        );
    }
}
