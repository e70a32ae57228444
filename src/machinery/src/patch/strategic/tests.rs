use serde_json::{Value, json};

use super::apply;
use crate::schema::samples;

fn patched(mut object: Value, patch: Value) -> Result<Value, String> {
    let (table, pod) = samples::pods();
    apply(&table, pod, &mut object, &patch).map_err(|error| error.to_string())?;
    Ok(object)
}

fn spec(spec: Value) -> Value {
    json!({ "spec": spec })
}

/// Names and images of the containers, in order.
fn two_containers() -> Value {
    spec(json!({"containers": [
        {"name": "a", "image": "i:1", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]},
        {"name": "b", "image": "i:2"},
    ]}))
}

fn check(original: Value, cases: &[(Value, Value)]) {
    for (patch, want) in cases {
        assert_eq!(patched(original.clone(), patch.clone()).as_ref(), Ok(want), "{patch}");
    }
}

#[test]
fn objects_merge_and_nulls_delete() {
    check(
        json!({"kind": "Pod", "metadata": {"labels": {"a": "1", "b": "2"}}}),
        &[
            (
                json!({"metadata": {"labels": {"a": null, "c": "3"}}}),
                json!({"kind": "Pod", "metadata": {"labels": {"b": "2", "c": "3"}}}),
            ),
            (json!({"metadata": null}), json!({"kind": "Pod"})),
            (
                json!({"metadata": {"labels": {"$patch": "replace", "s": "3"}}}),
                json!({"kind": "Pod", "metadata": {"labels": {"s": "3"}}}),
            ),
            (
                json!({"metadata": {"labels": {"$patch": "delete"}}}),
                json!({"kind": "Pod", "metadata": {"labels": {}}}),
            ),
            (json!({"$patch": "delete"}), json!({})),
            (json!({"$patch": "replace", "kind": "X"}), json!({"kind": "X"})),
            (
                json!({"spec": {"strategy": {"type": null, "x": {"$patch": "delete"}}, "nope": 1}}),
                json!({"kind": "Pod", "metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"strategy": {}, "nope": 1}}),
            ),
        ],
    );
}

#[test]
fn objects_that_the_schema_says_are_replaced() {
    check(
        spec(json!({"selector": {"a": "1"}})),
        &[(
            spec(json!({"selector": {"b": "2"}})),
            spec(json!({"selector": {"b": "2"}})),
        )],
    );
}

#[test]
fn lists_of_objects_merge_by_key() {
    let image_of = |patch: Value| {
        let merged = patched(two_containers(), spec(json!({"containers": patch}))).expect("the patch fits");
        let containers = merged["spec"]["containers"].as_array().cloned().unwrap_or_default();
        let shown: Vec<String> = containers
            .iter()
            .map(|c| {
                format!(
                    "{}={}",
                    c["name"].as_str().unwrap_or(""),
                    c["image"].as_str().unwrap_or("")
                )
            })
            .collect();
        shown.join(" ")
    };
    for (patch, want) in [
        (json!([{"name": "b", "image": "i:9"}]), "a=i:1 b=i:9"),
        (json!([{"name": "c", "image": "i:3"}]), "c=i:3 a=i:1 b=i:2"),
        (json!([{"name": "b", "$patch": "delete"}]), "a=i:1"),
        (json!([{"name": "zz", "$patch": "delete"}]), "a=i:1 b=i:2"),
        (json!([{"name": "z", "image": "i:7"}, {"$patch": "replace"}]), "z=i:7"),
        (json!([{"name": "b"}, {"name": "a"}]), "b=i:2 a=i:1"),
        (json!([]), "a=i:1 b=i:2"),
    ] {
        assert_eq!(image_of(patch.clone()), want, "{patch}");
    }
}

#[test]
fn nested_lists_keep_their_order() {
    let patch = spec(json!({"containers": [
        {"name": "a", "ports": [{"containerPort": 81, "name": "new"}, {"containerPort": 82}]},
    ]}));
    let merged = patched(two_containers(), patch).expect("the patch fits");
    assert_eq!(
        merged["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80, "name": "http"}, {"containerPort": 81, "name": "new"}, {"containerPort": 82}])
    );
}

#[test]
fn atomic_lists_are_replaced() {
    check(
        spec(json!({"tolerations": [{"key": "a"}], "containers": [{"name": "a", "command": ["x", "y"]}]})),
        &[
            (
                spec(json!({"tolerations": [{"key": "c", "$patch": "delete"}]})),
                spec(json!({
                    "tolerations": [{"key": "c", "$patch": "delete"}],
                    "containers": [{"name": "a", "command": ["x", "y"]}],
                })),
            ),
            (
                spec(json!({"tolerations": null, "containers": [{"name": "a", "command": ["z"]}]})),
                spec(json!({"containers": [{"name": "a", "command": ["z"]}]})),
            ),
        ],
    );
}

#[test]
fn lists_of_scalars_merge() {
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    check(
        finalizers(json!(["a", "b"])),
        &[
            (finalizers(json!(["c"])), finalizers(json!(["c", "a", "b"]))),
            (finalizers(json!(["b"])), finalizers(json!(["a", "b"]))),
            (finalizers(json!(null)), json!({"metadata": {}})),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
                finalizers(json!(["b"])),
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}),
                finalizers(json!(["a", "b"])),
            ),
            (
                json!({"metadata": {"$deleteFromPrimitiveList/nope": ["x"]}}),
                finalizers(json!(["a", "b"])),
            ),
            (
                json!({"metadata": {"$setElementOrder/finalizers": ["d", "b", "a"], "finalizers": ["d"]}}),
                finalizers(json!(["d", "b", "a"])),
            ),
        ],
    );
}

#[test]
fn set_element_order_rules() {
    let order = |order: Value, changes: Value| {
        let mut patch = json!({"$setElementOrder/containers": order});
        if !changes.is_null() {
            patch["containers"] = changes;
        }
        let merged = patched(two_containers(), spec(patch)).expect("the patch fits");
        let names: Vec<Value> = merged["spec"]["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|c| c["name"].clone())
            .collect();
        json!(names)
    };
    for (wanted, changes, want) in [
        (
            json!([{"name": "b"}, {"name": "a"}]),
            json!([{"name": "a", "image": "i:8"}]),
            json!(["b", "a"]),
        ),
        (
            json!([{"name": "c"}, {"name": "a"}, {"name": "b"}]),
            json!([{"name": "c"}]),
            json!(["c", "a", "b"]),
        ),
        (json!([{"name": "b"}]), Value::Null, json!(["a", "b"])),
        (
            json!([{"name": "b"}]),
            json!([{"name": "a", "$patch": "delete"}]),
            json!(["b"]),
        ),
        (
            json!([{"name": "a"}, {"name": "c"}]),
            json!([{"name": "c"}]),
            json!(["a", "c", "b"]),
        ),
    ] {
        assert_eq!(order(wanted.clone(), changes.clone()), want, "{wanted} {changes}");
    }
}

#[test]
fn retain_keys_drops_the_others() {
    let original = spec(json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}));
    check(
        original,
        &[
            (
                spec(json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}})),
                spec(json!({"strategy": {"type": "Recreate"}})),
            ),
            (
                spec(json!({"strategy": {"$retainKeys": [1]}})),
                spec(json!({"strategy": {}})),
            ),
        ],
    );
}

#[test]
fn errors_read_as_in_kubernetes() {
    let no_key = |shown: &str, key: &str| format!("map: {shown} does not contain declared merge key: {key}");
    for (patch, want) in [
        (json!({"containers": [{"image": "x"}]}), no_key("map[image:x]", "name")),
        (
            json!({"containers": [{"name": "a", "ports": [{"name": "nokey"}]}]}),
            no_key("map[name:nokey]", "containerPort"),
        ),
        (
            json!({"containers": [{"$patch": "delete"}]}),
            no_key("map[$patch:delete]", "name"),
        ),
        (
            json!({"containers": [{"name": "a", "$patch": "other"}]}),
            "unknown patch type: other in map: map[$patch:other name:a]".to_owned(),
        ),
        (
            json!({"containers": ["a"]}),
            "list element types are not identical: [[map[image:i:1 name:a ports:[map[containerPort:80 name:http] \
             map[containerPort:81]]] map[image:i:2 name:b]] [a]]"
                .to_owned(),
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"image": "i:8", "name": "a"}]}),
            "The order in patch list:\n[map[image:i:8 name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n"
                .to_owned(),
        ),
        (
            json!({"$setElementOrder/containers": "x", "containers": [{"name": "a"}]}),
            "expected a []interface {}, but received a string".to_owned(),
        ),
        (
            json!({"$setElementOrder/containers": [{"nokey": "b"}], "containers": [{"name": "a"}]}),
            no_key("map[nokey:b]", "name"),
        ),
        (
            json!({"$setElementOrder": []}),
            "invalid patch format of setElementOrder list".to_owned(),
        ),
        (
            json!({"$deleteFromPrimitiveList": []}),
            "invalid patch format of primitive list".to_owned(),
        ),
        (
            json!({"$retainKeys": ["containers"], "hostNetwork": true}),
            "invalid patch format of retainKeys".to_owned(),
        ),
        (
            json!({"$retainKeys": "containers"}),
            "invalid patch format of retainKeys".to_owned(),
        ),
    ] {
        assert_eq!(patched(two_containers(), spec(patch.clone())), Err(want), "{patch}");
    }
    assert_eq!(patched(json!({}), json!([])), Err("invalid JSON document".to_owned()));
}
