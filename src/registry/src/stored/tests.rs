use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    encode,
    event_kind::EventKind,
    fixtures::{configmaps, item, nodes, object, pods, widgets},
    item::Item,
    versions,
};

use super::ItemError;

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).expect("JSON is UTF-8")
}

fn stored(info: &crate::ResourceDefinition, key: &str, value: &str) -> Result<Item, ItemError> {
    Item::from_stored(info, key, Bytes::copy_from_slice(value.as_bytes()), 7)
}

#[test]
fn a_canonical_object_gets_its_revision_spliced_in() {
    let pod = item(
        &pods(),
        "ns/a",
        json!({"labels": {"b": "2", "a": "1"}, "spec": {"nodeName": "n1"}}),
        42,
    );
    assert_eq!(
        text(&pod.bytes),
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"42","labels":{"a":"1","b":"2"},"name":"a","namespace":"ns","uid":"uid-of-ns/a"},"spec":{"nodeName":"n1"}}"#
    );
    assert_eq!((pod.namespace(), pod.name(), &*pod.uid), ("ns", "a", "uid-of-ns/a"));
    assert_eq!(
        (pod.label("a"), pod.label("b"), pod.label("c")),
        (Some("1"), Some("2"), None)
    );
    assert_eq!(&*pod.fields[0], "n1");
    assert!(text(&pod.list_body()).starts_with(r#""metadata":{"resourceVersion":"42","#));
}

#[test]
fn what_has_just_been_encoded_makes_the_same_item_as_its_bytes() {
    let info = pods();
    for more in [
        json!({}),
        json!({"labels": {"b": "2", "a": null}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}),
        json!({"ownerReferences": [{"uid": "u"}, {"name": "x"}], "spec": {"nodeName": 7}}),
    ] {
        let mut object = object(&info, "ns/a", more);
        object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        object["metadata"]["resourceVersion"] = "3".into();
        let bytes = encode::object(&object);
        let key = "/registry/pods/ns/a";
        let encoded = Item::from_encoded(EventKind::Modified, &info, key, &object, &bytes, 7).expect("it is a pod");
        let stored = Item::from_stored_as(EventKind::Modified, &info, key, &bytes, 7).expect("it is a pod");
        assert_eq!(format!("{encoded:?}"), format!("{stored:?}"));
    }
}

#[test]
fn cluster_scoped_keys_have_no_namespace() {
    let node = item(&nodes(), "n1", json!({}), 1);
    assert_eq!((node.namespace(), node.name()), ("", "n1"));
}

#[test]
fn a_foreign_layout_ends_up_the_same_as_our_own() {
    let ours = item(&configmaps(), "ns/a", json!({"data": {"k": "v"}}), 7);
    let theirs = r#"{ "kind": "ConfigMap", "data": {"k":"v"}, "apiVersion": "v1",
        "metadata": {"namespace":"ns","uid":"uid-of-ns/a","resourceVersion":"3","name":"a"} }"#;
    let theirs = stored(&configmaps(), "/registry/configmaps/ns/a", theirs).expect("it is a ConfigMap");
    assert_eq!(text(&theirs.bytes), text(&ours.bytes));
    assert_eq!(theirs.body, ours.body);
}

#[test]
fn an_object_in_another_served_version_is_converted() {
    let value = object(&widgets(), "ns/a", json!({"oldSpec": {"x": 1}})).to_string();
    let value = value.replace("example.com/v1", "example.com/v1alpha1");
    let widget = stored(&widgets(), "/registry/widgets/ns/a", &value).expect("the version is served");
    let value: Value = serde_json::from_slice(&widget.bytes).expect("an item is JSON");
    assert_eq!(
        (&value["apiVersion"], &value["spec"]),
        (&json!("example.com/v1"), &json!({"x": 1}))
    );
    assert!(text(&widget.list_body()).starts_with(r#""metadata":{"resourceVersion":"7","#));
}

#[test]
fn what_is_not_an_object_of_the_resource_is_a_typed_error() {
    let sound = object(&configmaps(), "ns/a", json!({})).to_string();
    for key in [
        "/registry/configmaps/a",
        "/registry/configmaps/ns/a/b",
        "/registry/configmapsx/ns/a",
        "/registry/configmaps//a",
    ] {
        assert!(
            matches!(stored(&configmaps(), key, &sound), Err(ItemError::Key(_))),
            "{key}"
        );
    }
    let key = "/registry/configmaps/ns/a";
    for value in [
        "",
        "junk",
        "[]",
        "{}",
        r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
        &sound[..sound.len() - 1],
    ] {
        assert!(
            matches!(stored(&configmaps(), key, value), Err(ItemError::Undecodable(_))),
            "{value}"
        );
    }
    for value in [
        sound.replace("ConfigMap", "Secret"),
        sound.replace(r#""v1""#, r#""v9""#),
    ] {
        assert!(
            matches!(stored(&configmaps(), key, &value), Err(ItemError::Foreign { .. })),
            "{value}"
        );
    }
}

#[test]
fn a_deleted_object_is_its_last_state_at_the_revision_of_the_deletion() {
    let before = item(&pods(), "ns/a", json!({"labels": {"a": "1"}}), 99);
    let deleted = before.with_revision(100);
    assert_eq!(text(&deleted.bytes), text(&before.bytes).replace(r#""99""#, r#""100""#));
    assert_eq!((deleted.revision, deleted.label("a")), (100, Some("1")));
}

#[test]
fn a_watch_line_wraps_the_bytes_and_is_made_once() {
    let pod = item(&pods(), "ns/a", json!({}), 1);
    for kind in [EventKind::Added, EventKind::Modified, EventKind::Deleted] {
        let expected = format!("{{\"type\":\"{}\",\"object\":{}}}\n", kind.as_str(), text(&pod.bytes));
        assert_eq!(text(&pod.line(kind)), expected);
    }
    assert_eq!(pod.line(EventKind::Added).as_ptr(), pod.line(EventKind::Added).as_ptr());
}

#[test]
fn versions_differ_by_name_alone_or_by_conversion() {
    let info = widgets();
    let widget = item(&info, "ns/a", json!({"spec": {"x": 1}}), 5);
    assert_eq!(versions::object_bytes(&info, &widget, 0), widget.bytes);
    assert_eq!(
        text(&versions::object_bytes(&info, &widget, 1)),
        text(&widget.bytes).replace("example.com/v1", "example.com/v1beta1")
    );
    assert_eq!(
        text(&versions::object_bytes(&info, &widget, 2)),
        r#"{"apiVersion":"example.com/v1alpha1","kind":"Widget","metadata":{"resourceVersion":"5","name":"a","namespace":"ns","uid":"uid-of-ns/a"},"oldSpec":{"x":1}}"#
    );
    assert_eq!(versions::list_item_body(&info, &widget, 1), widget.list_body());
    assert_eq!(
        text(&versions::list_item_bytes(&info, &widget, 2)),
        r#"{"metadata":{"resourceVersion":"5","name":"a","namespace":"ns","uid":"uid-of-ns/a"},"oldSpec":{"x":1}}"#
    );
    let value = versions::object_value(&info, &widget, 2);
    assert_eq!(
        (&value["apiVersion"], &value["oldSpec"]),
        (&json!("example.com/v1alpha1"), &json!({"x": 1}))
    );
}
