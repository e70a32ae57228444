//! What schemas do to values.

use serde_json::{Value, json};
use trireme_machinery::field::{ErrorList, Path};

use super::{
    Structural, defaults, list_types, prune,
    settled::{is_settled, restore},
    values::validate_value,
};

fn schema(properties: &Value) -> Structural {
    Structural::parse(&json!({"type": "object", "properties": properties}))
}

fn errors(properties: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate_value(new, old, &schema(properties), "", &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn lists_and_maps_have_at_most_so_many_items() {
    let of = |most: u64| {
        json!({
            "l": {"type": "array", "maxItems": most, "items": {"type": "string"}},
            "m": {"type": "object", "maxProperties": most, "additionalProperties": {"type": "string"}},
        })
    };
    let object = json!({"l": ["a", "b", "c"], "m": {"a": "1", "b": "2", "c": "3"}});
    let texts = |most: &str| ["l", "m"].map(|field| format!("{field}: Too many: 3: must have at most {most}"));
    assert_eq!(errors(&of(1), &object, None), texts("1 item"));
    assert_eq!(errors(&of(2), &object, None), texts("2 items"));
    assert_eq!(errors(&of(3), &object, None), Vec::<String>::new());
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

/// Schemas of `spec` that treat fields, nulls and defaults in different ways.
fn different_schemas() -> Vec<Value> {
    let part =
        json!({"type": "object", "properties": {"a": {"type": "string", "default": "d"}, "b": {"type": "string"}}});
    let with = |name: &str, value: Value| {
        let mut schema = part.clone();
        schema[name] = value;
        schema
    };
    let nested = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
    let list = |items: &Value| json!({"type": "array", "items": items});
    vec![
        part.clone(),
        with("default", json!({})),
        with("nullable", json!(true)),
        with("x-kubernetes-preserve-unknown-fields", json!(true)),
        with("x-kubernetes-embedded-resource", json!(true)),
        with("additionalProperties", json!(true)),
        with("additionalProperties", part.clone()),
        with("additionalProperties", json!({"type": "string", "default": "e"})),
        nested(part.clone()),
        nested(with("default", json!({"a": "x"}))),
        nested(list(&part)),
        nested(list(&with("default", json!({})))),
        nested(list(&with("nullable", json!(true)))),
        nested(json!({"type": "array"})),
        nested(json!({"x-kubernetes-preserve-unknown-fields": true})),
        nested(json!({"x-kubernetes-int-or-string": true})),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": list(&part)}}),
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": list(&with("x-kubernetes-embedded-resource", json!(true)))}}),
    ]
}

#[test]
fn objects_are_settled_if_restoring_them_changes_nothing() {
    let parts = [
        json!(null),
        json!("text"),
        json!(1),
        json!({}),
        json!({"a": "x"}),
        json!({"a": null, "b": "y"}),
        json!({"a": "x", "b": null}),
        json!({"a": "x", "other": {"a": 1}}),
        json!({"a": "x", "kind": "K", "metadata": {"a": null}}),
        json!({"a": {"a": "x"}}),
        json!({"a": {"a": "x", "b": null, "other": []}}),
        json!({"a": []}),
        json!({"a": [null]}),
        json!({"a": [{"a": "x"}, {"a": "y", "b": "z"}]}),
        json!({"a": [{"b": "z"}]}),
        json!({"a": [{"a": "x", "other": 1}, [{}]]}),
    ];
    let mut settled = 0;
    for of_spec in different_schemas() {
        let with_label = json!({"spec": of_spec, "label": {"type": "string", "default": "l"}});
        for properties in [json!({"spec": of_spec}), with_label] {
            let schema = schema(&properties);
            for part in &parts {
                let mut object = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "n"}, "spec": part});
                for label in [None, Some("l")] {
                    if let Some(label) = label {
                        object["label"] = label.into();
                    }
                    let told = is_settled(object.to_string().as_bytes(), &schema);
                    assert_eq!(told, !restore(&mut object.clone(), &schema), "{properties} {object}");
                    settled += usize::from(told);
                }
            }
        }
    }
    assert!(settled > 100, "{settled}");
    for broken in ["", "{", "{}x", "[", r#"{"apiVersion":"g/v1",}"#] {
        assert!(!is_settled(broken.as_bytes(), &schema(&json!({}))), "{broken}");
    }
}

#[test]
fn what_has_not_changed_is_not_held_against_the_schema_again() {
    let properties = json!({"a": {"type": "integer", "maximum": 3}, "b": {"type": "string"}});
    let (old, new) = (json!({"a": 9}), json!({"a": 9, "b": "x"}));
    assert_eq!(errors(&properties, &new, Some(&old)), Vec::<String>::new());
    let error = "a: Invalid value: 9: a in body should be less than or equal to 3";
    assert_eq!(errors(&properties, &new, None), [error]);

    // The version is that of the request in both.
    let properties = json!({"apiVersion": {"type": "string", "pattern": "1$"}, "b": {"type": "string"}});
    let old = json!({"apiVersion": "g/v2", "b": "x"});
    let new = json!({"apiVersion": "g/v2", "b": "y"});
    let error = "apiVersion: Invalid value: \"g/v2\": apiVersion in body should match '1$'";
    assert_eq!(errors(&properties, &new, Some(&old)), [error]);
    assert_eq!(errors(&properties, &old, Some(&old)), Vec::<String>::new());
}

#[test]
fn bounds_that_their_own_format_has_no_room_for_refuse_every_value() {
    let told = |schema: Value, value: Value| errors(&json!({"a": schema}), &json!({"a": value}), None);
    let whole = |text: &str| format!("<nil>: Invalid value: \"\": {text} in a");
    let bounded = |format: &str, bound: &str, value: f64| json!({"type": "integer", "format": format, bound: value});
    let most = bounded("int32", "maximum", 4_294_967_295.0);
    let int32 = |name: &str| whole(&format!("{name} value must be of type integer with format int32"));
    assert_eq!(told(most, json!(64_512)), [int32("Maximum boundary")]);
    assert_eq!(
        told(bounded("int32", "minimum", -4_294_967_295.0), json!(1)),
        [int32("Minimum boundary")]
    );
    assert_eq!(
        told(json!({"type": "integer", "multipleOf": 0.5}), json!(1)),
        [whole("MultipleOf value must be of type integer (default format)")]
    );
    let widest = bounded("int64", "maximum", 9_223_372_036_854_775_807.0);
    assert_eq!(
        told(widest, json!(1)),
        [whole(
            "Maximum boundary value must be of type integer with format int64"
        )]
    );
    for fits in [
        bounded("int64", "maximum", 1e18),
        bounded("int32", "maximum", 2_147_483_647.0),
        json!({"type": "number", "maximum": 1e300}),
    ] {
        assert_eq!(told(fits, json!(1)), Vec::<String>::new());
    }
    let largest = json!({"type": "integer"});
    assert_eq!(told(largest, json!(i64::MAX)), Vec::<String>::new());
    let float = json!({"type": "number", "format": "float"});
    assert_eq!(
        told(float, json!(1e39)),
        [whole("Checked value must be of type number with format float")]
    );
    let error = "a: Invalid value: 150: a in body should be less than or equal to 100";
    assert_eq!(told(json!({"type": "number", "maximum": 100}), json!(150.0)), [error]);
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
fn an_error_that_two_combined_schemas_find_is_told_once() {
    let word = json!({"enum": ["x", "y"]});
    let properties = json!({"a": {"type": "string", "allOf": [word, word]}});
    let told = [
        "<nil>: Invalid value: \"\": \"a\" must validate all the schemas (allOf). None validated",
        "a: Unsupported value: \"z\": supported values: \"x\", \"y\"",
    ];
    assert_eq!(errors(&properties, &json!({"a": "z"}), None), told);
}

#[test]
fn a_number_is_among_the_values_that_it_converts_to() {
    let properties = json!({
        "whole": {"type": "number", "enum": [1, 2]},
        "fraction": {"type": "number", "enum": [1.5]},
        "word": {"x-kubernetes-int-or-string": true, "enum": ["a", 5]},
    });
    let supported = |name: &str, value: Value| errors(&properties, &json!({name: value}), None).is_empty();
    for value in [json!(1), json!(1.5), json!(2.99)] {
        assert!(supported("whole", value.clone()), "{value}");
    }
    for value in [json!(0.5), json!(-1.5), json!(3.0)] {
        assert!(!supported("whole", value.clone()), "{value}");
    }
    assert!(!supported("fraction", json!(1)));
    assert!(supported("word", json!(97)));
    assert!(!supported("word", json!(98)));
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
fn patterns_are_read_as_in_go() {
    for (pattern, good, bad) in [
        (r"^[\w-.]+@([\w-]+\.)+[\w-]{2,4}$", "a-b@c.org", "é@c.org"),
        (r"^[^[\]]+$", "a", "a]"),
        ("^{.*}$", "{a}", "a"),
        (r"^\w+$", "a_1", "é"),
        (r"^\d+$", "12", "٣"),
    ] {
        let properties = json!({"a": {"type": "string", "pattern": pattern}});
        assert_eq!(errors(&properties, &json!({"a": good}), None), Vec::<String>::new());
        let error = format!("a: Invalid value: \"{bad}\": a in body should match '{pattern}'");
        assert_eq!(errors(&properties, &json!({"a": bad}), None), [error]);
    }
    let invalid = errors(
        &json!({"a": {"type": "string", "pattern": "(a"}}),
        &json!({"a": "a"}),
        None,
    );
    let error = "a: Invalid value: \"a\": a in body should match '(a, but pattern is invalid: error parsing regexp: missing \
                 closing ): `(a`'";
    assert_eq!(invalid, [error]);
    let numbers = json!({"a": {"type": "string", "format": "ssn"}});
    assert_eq!(errors(&numbers, &json!({"a": "123-45-6789"}), None).len(), 0);
    assert_eq!(errors(&numbers, &json!({"a": "١٢٣-45-6789"}), None).len(), 1);
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
