//! The usage of resource claims (`pkg/quota/v1/evaluator/core/resource_claims.go`).

use serde_json::Value;
use trireme_machinery::pod_resources::{ResourceList, add, raise};

use super::evaluators::number;

pub(super) const PER_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The largest number of devices of one allocation (`AllocationResultsMaxSize`).
const MOST_DEVICES: i64 = 32;

/// Reports whether a limit of a quota concerns the devices of claims.
pub(super) fn counts(name: &str) -> bool {
    name.ends_with(PER_CLASS)
}

/// The devices that a claim may use, by their class.
pub(super) fn usage(claim: &Value) -> ResourceList {
    let mut usage = ResourceList::new();
    let requests = claim.pointer("/spec/devices/requests").and_then(Value::as_array);
    for request in requests.into_iter().flatten() {
        let alternatives = request.get("firstAvailable").and_then(Value::as_array);
        let mut most = ResourceList::new();
        match alternatives.filter(|alternatives| !alternatives.is_empty()) {
            Some(alternatives) => alternatives.iter().for_each(|one| raise(&mut most, &devices(one))),
            None => most = request.get("exactly").map(devices).unwrap_or_default(),
        }
        add(&mut usage, &most);
    }
    usage
}

fn devices(request: &Value) -> ResourceList {
    let text = |field: &str| request.get(field).and_then(Value::as_str).unwrap_or_default();
    let count = match text("allocationMode") {
        "ExactCount" => request.get("count").and_then(Value::as_i64).unwrap_or_default(),
        "All" => MOST_DEVICES,
        _ => 0,
    };
    ResourceList::from([(format!("{}{PER_CLASS}", text("deviceClassName")), number(count))])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_of_the_alternatives_counts() {
        let exactly = |class: &str, mode: &str, count: i64| json!({ "deviceClassName": class, "allocationMode": mode, "count": count });
        let requests = json!([
            { "exactly": exactly("a", "ExactCount", 2) },
            { "firstAvailable": [exactly("a", "ExactCount", 1), exactly("b", "All", 0), exactly("a", "ExactCount", 3)] },
        ]);
        let usage = usage(&json!({ "spec": { "devices": { "requests": requests } } }));
        let shown: Vec<String> = usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        let expected = [
            "a.deviceclass.resource.k8s.io/devices=5",
            "b.deviceclass.resource.k8s.io/devices=32",
        ];
        assert_eq!(shown, expected);
    }
}
