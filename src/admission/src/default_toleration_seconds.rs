//! `DefaultTolerationSeconds`: pods stay for a while on nodes that are not ready or cannot be reached
//! (`plugin/pkg/admission/defaulttolerationseconds`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{is_write_of, push};

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const EFFECT: &str = "NoExecute";
const SECONDS: u32 = 300;

/// The plugin.
pub(crate) struct DefaultTolerationSeconds;

impl Admission for DefaultTolerationSeconds {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        if let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) {
            add(spec);
        }
        async { Ok(()) }.boxed()
    }
}

/// Tolerates each taint that the pod does not tolerate itself.
fn add(spec: &mut Value) {
    let own = spec.get("tolerations").and_then(Value::as_array);
    let is_tolerated = |taint: &str| own.is_some_and(|own| own.iter().any(|toleration| tolerates(toleration, taint)));
    let missing = TAINTS.map(|taint| (taint, is_tolerated(taint)));
    for (taint, _) in missing.into_iter().filter(|(_, tolerated)| !tolerated) {
        let toleration = json!({
            "key": taint, "operator": "Exists", "effect": EFFECT, "tolerationSeconds": SECONDS,
        });
        push(spec, "tolerations", toleration);
    }
}

/// Reports whether a toleration says anything about the taint: an empty key or effect means all.
fn tolerates(toleration: &Value, taint: &str) -> bool {
    let is_one_of = |field: &str, value: &str| {
        let text = toleration.get(field).and_then(Value::as_str).unwrap_or_default();
        text.is_empty() || text == value
    };
    is_one_of("key", taint) && is_one_of("effect", EFFECT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(tolerations: Value) -> Vec<String> {
        let mut spec = json!({ "tolerations": tolerations });
        add(&mut spec);
        let all = spec["tolerations"].as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|toleration| toleration["key"].as_str().unwrap_or("").to_owned())
            .collect()
    }

    #[test]
    fn only_taints_that_nothing_is_said_about_are_added() {
        let [not_ready, unreachable] = TAINTS;
        assert_eq!(keys(Value::Null), [not_ready, unreachable]);
        assert_eq!(keys(json!([{ "key": "own" }])), ["own", not_ready, unreachable]);
        assert_eq!(
            keys(json!([{ "key": unreachable, "effect": "NoExecute" }])),
            [unreachable, not_ready]
        );
        assert_eq!(keys(json!([{ "key": unreachable, "effect": "NoSchedule" }])).len(), 3);
        assert_eq!(keys(json!([{ "operator": "Exists" }])), [""]);
    }
}
