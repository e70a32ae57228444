//! `DefaultTolerationSeconds`: pods stay for a while on nodes that are not ready or cannot be reached
//! (`plugin/pkg/admission/defaulttolerationseconds`).

use futures_util::{FutureExt as _, future::BoxFuture};
use serde_json::{Value, json};
use trireme_machinery::ApiError;
use trireme_registry::{Admission, Attributes, Operation, WriteRequest};

use crate::attributes::{is_write_of, push};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const EFFECT: &str = "NoExecute";
/// The times for which pods stay on nodes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TolerationSeconds {
    /// On a node that is not ready.
    pub not_ready: i64,
    /// On a node that cannot be reached.
    pub unreachable: i64,
}

impl Default for TolerationSeconds {
    fn default() -> Self {
        Self {
            not_ready: 300,
            unreachable: 300,
        }
    }
}

/// The plugin.
pub(crate) struct DefaultTolerationSeconds(pub(crate) TolerationSeconds);

impl Admission for DefaultTolerationSeconds {
    fn handles(&self, request: &WriteRequest) -> bool {
        is_write_of(request, "", "pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(&'a self, attributes: &'a mut Attributes) -> BoxFuture<'a, Result<(), ApiError>> {
        if let Some(spec) = attributes.object.as_mut().and_then(|pod| pod.get_mut("spec")) {
            add(spec, self.0);
        }
        async { Ok(()) }.boxed()
    }
}

/// Tolerates each taint that the pod does not tolerate itself.
fn add(spec: &mut Value, times: TolerationSeconds) {
    let own = spec.get("tolerations").and_then(Value::as_array);
    let is_tolerated = |taint: &str| own.is_some_and(|own| own.iter().any(|toleration| tolerates(toleration, taint)));
    let mut missing = vec![(NOT_READY, times.not_ready), (UNREACHABLE, times.unreachable)];
    missing.retain(|(taint, _)| !is_tolerated(taint));
    for (taint, seconds) in missing {
        let toleration = json!({
            "key": taint, "operator": "Exists", "effect": EFFECT, "tolerationSeconds": seconds,
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
        add(&mut spec, TolerationSeconds::default());
        let all = spec["tolerations"].as_array().cloned().unwrap_or_default();
        all.iter()
            .map(|toleration| toleration["key"].as_str().unwrap_or("").to_owned())
            .collect()
    }

    #[test]
    fn each_taint_has_a_time_of_its_own() {
        let mut spec = json!({});
        let times = TolerationSeconds {
            not_ready: 5,
            unreachable: 7,
        };
        add(&mut spec, times);
        let times: Vec<_> = (0..2)
            .map(|at| spec["tolerations"][at]["tolerationSeconds"].clone())
            .collect();
        assert_eq!(times, [5, 7]);
    }

    #[test]
    fn only_taints_that_nothing_is_said_about_are_added() {
        let [not_ready, unreachable] = [NOT_READY, UNREACHABLE];
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
