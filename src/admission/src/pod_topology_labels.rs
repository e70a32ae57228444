//! `PodTopologyLabels`: pods carry zone and region of their node (`plugin/pkg/admission/podtopologylabels`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::{ApiError, json};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::object_lookup::ObjectLookup;

const LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// The plugin.
pub(crate) struct PodTopologyLabels {
    nodes: ObjectLookup,
}

impl PodTopologyLabels {
    /// Looks at these nodes.
    pub(crate) fn new(nodes: ObjectLookup) -> Self {
        Self { nodes }
    }

    async fn set(&self, attributes: &mut Attributes) -> Result<(), ApiError> {
        let Some(object) = attributes.object.as_ref() else {
            return Ok(());
        };
        let text = |pointer: &str| json::at(object, pointer).and_then(Value::as_str).unwrap_or_default();
        let node = match attributes.subresource.name() {
            "binding" if text("/target/kind") != "Node" => "",
            "binding" => text("/target/name"),
            _ => text("/spec/nodeName"),
        };
        if node.is_empty() {
            return Ok(());
        }
        let Some(node) = self.nodes.cached("", node).await? else {
            return Ok(());
        };
        let labels = LABELS.iter().filter_map(|key| Some((*key, node.label(key)?)));
        for (key, value) in labels {
            if let Some(object) = attributes.object.as_mut() {
                let place = &mut object["metadata"]["labels"];
                if !place.is_object() {
                    *place = json!({});
                }
                place[key] = value.into();
            }
        }
        Ok(())
    }
}

impl Admission for PodTopologyLabels {
    fn handles(&self, request: &WriteRequest) -> bool {
        request.operation == Operation::Create
            && request.resource.group.is_empty()
            && &*request.resource.resource == "pods"
            && matches!(request.subresource.name(), "" | "binding")
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        self.set(attributes).boxed()
    }
}
