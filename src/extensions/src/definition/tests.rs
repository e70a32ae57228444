//! What is refused of definitions.

use serde_json::{Value, json};
use trireme_machinery::field::ErrorList;

use super::spec::validate_spec;

fn definition(field: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"f": field}}}});
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn errors(field: &Value) -> Vec<String> {
    let mut errors = ErrorList::new();
    validate_spec(&definition(field), false, &mut errors);
    let at = "spec.validation.openAPIV3Schema.properties[spec].properties[f]";
    errors.iter().map(|error| error.to_string().replace(at, "f")).collect()
}

#[test]
fn schemas_are_structural() {
    for (field, expected) in [
        (
            json!({}),
            "f.type: Required value: must not be empty for specified object fields",
        ),
        (json!({"type": "array"}), "f.items: Required value: must be specified"),
        (json!({"$ref": "#/x"}), "f.$ref: Forbidden: $ref is not supported"),
        (
            json!({"type": "integer", "default": "x"}),
            "f.default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ),
        (
            json!({"type": "string", "anyOf": [{"type": "string"}]}),
            "f.anyOf[0].type: Forbidden: must be empty to be structural",
        ),
    ] {
        assert_eq!(errors(&field), [expected], "{field}");
    }
    let good = json!({"type": "string", "nullable": true, "maxLength": 3});
    assert_eq!(errors(&good), Vec::<String>::new());
}

#[test]
fn rules_are_compiled() {
    let rule = |rule: &str| json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule}]});
    assert_eq!(errors(&rule("self >= 0 && self >= oldSelf")), Vec::<String>::new());
    let found = errors(&rule("self.zzz == 1"));
    assert!(
        found.len() == 1 && found[0].contains("x-kubernetes-validations[0].rule"),
        "{found:?}"
    );
}
