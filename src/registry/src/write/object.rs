//! Comparison of objects.

use serde_json::Value;

/// True if two objects are the same but for their `resourceVersion`, so that storing one over the other is no change.
pub(super) fn same(new: &Value, old: &Value) -> bool {
    same_but_for(new, old, &["resourceVersion"])
}

/// True if two objects are the same but for some fields of their metadata.
pub(super) fn same_but_for(new: &Value, old: &Value, ignored: &[&str]) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new == old;
    };
    new.len() == old.len()
        && new.iter().all(|(name, value)| match (name.as_str(), old.get(name)) {
            (_, None) => false,
            ("metadata", Some(other)) => same_metadata(value, other, ignored),
            (_, Some(other)) => value == other,
        })
}

fn same_metadata(new: &Value, old: &Value, ignored: &[&str]) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return new == old;
    };
    let counts = |(name, _): &(&String, &Value)| !ignored.contains(&name.as_str());
    new.iter().filter(counts).eq(old.iter().filter(counts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_revision_is_no_difference() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "5"}, "data": {"k": "v"}});
        assert!(same(&json!({"metadata": {"name": "a"}, "data": {"k": "v"}}), &old));
        assert!(same(
            &json!({"metadata": {"name": "a", "resourceVersion": "7"}, "data": {"k": "v"}}),
            &old
        ));
        assert!(!same(
            &json!({"metadata": {"name": "a", "labels": {}}, "data": {"k": "v"}}),
            &old
        ));
        assert!(!same(&json!({"metadata": {"name": "a"}}), &old));
        assert!(!same(&json!({"metadata": {"name": "a"}, "data": {"k": "w"}}), &old));
    }
}
