//! Sets of tolerations (`pkg/util/tolerations`).

use serde_json::Value;

/// Both lists in one, without those that another one of it includes.
pub(crate) fn merged(first: Vec<Value>, second: Vec<Value>) -> Vec<Value> {
    let all = [first, second].concat();
    let mut merged: Vec<Value> = Vec::with_capacity(all.len());
    for (index, toleration) in all.iter().enumerate() {
        let later = all.iter().skip(index + 1);
        let is_redundant = merged.iter().any(|kept| includes(kept, toleration))
            || later
                .into_iter()
                .any(|other| other != toleration && includes(other, toleration));
        if !is_redundant {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// Reports whether each toleration is included in one that is allowed.
pub(crate) fn are_within(tolerations: &[Value], allowed: &[Value]) -> bool {
    let is_allowed = |toleration: &Value| allowed.iter().any(|wide| includes(wide, toleration));
    tolerations.iter().all(is_allowed)
}

/// Reports whether `wide` tolerates all that `narrow` does.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let (wide, narrow) = (Toleration(wide), Toleration(narrow));
    let covers_key = narrow.text("key") == wide.text("key") || (wide.text("key").is_empty() && wide.is("Exists"));
    let covers_effect = narrow.text("effect") == wide.text("effect") || wide.text("effect").is_empty();
    if !covers_key || !covers_effect || !wide.lasts_as_long_as(narrow) {
        return false;
    }
    match wide.text("operator") {
        "" | "Equal" => narrow.is("Equal") && narrow.text("value") == wide.text("value"),
        operator => operator == "Exists",
    }
}

#[derive(Clone, Copy)]
struct Toleration<'v>(&'v Value);

impl<'v> Toleration<'v> {
    fn text(self, field: &str) -> &'v str {
        self.0.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    fn is(self, operator: &str) -> bool {
        self.text("operator") == operator
    }

    fn seconds(self) -> Option<i64> {
        self.0.get("tolerationSeconds").and_then(Value::as_i64)
    }

    fn lasts_as_long_as(self, other: Self) -> bool {
        match (self.text("effect"), self.seconds()) {
            ("NoExecute", Some(seconds)) => other.seconds().is_some_and(|other| other <= seconds),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_toleration_has_to_be_within_one_that_is_allowed() {
        let allowed = [json!({ "key": "a", "operator": "Exists" })];
        assert!(are_within(
            &[json!({ "key": "a", "operator": "Equal", "value": "1" })],
            &allowed
        ));
        assert!(!are_within(&[json!({ "key": "b", "operator": "Exists" })], &allowed));
        assert!(are_within(&[], &allowed));
    }

    #[test]
    fn a_toleration_that_another_one_includes_goes() {
        let all = json!({ "operator": "Exists" });
        let key = json!({ "key": "a", "operator": "Exists" });
        let value = json!({ "key": "a", "operator": "Equal", "value": "1" });
        assert_eq!(merged(vec![value.clone()], vec![key.clone()]), vec![key.clone()]);
        assert_eq!(merged(vec![key.clone(), value.clone()], vec![all.clone()]), [all]);
        assert_eq!(merged(vec![value.clone()], vec![value.clone()]), [value]);
        let (short, long) = (
            json!({ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1 }),
            json!({ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 2 }),
        );
        assert_eq!(merged(vec![short.clone()], vec![long.clone()]), [long]);
        assert_eq!(merged(vec![key.clone()], vec![short]), [key]);
    }
}
