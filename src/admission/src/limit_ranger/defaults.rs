//! The requests and limits that containers get which name none.

use serde_json::{Map, Value};

use super::{limit_type, limits};

/// The annotation that says what was set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the defaults of a range on the containers of a pod.
pub(super) fn set(pod: &mut Value, range: &Value) {
    let (mut requests, mut most) = (Map::new(), Map::new());
    for limit in limits(range).filter(|limit| limit_type(limit) == "Container") {
        for (field, into) in [("defaultRequest", &mut requests), ("default", &mut most)] {
            let given = limit.get(field).and_then(Value::as_object);
            into.extend(
                given
                    .into_iter()
                    .flatten()
                    .map(|(name, amount)| (name.clone(), amount.clone())),
            );
        }
    }
    let mut notes = Vec::new();
    for (field, kind) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.get_mut("spec").and_then(|spec| spec.get_mut(field)?.as_array_mut());
        for container in containers.into_iter().flatten() {
            let set = [
                ("request", fill(container, "requests", &requests)),
                ("limit", fill(container, "limits", &most)),
            ];
            let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
            for (word, names) in set.into_iter().filter(|(_, names)| !names.is_empty()) {
                notes.push(format!("{} {word} for {kind} {name}", names.join(", ")));
            }
        }
    }
    if !notes.is_empty() {
        annotate(pod, format!("LimitRanger plugin set: {}", notes.join("; ")));
    }
}

/// Sets what a list does not have; gives the names of what was set.
fn fill<'d>(container: &mut Value, list: &str, defaults: &'d Map<String, Value>) -> Vec<&'d str> {
    let mut set = Vec::new();
    for (name, amount) in defaults {
        let Some(list) = object_at(container, "resources").and_then(|resources| object_at(resources, list)) else {
            continue;
        };
        let list = list.as_object_mut();
        if let Some(list) = list.filter(|list| !list.contains_key(name)) {
            list.insert(name.clone(), amount.clone());
            set.push(name.as_str());
        }
    }
    set
}

fn annotate(pod: &mut Value, note: String) {
    let annotations = object_at(pod, "metadata").and_then(|metadata| object_at(metadata, "annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
        annotations.insert(ANNOTATION.to_owned(), note.into());
    }
}

/// The object in a field, which is made if it is not there.
fn object_at<'v>(parent: &'v mut Value, field: &str) -> Option<&'v mut Value> {
    let place = parent.as_object_mut()?.entry(field).or_insert(Value::Null);
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    Some(place)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missing_is_set_and_noted() {
        let range = json!({ "spec": { "limits": [
            { "type": "Container", "default": { "cpu": "2", "memory": "1Gi" }, "defaultRequest": { "cpu": "1" } },
            { "type": "Pod", "max": { "cpu": "9" } },
        ]}});
        let own = json!({ "limits": { "cpu": "3", "memory": "2Gi" }, "requests": { "cpu": "3" } });
        let mut pod = json!({ "spec": {
            "containers": [{ "name": "a" }, { "name": "b", "resources": own }],
            "initContainers": [{ "name": "i", "resources": { "requests": { "cpu": "4" } } }],
        }});
        set(&mut pod, &range);
        assert_eq!(
            pod["spec"]["containers"][0]["resources"],
            json!({ "limits": { "cpu": "2", "memory": "1Gi" }, "requests": { "cpu": "1" } })
        );
        assert_eq!(pod["spec"]["containers"][1]["resources"], own);
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container a; cpu, memory limit for container a; \
             cpu, memory limit for init container i"
        );
        let mut untouched = json!({ "spec": { "containers": [{ "name": "a" }] } });
        set(&mut untouched, &json!({ "spec": { "limits": [] } }));
        assert_eq!(untouched, json!({ "spec": { "containers": [{ "name": "a" }] } }));
    }
}
