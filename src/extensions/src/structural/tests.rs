//! What schemas do to values.

use serde_json::{Value, json};
use trireme_machinery::field::{ErrorList, Path};

use super::{Structural, defaults, list_types, prune, values::validate_value};

fn schema(properties: &Value) -> Structural {
    Structural::parse(&json!({"type": "object", "properties": properties}))
}

fn errors(properties: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate_value(new, old, &schema(properties), "", &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn unknown_fields_are_dropped_and_named_in_order() {
    let schema = schema(&json!({"spec": {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}));
    let mut object = json!({
        "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "top": 1,
        "spec": {"list": [{"a": "b", "c": 1}], "map": {"k": {"x": 1, "y": 2}}, "free": {"any": [1]}, "extra": 1},
    });
    let unknown = prune::prune(&mut object, &schema);
    assert_eq!(unknown, ["spec.extra", "spec.list[0].c", "spec.map.k.y", "top"]);
    let spec = json!({"list": [{"a": "b"}], "map": {"k": {"x": 1}}, "free": {"any": [1]}});
    assert_eq!(object["spec"], spec);
}

#[test]
fn defaults_are_filled_in_from_the_outside_to_the_inside() {
    let schema = schema(&json!({"spec": {"type": "object", "default": {}, "properties": {
        "color": {"type": "string", "default": "red"},
        "may": {"type": "string", "nullable": true, "default": "x"},
        "nested": {"type": "object", "default": {}, "properties": {"d": {"type": "string", "default": "dd"}}},
    }}}));
    let mut object = json!({"spec": {"color": null, "may": null, "gone": null}});
    defaults::apply_defaults(&mut object, &schema);
    let spec = json!({"color": "red", "may": null, "gone": null, "nested": {"d": "dd"}});
    assert_eq!(object, json!({ "spec": spec }));
}

#[test]
fn what_has_not_changed_is_not_held_against_the_schema_again() {
    let properties = json!({"a": {"type": "integer", "maximum": 3}, "b": {"type": "string"}});
    let (old, new) = (json!({"a": 9}), json!({"a": 9, "b": "x"}));
    assert_eq!(errors(&properties, &new, Some(&old)), Vec::<String>::new());
    let error = "a: Invalid value: 9: a in body should be less than or equal to 3";
    assert_eq!(errors(&properties, &new, None), [error]);
}

#[test]
fn alternatives_are_told_as_upstream_tells_them() {
    let properties = json!({"a": {"type": "integer", "oneOf": [{"maximum": 3}, {"minimum": 2}]}});
    let error = "<nil>: Invalid value: \"\": \"a\" must validate one and only one schema (oneOf). Found 2 valid \
                 alternatives";
    assert_eq!(errors(&properties, &json!({"a": 3}), None), [error]);
    assert_eq!(errors(&properties, &json!({"a": 1}), None), Vec::<String>::new());
}

#[test]
fn sets_and_maps_have_each_item_once() {
    let schema = schema(&json!({
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"]},
    }));
    let object = json!({"set": ["a", "b", "a", "a"], "map": [{"k": 1}, {"k": 2}, {"k": 1, "x": 1}]});
    let mut errors = ErrorList::new();
    list_types::validate_list_sets_and_maps(&object, &schema, &Path::root(), &mut errors);
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        ["map[2]: Duplicate value: {\"k\":1}", "set[2]: Duplicate value: \"a\""]
    );
}

#[test]
fn formats_and_bounds_are_upstreams() {
    let multiple = json!({"type": "number", "multipleOf": 0.5});
    let host = json!({"type": "string", "format": "hostname"});
    let range = "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in a";
    for (schema, value, expected) in [
        (host.clone(), json!("a.bc"), vec![]),
        (host.clone(), json!("a-b"), vec![]),
        (
            host,
            json!("a.b"),
            vec!["a: Invalid value: \"a.b\": a in body must be of type hostname: \"a.b\""],
        ),
        (
            json!({"type": "string", "format": "cidr"}),
            json!(5),
            vec!["a: Invalid value: \"int64\": a in body must be of type cidr: \"int64\""],
        ),
        (
            json!({"type": "integer"}),
            json!(1e30),
            vec![
                "a: Invalid value: \"number\": a in body must be of type integer: \"number\"",
                range,
            ],
        ),
        (multiple.clone(), json!(1e15), vec![]),
        (
            multiple,
            json!(1.25),
            vec!["a: Invalid value: 1.25: a in body should be a multiple of 0.5"],
        ),
    ] {
        assert_eq!(
            errors(&json!({"a": schema}), &json!({"a": value}), None),
            expected,
            "{schema} {value}"
        );
    }
    let huge = errors(
        &json!({"a": {"type": "number", "multipleOf": 0.5}}),
        &json!({"a": 1e30}),
        None,
    );
    assert_eq!(huge.len(), 1, "upstream holds no such number for whole: {huge:?}");
}

#[test]
fn what_has_not_changed_counts_within_alternatives() {
    let part = |name: &str| json!({"properties": {name: {"minimum": 3}}});
    let integers = json!({"a": {"type": "integer"}, "b": {"type": "integer"}});
    let properties = json!({"any": {"type": "object", "properties": integers, "anyOf": [part("a"), part("b")]}});
    let (old, new) = (json!({"any": {"a": 5, "b": 1}}), json!({"any": {"a": 1, "b": 1}}));
    assert_eq!(errors(&properties, &new, Some(&old)).len(), 2);
    assert_eq!(errors(&properties, &old, Some(&old)), Vec::<String>::new());
}
