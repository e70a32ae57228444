//! `ExtendedResourceToleration`: pods that ask for devices tolerate the taints of nodes that have them
//! (`plugin/pkg/admission/extendedresourcetoleration`).

use std::collections::BTreeSet;

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::{
    ApiError,
    pod_resources::{ListName, is_extended, listed},
};
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{is_write_of, push};

/// The plugin.
pub(crate) struct ExtendedResourceToleration;

fn set(spec: &mut Value) {
    let mut devices = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for container in spec.get(list).and_then(Value::as_array).into_iter().flatten() {
            let asked = listed(container, ListName::Requests).into_keys();
            devices.extend(asked.filter(|name| is_extended(name)));
        }
    }
    for device in devices {
        let toleration = json!({ "key": device, "operator": "Exists", "effect": "NoSchedule" });
        let is_same = |own: &Value| {
            let value = own.get("value").and_then(Value::as_str).unwrap_or_default();
            ["key", "operator", "effect"]
                .iter()
                .all(|field| own.get(*field) == toleration.get(*field))
                && value.is_empty()
        };
        let own = spec.get_mut("tolerations").and_then(Value::as_array_mut);
        match own.and_then(|own| own.iter_mut().find(|own| is_same(own))) {
            Some(same) => *same = toleration,
            None => push(spec, "tolerations", toleration),
        }
    }
}

impl Admission for ExtendedResourceToleration {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        if let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) {
            set(spec);
        }
        async { Ok(()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_is_tolerated_once() {
        let asks = |device: &str| json!({ "resources": { "requests": { device: "1", "cpu": "1" } } });
        let mut spec = json!({
            "containers": [asks("example.com/b"), asks("example.com/a")],
            "initContainers": [asks("example.com/a")],
            "tolerations": [{ "key": "example.com/a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3 }],
        });
        set(&mut spec);
        let toleration = |key: &str| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" });
        let expected = json!([toleration("example.com/a"), toleration("example.com/b")]);
        assert_eq!(spec["tolerations"], expected);
    }
}
