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
