//! Rules as objects meet them.

use serde_json::{Value, json};
use trireme_machinery::field::ErrorList;

use super::CompiledRules;
use crate::structural::{Structural, correlation::Ratchet};

fn errors(schema: &Value, object: &Value) -> Vec<String> {
    let (errors, warnings) = change(schema, object, None);
    assert_eq!(warnings, Vec::<String>::new());
    errors
}

fn change(schema: &Value, object: &Value, old: Option<&Value>) -> (Vec<String>, Vec<String>) {
    let schema = Structural::parse(schema);
    let rules = CompiledRules::compile(&schema, true).expect("rules");
    let mut errors = ErrorList::new();
    let warnings = rules.validate(object, old, Ratchet::of(object, old, &schema), &mut errors);
    (errors.iter().map(ToString::to_string).collect(), warnings)
}

#[test]
fn properties_whose_names_are_no_identifiers_are_escaped() {
    let text = || json!({"type": "string"});
    let schema = |rule: &str| {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "broken"}], "properties": {
            "namespace": text(), "my-name": text(), "a.b/c": text(),
            "labels": {"type": "object", "additionalProperties": text()},
        }})
    };
    let object = json!({"namespace": "default", "my-name": "x", "a.b/c": "y", "labels": {"a-b": "z", "__dash__": "w"}});
    for held in [
        "has(self.__namespace__) && self.__namespace__ == 'default'",
        "self.my__dash__name == 'x'",
        "self.a__dot__b__slash__c == 'y'",
        "self.?__namespace__.orValue('') == 'default'",
        // Reserved words may also be left as they are.
        "has(self.namespace) && self.namespace == 'default' && self.?namespace.orValue('') == 'default'",
        // Keys of maps are not escaped.
        "self.labels['a-b'] == 'z' && self.labels.__dash__ == 'w' && !('namespace' in self.labels)",
    ] {
        assert_eq!(errors(&schema(held), &object), Vec::<String>::new(), "{held}");
    }
    let broken = errors(&schema("self.__namespace__ == 'other'"), &object);
    assert!(broken.len() == 1 && broken[0].contains("broken"), "{broken:?}");
    let unknown = errors(&schema("self.package == 'default'"), &object);
    assert!(
        unknown.len() == 1 && unknown[0].contains("undefined field 'package'"),
        "{unknown:?}"
    );
}

#[test]
fn a_rule_that_is_broken_by_what_has_not_changed_gives_a_warning() {
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "count": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]},
            "other": {"type": "string"},
            "plain": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                     "x-kubernetes-validations": [{"rule": "false"}]},
        }},
    }});
    let of = |spec: Value| json!({ "spec": spec });
    let check = |new: Value, old: Value| change(&schema, &of(new), Some(&of(old)));
    let text = |place: &str| format!("{place}: Invalid value: 1: failed rule: self > 5");

    let (errors, warnings) = check(json!({"count": 1, "other": "b"}), json!({"count": 1, "other": "a"}));
    assert_eq!((errors, warnings), (vec![], vec![text("spec.count")]));
    let (errors, warnings) = check(json!({"count": 1}), json!({"count": 2}));
    assert_eq!((errors, warnings), (vec![text("spec.count")], vec![]));
    // Items that cannot be told apart are held against the list that they are in.
    let (errors, warnings) = check(json!({"plain": [1], "other": "b"}), json!({"plain": [1], "other": "a"}));
    assert_eq!((errors, warnings), (vec![], vec![text("spec.plain[0]")]));
    let (errors, warnings) = check(json!({"plain": [1, 7]}), json!({"plain": [1]}));
    assert_eq!((errors, warnings), (vec![text("spec.plain[0]")], vec![]));
    // Nothing is known of fields that the schema does not have.
    let (errors, warnings) = check(json!({"open": {"x": 1}}), json!({"open": {"x": 1}}));
    assert_eq!((errors.len(), warnings.len()), (1, 0));
}

#[test]
fn rules_see_declared_fields_of_known_types_alone() {
    let schema = |rule: &str| {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "broken"}], "properties": {
            "empty": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "anything": {"type": "object", "additionalProperties": true},
            "untyped": {"x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}},
            "port": {"x-kubernetes-int-or-string": true},
            "embedded": {"type": "object", "x-kubernetes-embedded-resource": true},
        }})
    };
    let object = json!({"empty": {"x": 1}, "port": 1, "embedded": {"kind": "K", "metadata": {"name": "n"}}});
    for (rule, field) in [
        ("self.empty.x == 1", "undefined field 'x'"),
        ("self.anything.x == 1", "undefined field 'x'"),
        ("has(self.untyped)", "undefined field 'untyped'"),
        ("has(self.list)", "undefined field 'list'"),
        ("self.embedded.metadata.labels.size() == 0", "undefined field 'labels'"),
    ] {
        let found = errors(&schema(rule), &object);
        assert!(found.len() == 1 && found[0].contains(field), "{rule}: {found:?}");
    }
    for rule in [
        "has(self.empty)",
        "self.port == 1",
        "self.embedded.kind == 'K' && self.embedded.metadata.name == 'n'",
    ] {
        assert_eq!(errors(&schema(rule), &object), Vec::<String>::new(), "{rule}");
    }
}

#[test]
fn fields_that_are_null_are_absent() {
    let nullable = |json_type: &str| json!({"type": json_type, "nullable": true});
    let schema = |rule: &str| {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "broken"}], "properties": {
            "text": nullable("string"),
            "port": {"x-kubernetes-int-or-string": true, "nullable": true},
            "open": {"type": "object", "nullable": true, "x-kubernetes-preserve-unknown-fields": true},
            "deep": {"type": "object", "nullable": true, "properties": {"x": nullable("integer"), "y": nullable("integer")}},
            "map": {"type": "object", "additionalProperties": nullable("string")},
            "list": {"type": "array", "items": nullable("string")},
            "objects": {"type": "array", "items": {"type": "object", "properties": {"x": nullable("integer"), "y": nullable("integer")}}},
        }})
    };
    let object = json!({
        "text": null, "port": null, "open": null, "deep": null, "map": {"a": null}, "list": [null],
        "objects": [{"x": null}, {"x": null}, {"y": null}, {}, {"x": 1}],
    });
    for held in [
        "!has(self.text) || self.text.size() > 0",
        "self.?text.orValue('') == ''",
        "!self.?text.hasValue()",
        "!has(self.port) && !has(self.open)",
        "!has(self.deep)",
        "self.?deep.?x.orValue(3) == 3",
        // What is in maps and lists may be null.
        "'a' in self.map && has(self.map.a) && type(self.map['a']) == null_type",
        "self.list.size() == 1 && type(self.list[0]) == null_type",
        // Null fields count for the size of an object and for nothing else.
        "self.objects[0] == self.objects[1] && self.objects[0] == self.objects[2]",
        "self.objects[0] != self.objects[3] && self.objects[0] != self.objects[4]",
    ] {
        assert_eq!(errors(&schema(held), &object), Vec::<String>::new(), "{held}");
    }
    for (rule, failure) in [
        ("self.text.size() == 0", "no such key: text"),
        ("type(self.port) == int", "no such key: port"),
        ("self.deep.x == 1", "no such key: deep"),
    ] {
        let found = errors(&schema(rule), &object);
        assert!(found.len() == 1 && found[0].contains(failure), "{rule}: {found:?}");
    }
}

#[test]
fn an_optional_old_value_is_of_the_type_of_the_new_one() {
    let schema = |rule: &str| {
        let rule = json!({"rule": rule, "message": "broken", "optionalOldSelf": true});
        json!({"type": "object", "x-kubernetes-validations": [rule], "properties": {
            "my-name": {"type": "string", "nullable": true},
            "at": {"type": "string", "format": "date-time"},
        }})
    };
    let object = json!({"my-name": "b", "at": "2024-01-02T00:00:00Z"});
    let old = json!({"my-name": null, "at": "2024-01-01T00:00:00Z"});
    for held in [
        "oldSelf.?at.optMap(at, self.at >= at).orValue(true)",
        "!oldSelf.?my__dash__name.hasValue()",
        "!oldSelf.hasValue() || self.at - oldSelf.value().at == duration('24h')",
    ] {
        for old in [None, Some(&old)] {
            assert_eq!(change(&schema(held), &object, old).0, Vec::<String>::new(), "{held}");
        }
    }
}

#[test]
fn text_of_a_format_is_a_value_of_its_type() {
    let text = |format: &str| json!({"type": "string", "format": format});
    let schema = |rule: &str| {
        json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "broken"}], "properties": {
            "date": text("date"), "at": text("date-time"), "local": text("date-time"), "fine": text("date-time"),
            "span": text("duration"), "day": text("duration"), "weeks": text("duration"), "bytes": text("byte"),
            "dates": {"type": "array", "items": text("date")},
            "days": {"type": "array", "items": text("duration")},
        }})
    };
    let object = json!({
        "date": "2020-02-29", "at": "2020-02-29T01:00:00+01:00", "local": "2020-02-29T00:00:00", "fine": "2020-02-29T00:00:00.000001Z",
        "span": "1h2m3s4ms", "day": "1 day", "weeks": "3w", "bytes": "MTA=", "dates": ["2000-01-01", "2000-02-01"],
        "days": ["1 day", "2 days 3 hours"],
    });
    for held in [
        "self.date > timestamp('2020-01-01T00:00:00Z')",
        "self.date == timestamp('2020-02-29T00:00:00Z') && type(self.date) == google.protobuf.Timestamp",
        "self.date.getDate() == 29 && self.date.getMonth() == 1",
        "self.at == self.date && self.local == self.date",
        "self.fine > self.date && self.fine - self.date < duration('1ms')",
        "self.span.getMilliseconds() == 3723004",
        "self.day == duration('24h') && self.weeks == duration('504h')",
        "self.bytes == b'10'",
        "self.dates.isSorted() && self.dates.max() == timestamp('2000-02-01T00:00:00Z')",
        "self.days.sum() == duration('75h')",
        "self.dates.indexOf(timestamp('2000-02-01T00:00:00Z')) == 1",
    ] {
        assert_eq!(errors(&schema(held), &object), Vec::<String>::new(), "{held}");
    }
}

/// Holds an object of these properties against rules that it keeps.
fn check_held(properties: &Value, object: &Value, rules: &[&str]) {
    for rule in rules {
        let rules = json!([{"rule": rule, "message": "broken"}]);
        let schema = json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules});
        assert_eq!(errors(&schema, object), Vec::<String>::new(), "{rule}");
    }
}

fn array_of(list_type: &str, keys: &[&str], items: Value) -> Value {
    json!({"type": "array", "items": items, "x-kubernetes-list-type": list_type, "x-kubernetes-list-map-keys": keys})
}

fn text_fields(names: &[&str]) -> Value {
    let fields = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
    json!({"type": "object", "properties": fields.collect::<Value>()})
}

#[test]
fn sets_compare_without_order_and_merge() {
    let set = |items: Value| array_of("set", &[], items);
    let sets = |items: Value| array_of("atomic", &[], set(items));
    let text = || json!({"type": "string"});
    let properties = json!({
        "sets": sets(text()), "numbers": sets(json!({"type": "number"})), "open": set(json!({"type": "string", "nullable": true})),
        "days": sets(json!({"type": "string", "format": "date"})), "lists": array_of("atomic", &[], array_of("atomic", &[], text())),
        "values": {"type": "object", "additionalProperties": set(text())},
    });
    let object = json!({
        "sets": [["a", "b", "c"], ["c", "a", "b"], ["a", "d"], []], "numbers": [[1, 2.5], [2.5, 1.0]], "open": [null, "null"],
        "days": [["2020-01-01", "2020-01-02"], ["2020-01-02", "2020-01-01"]], "lists": [["a", "b"], ["b", "a"]],
        "values": {"x": ["a", "b"], "y": ["b", "a"]},
    });
    let rules = [
        "self.sets[0] == self.sets[1] && self.sets[0] == ['b', 'c', 'a']",
        // The list on the left decides.
        "['b', 'c', 'a'] != self.sets[0] && self.sets[0] != self.sets[2]",
        "self.sets[0] + self.sets[2] == ['d', 'c', 'b', 'a'] && (self.sets[0] + self.sets[2]).size() == 4",
        "(self.sets[0] + ['e', 'a', 'e']).map(x, x) == ['a', 'b', 'c', 'e']",
        "self.sets[3] + ['e', 'e'] == ['e'] && (['e'] + self.sets[2]).size() == 3",
        "self.sets.all(x, x + x == x) && self.sets[1] in self.sets && ['b', 'c', 'a'] in self.sets",
        "self.sets.indexOf(['b', 'c', 'a']) == 0 && self.sets.lastIndexOf(['b', 'c', 'a']) == 1",
        "self.numbers[0] == self.numbers[1] && self.numbers[0] + [1.0, 3.0] == [3.0, 2.5, 1.0]",
        "self.open == self.open && (self.open + self.open).size() == 2",
        "self.days[0] == self.days[1] && (self.days[0] + self.days[1]).size() == 2",
        "self.lists[0] != self.lists[1] && self.lists[0] + self.lists[1] == ['a', 'b', 'b', 'a']",
        "self.values.x == self.values.y && self.values['x'] + self.values.y == ['b', 'a']",
        "self.values == {'x': ['b', 'a'], 'y': ['b', 'a']} && self.values != {'x': ['a', 'b'], 'y': ['a']}",
    ];
    check_held(&properties, &object, &rules);
}

#[test]
fn list_maps_compare_without_order_and_merge() {
    let maps = |keys: &[&str], names: &[&str]| array_of("atomic", &[], array_of("map", keys, text_fields(names)));
    let properties = json!({
        "maps": maps(&["k"], &["k", "v"]), "pairs": maps(&["k", "l"], &["k", "l", "v"]),
        "marks": maps(&["k!", "k."], &["k!", "k."]), "names": maps(&["my-name"], &["my-name"]),
    });
    let object = json!({
        "maps": [
            [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}], [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}],
            [{"k": "b", "v": "3"}, {"k": "a", "v": "1"}], [{"k": "c", "v": "4"}],
        ],
        "pairs": [
            [{"k": "a", "l": "x", "v": "1"}, {"k": "a", "v": "2"}], [{"k": "a", "v": "2"}, {"k": "a", "l": "x", "v": "1"}],
        ],
        "marks": [
            [{"k!": "a", "k.": "1"}, {"k!": "b", "k.": "2"}], [{"k!": "b", "k.": "2"}, {"k!": "a", "k.": "1"}],
            [{"k!": "b", "k.": "2"}, {"k!": "c", "k.": "1"}], [{"k!": "b", "k.": "2"}, {"k!": "a", "k.": "3"}],
        ],
        "names": [[{"my-name": "a"}, {"my-name": "b"}], [{"my-name": "a"}]],
    });
    let rules = [
        "self.maps[0] == self.maps[1] && self.maps[0] != self.maps[2] && self.maps[0] != self.maps[3]",
        "self.maps[0] == [self.maps[0][1], self.maps[0][0]] && [self.maps[0][1], self.maps[0][0]] != self.maps[0]",
        "self.maps[0] + self.maps[2] == self.maps[2] && self.maps[2] + self.maps[0] == self.maps[0]",
        "(self.maps[0] + self.maps[2]).map(x, x.k + x.v) == ['a1', 'b3']",
        "(self.maps[0] + self.maps[3] + self.maps[2]).map(x, x.k + x.v) == ['a1', 'b3', 'c4']",
        "self.maps[2] + [self.maps[0][0], self.maps[0][1]] == self.maps[0]",
        "(self.maps[0] + [self.maps[3][0], self.maps[3][0]]).size() == 4",
        "self.pairs[0] == self.pairs[1] && self.pairs[0] + self.pairs[1] == self.pairs[1]",
        "self.marks[0] == self.marks[1] && self.marks[0] != self.marks[2] && self.marks[0] != self.marks[3]",
        // A key that is escaped does not tell items apart, as upstream.
        "self.names[0] != self.names[0] && self.names[1] == self.names[1]",
    ];
    check_held(&properties, &object, &rules);
}

#[test]
fn objects_compare_by_the_list_types_of_their_fields() {
    let fields = json!({
        "set": array_of("set", &[], json!({"type": "string"})), "map": array_of("map", &["k"], text_fields(&["k", "v"])),
    });
    let properties = json!({"deep": array_of("atomic", &[], json!({"type": "object", "properties": fields}))});
    let object = json!({"deep": [
        {"set": ["a", "b"], "map": [{"k": "a", "v": "1"}, {"k": "b", "v": "2"}]},
        {"set": ["b", "a"], "map": [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}]},
        {"set": ["b", "a"], "map": [{"k": "b", "v": "2"}, {"k": "a", "v": "2"}]},
        {"set": ["b", "c"], "map": [{"k": "b", "v": "2"}, {"k": "a", "v": "1"}]},
    ]});
    let rules = [
        "self.deep[0] == self.deep[1] && self.deep[0] != self.deep[2] && self.deep[0] != self.deep[3]",
        "[self.deep[0]] == [self.deep[1]] && self.deep[1] in [self.deep[0]]",
    ];
    check_held(&properties, &object, &rules);
}

#[test]
fn a_set_that_is_ordered_anew_is_what_it_was() {
    let set = json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"});
    let schema = json!({"type": "object", "properties": {"set": set}, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]});
    let check = |set: Value| {
        change(&schema, &json!({ "set": set }), Some(&json!({"set": ["a", "b"]})))
            .0
            .len()
    };
    assert_eq!(
        [check(json!(["b", "a"])), check(json!(["b"])), check(json!(["b", "c"]))],
        [0, 1, 1]
    );
}
