//! Values within JSON, by their place.

use serde_json::Value;

/// Follows `a.b.0.c`: dots separate keys, numbers index lists.
pub(crate) fn dig<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get(part),
        _ => None,
    })
}

/// The text of a value: a string without its quotes.
pub(crate) fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
