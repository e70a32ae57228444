//! `PodResizeValidator` and `NodeDeclaredFeatureValidator`: a running pod grows only where its node can do that
//! (`plugin/pkg/admission/podresize`, `plugin/pkg/admission/nodedeclaredfeatures`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::Value;
use trireme_machinery::{
    ApiError,
    go_text::quote,
    pod_resources::{ListName, ResourceList, is_sidecar, listed, requests_of_spec, resource_list},
    quantity::Quantity,
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::{attributes::forbidden, object_lookup::ObjectLookup};

const OS: &str = "kubernetes.io/os";

/// The check of a plugin against the node.
type CheckNode = fn(&Attributes, old: &Value, new: &Value, node: &Value) -> Result<(), ApiError>;

/// One of the two plugins.
pub(crate) struct ResizeOnNode {
    nodes: ObjectLookup,
    /// Reports whether the node has to be known at all.
    concerns: fn(old: &Value, new: &Value) -> bool,
    check_node: CheckNode,
    /// Subresources besides `resize`.
    also_updates: bool,
}

impl ResizeOnNode {
    /// `PodResizeValidator`
    pub(crate) fn within_capacity(nodes: ObjectLookup) -> Self {
        Self {
            nodes,
            concerns: |_, _| true,
            check_node: check_capacity,
            also_updates: false,
        }
    }

    /// `NodeDeclaredFeatureValidator`
    pub(crate) fn by_declared_features(nodes: ObjectLookup) -> Self {
        Self {
            nodes,
            concerns: |old, new| !required_features(old, new).is_empty(),
            check_node: check_features,
            also_updates: true,
        }
    }

    async fn check(&self, attributes: &Attributes) -> Result<(), ApiError> {
        let Some((new, old)) = attributes.object.as_ref().zip(attributes.old_object.as_deref()) else {
            return Ok(());
        };
        let name = new
            .pointer("/spec/nodeName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let generation = |pod: &Value| pod.pointer("/metadata/generation").and_then(Value::as_i64);
        if name.is_empty() || generation(new) == generation(old) || !(self.concerns)(old, new) {
            return Ok(());
        }
        let missing = || forbidden(attributes, format_args!("node {} not found", quote(name)));
        let node = self.nodes.find("", name).await?.ok_or_else(missing)?;
        (self.check_node)(attributes, old, new, &node)
    }
}

fn check_capacity(attributes: &Attributes, _old: &Value, pod: &Value, node: &Value) -> Result<(), ApiError> {
    let labels = node.pointer("/metadata/labels");
    let os = labels.and_then(|labels| labels.get(OS)?.as_str()).unwrap_or("linux");
    if os != "linux" {
        let name = node
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let why = format!(
            "pod resize is only supported on linux nodes, node {} is {}",
            quote(name),
            quote(os)
        );
        return Err(forbidden(attributes, why).with_cause("UnsupportedPlatform", "", ""));
    }
    let requests = requests_of_spec(pod.get("spec").unwrap_or(&Value::Null));
    let allocatable = resource_list(node.pointer("/status/allocatable"));
    let amount = |list: &ResourceList, name: &str| list.get(name).copied().unwrap_or(Quantity::ZERO);
    let exceeding = ["cpu", "memory"].into_iter().filter_map(|name| {
        let (asked, there) = (amount(&requests, name), amount(&allocatable, name));
        let number = |amount: Quantity| {
            if name == "cpu" {
                amount.milli_value()
            } else {
                amount.value()
            }
        };
        let text = || format!("{name}, requested: {}, allocatable: {}", number(asked), number(there));
        (asked > there).then(text)
    });
    let exceeding: Vec<String> = exceeding.collect();
    if exceeding.is_empty() {
        return Ok(());
    }
    let why = format!(
        "node didn't have enough allocatable resources: {}",
        exceeding.join("; ")
    );
    Err(forbidden(attributes, why).with_cause("NodeCapacity", "", ""))
}

/// The features that a node must have for an update of a pod.
fn required_features(old: &Value, new: &Value) -> Vec<&'static str> {
    let none = Value::Null;
    let (old, new) = (old.get("spec").unwrap_or(&none), new.get("spec").unwrap_or(&none));
    let differ = |old: &Value, new: &Value| {
        [ListName::Requests, ListName::Limits]
            .iter()
            .any(|list| listed(old, *list) != listed(new, *list))
    };
    let mut features = Vec::new();
    if differ(old, new) {
        features.push("InPlacePodLevelResourcesVerticalScaling");
    }
    let init = |spec: &'_ Value| {
        spec.get("initContainers")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default()
    };
    let mut pairs = init(old).into_iter().zip(init(new));
    if pairs.any(|(old, new)| !is_sidecar(&old) && differ(&old, &new)) {
        features.push("InPlacePodVerticalScalingInitContainers");
    }
    features
}

fn check_features(attributes: &Attributes, old: &Value, new: &Value, node: &Value) -> Result<(), ApiError> {
    let declared = node.pointer("/status/declaredFeatures").and_then(Value::as_array);
    let has = |feature: &str| declared.is_some_and(|all| all.iter().any(|declared| declared == feature));
    let required = required_features(old, new);
    let missing: Vec<&str> = required.into_iter().filter(|feature| !has(feature)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let name = node
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let why = format!(
        "pod update requires features {} which are not available on node {}",
        missing.join(", "),
        quote(name)
    );
    Err(forbidden(attributes, why))
}

impl Admission for ResizeOnNode {
    fn handles(&self, request: &WriteRequest) -> bool {
        let part = request.subresource.name();
        request.operation == Operation::Update
            && request.resource.group.is_empty()
            && &*request.resource.resource == "pods"
            && (part == "resize" || (part.is_empty() && self.also_updates))
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
    fn what_changes_says_which_features_a_node_needs() {
        let pod = |own: &str, init: &str, sidecar: &str| {
            let asks = |cpu: &str| json!({ "requests": { "cpu": cpu } });
            json!({ "spec": {
                "resources": asks(own),
                "initContainers": [{ "resources": asks(init) }, { "resources": asks(sidecar), "restartPolicy": "Always" }],
            }})
        };
        let old = pod("1", "1", "1");
        assert!(required_features(&old, &pod("1", "1", "2")).is_empty());
        assert_eq!(
            required_features(&old, &pod("2", "1", "1")),
            ["InPlacePodLevelResourcesVerticalScaling"]
        );
        assert_eq!(
            required_features(&old, &pod("1", "2", "1")),
            ["InPlacePodVerticalScalingInitContainers"]
        );
    }
}
