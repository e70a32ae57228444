//! The pods that are there already when a stricter level is set (`EvaluatePodsInNamespace`).

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use serde_json::Value;
use trireme_actors::Clock;
use trireme_machinery::go_text::quote;

use super::{
    checks::Violations,
    pod::{CheckedPod, items, name},
    policy::LevelVersion,
};
use crate::object_lookup::ObjectLookup;

/// As in kube-apiserver: at most so many pods are looked at, for this time.
const MOST: usize = 3_000;
const PATIENCE: Duration = Duration::from_secs(1);
/// The number of pods between two looks at the clock, which let others have the thread.
const AT_ONCE: usize = 64;

/// Looks at the pods of a namespace.
pub(super) struct ExistingPods {
    pods: ObjectLookup,
    clock: Clock,
}

impl ExistingPods {
    pub(super) fn new(pods: ObjectLookup, clock: Clock) -> Self {
        Self { pods, clock }
    }

    /// The warnings about those pods that count and violate a level.
    pub(super) async fn violations(
        &self,
        namespace: &str,
        enforce: LevelVersion,
        counts: impl Fn(&Value) -> bool,
    ) -> Vec<String> {
        let Ok(pods) = self.pods.list(namespace).await else {
            return vec!["failed to list pods while checking new PodSecurity enforce level".to_owned()];
        };
        let deadline = self.clock.now() + PATIENCE;
        let all = pods.len();
        let mut found = BTreeMap::<String, Vec<&str>>::new();
        let mut checked = 0;
        for pod in prioritized(&pods).into_iter().take(MOST) {
            let violations = Violations::of(CheckedPod::of(pod), enforce);
            if !violations.is_empty() && counts(pod) {
                let metadata = pod.get("metadata").unwrap_or(&Value::Null);
                found.entry(violations.reasons()).or_default().push(name(metadata));
            }
            checked += 1;
            if checked % AT_ONCE == 0 {
                tokio::task::yield_now().await;
                if self.clock.now() > deadline {
                    break;
                }
            }
        }
        let mut warnings = Vec::new();
        if checked < all {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
            ));
        }
        if !found.is_empty() {
            let (namespace, level) = (quote(namespace), quote(&enforce.to_string()));
            warnings.push(format!(
                "existing pods in namespace {namespace} violate the new PodSecurity enforce level {level}"
            ));
        }
        warnings.extend(decorated(found));
        warnings
    }
}

/// Pods that nothing made, and the first of all others that one thing made; then the rest.
fn prioritized(pods: &[Value]) -> Vec<&Value> {
    let mut controllers = HashSet::new();
    let (mut first, later): (Vec<&Value>, Vec<&Value>) = pods.iter().partition(|pod| {
        let mut owners = items(pod.get("metadata").unwrap_or(&Value::Null), "ownerReferences");
        let controller = owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)));
        controller.is_none_or(|controller| controllers.insert(controller.get("uid")))
    });
    first.extend(later);
    first
}

/// One line for each set of reasons, sorted: the first pod by name, and how many others there are.
fn decorated(found: BTreeMap<String, Vec<&str>>) -> Vec<String> {
    let line = |(reasons, pods): (String, Vec<&str>)| {
        let first = pods.iter().min().copied().unwrap_or_default();
        match pods.len().saturating_sub(1) {
            0 => format!("{first}: {reasons}"),
            1 => format!("{first} (and 1 other pod): {reasons}"),
            others => format!("{first} (and {others} other pods): {reasons}"),
        }
    };
    let mut lines: Vec<String> = found.into_iter().map(line).collect();
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_pod_of_each_controller_is_looked_at_first() {
        let pod = |name: &str, controller: &str| {
            let owners = json!([{ "controller": true, "uid": controller }]);
            let owners = if controller.is_empty() { json!([]) } else { owners };
            json!({ "metadata": { "name": name, "ownerReferences": owners } })
        };
        let pods = [pod("a", "1"), pod("b", "1"), pod("c", ""), pod("d", "2"), pod("e", "")];
        let names: Vec<&str> = prioritized(&pods)
            .into_iter()
            .map(|pod| name(&pod["metadata"]))
            .collect();
        assert_eq!(names, ["a", "c", "d", "e", "b"]);
    }

    #[test]
    fn pods_with_the_same_reasons_share_a_line() {
        let found = BTreeMap::from([
            ("privileged".to_owned(), vec!["z", "b", "c"]),
            ("hostPort".to_owned(), vec!["d"]),
            ("host namespaces".to_owned(), vec!["x", "a"]),
        ]);
        assert_eq!(
            decorated(found),
            [
                "a (and 1 other pod): host namespaces",
                "b (and 2 other pods): privileged",
                "d: hostPort",
            ]
        );
    }
}
