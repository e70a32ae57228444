//! Values as Go's `%v` prints them, for messages that quote a patch.

use serde_json::Value;

use crate::json::go_float;

/// `map[a:1 b:[x y]]`: maps sorted by key, nothing quoted.
pub fn go_map(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// Go's name for the type of a value decoded into an `interface{}`.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push_str("map[");
            for (index, (key, entry)) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write(entry, out);
            }
            out.push(']');
        }
        Value::Number(number) if number.is_f64() => out.push_str(&number.as_f64().map(go_float).unwrap_or_default()),
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::go_map;

    #[test]
    fn values_print_as_in_go() {
        let value = json!({"spec": {"n": null, "replicas": 3, "on": true, "f": 1.0, "list": ["a", {"name": "b"}]}});
        assert_eq!(
            go_map(&value),
            "map[spec:map[f:1 list:[a map[name:b]] n:<nil> on:true replicas:3]]"
        );
    }
}
