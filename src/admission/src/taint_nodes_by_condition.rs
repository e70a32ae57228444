//! `TaintNodesByCondition`: a new node takes no pods until it is known to be ready (`plugin/pkg/admission/nodetaint`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{is_write_of, push};

const KEY: &str = "node.kubernetes.io/not-ready";
const EFFECT: &str = "NoSchedule";

/// The plugin.
pub(crate) struct TaintNodesByCondition;

impl Admission for TaintNodesByCondition {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "nodes", &[Operation::Create])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        if let Some(Value::Object(node)) = attributes.object.as_mut() {
            let spec = node.entry("spec").or_insert_with(|| json!({}));
            let taints = spec.get("taints").and_then(Value::as_array);
            let is_tainted = |taint: &Value| {
                let text = |field: &str| taint.get(field).and_then(Value::as_str);
                text("key") == Some(KEY) && text("effect") == Some(EFFECT)
            };
            if !taints.is_some_and(|taints| taints.iter().any(is_tainted)) {
                push(spec, "taints", json!({ "key": KEY, "effect": EFFECT }));
            }
        }
        async { Ok(()) }.boxed()
    }
}
