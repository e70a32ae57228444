//! The lists, maps and structs in an apply configuration that are owned as a whole.

use serde_json::Value;

use super::node::{Atom, SchemaNode};

/// The paths of what a mutating policy may not set, since it would replace the whole (`findAtomics` of
/// `k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch`).
pub fn atomics(node: SchemaNode<'_>, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find(node, value, "", &mut found);
    found
}

fn find(node: SchemaNode<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    let is_whole = matches!(value, Value::Object(_) | Value::Array(_)) && node.atom(Some(value)) == Atom::Atomic;
    if is_whole {
        found.push(path.to_owned());
    }
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let (child, is_declared) = node.field(name);
                if is_declared || !node.is_closed() {
                    find(child, field, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find(node.item(), item, &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_unknown_items_are_owned_as_a_whole() {
        let value = json!({"spec": {"n": 1, "tags": ["a"], "map": {"k": "v"}}});
        assert_eq!(atomics(SchemaNode::Deduced, &value), [".spec.tags"]);
        assert!(atomics(SchemaNode::Deduced, &json!({"spec": {"n": 1}})).is_empty());
    }
}
