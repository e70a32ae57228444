//! Rules as objects meet them.

use serde_json::{Value, json};
use trireme_machinery::field::ErrorList;

use super::CompiledRules;
use crate::structural::Structural;

fn errors(schema: &Value, object: &Value) -> Vec<String> {
    let rules = CompiledRules::compile(&Structural::parse(schema)).expect("rules");
    let mut errors = ErrorList::new();
    rules.validate(object, None, &mut errors);
    errors.iter().map(ToString::to_string).collect()
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
        // Keys of maps are not escaped.
        "self.labels['a-b'] == 'z' && self.labels.__dash__ == 'w' && !('namespace' in self.labels)",
    ] {
        assert_eq!(errors(&schema(held), &object), Vec::<String>::new(), "{held}");
    }
    let broken = errors(&schema("self.__namespace__ == 'other'"), &object);
    assert!(broken.len() == 1 && broken[0].contains("broken"), "{broken:?}");
    let unknown = errors(&schema("self.namespace == 'default'"), &object);
    assert!(
        unknown.len() == 1 && unknown[0].contains("undefined field 'namespace'"),
        "{unknown:?}"
    );
}
