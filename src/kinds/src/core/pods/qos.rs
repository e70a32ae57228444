//! The class of a pod, which says who suffers first on a node that runs short.

use std::collections::BTreeMap;

use serde_json::Value;
use trireme_machinery::{
    Feature, Features,
    quantity::{Format, Quantity},
};

use crate::values::items;

type Amounts = BTreeMap<&'static str, Quantity>;

/// `Guaranteed`, `Burstable` or `BestEffort`.
pub(super) fn class(features: Features, pod: &Value) -> &'static str {
    let Some(spec) = pod.get("spec") else {
        return "BestEffort";
    };
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    let mut guaranteed = true;
    let of_pod = spec
        .get("resources")
        .filter(|_| features.has(Feature::PodLevelResources));
    let none = Value::Null;
    let all: Vec<&Value> = match of_pod {
        Some(resources) => vec![resources],
        None => ["containers", "initContainers"]
            .into_iter()
            .flat_map(|list| items(spec, list))
            .map(|container| container.get("resources").unwrap_or(&none))
            .collect(),
    };
    for resources in all {
        add(resources, "requests", &mut requests);
        guaranteed &= add(resources, "limits", &mut limits) == 2;
    }
    if requests.is_empty() && limits.is_empty() {
        "BestEffort"
    } else if guaranteed && requests == limits {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Adds what counts of a list and says how much of it did.
fn add(resources: &Value, list: &str, sum: &mut Amounts) -> usize {
    let mut counted = 0;
    for name in ["cpu", "memory"] {
        let amount = resources
            .get(list)
            .and_then(|list| list.get(name))
            .and_then(Value::as_str);
        let Some(amount) = amount.and_then(|text| Quantity::parse(text).ok()) else {
            continue;
        };
        let zero = Quantity::from_integer(0, Format::DecimalSi);
        if amount <= zero {
            continue;
        }
        counted += 1;
        let so_far = sum.remove(name).unwrap_or(zero);
        sum.insert(name, so_far + amount);
    }
    counted
}
