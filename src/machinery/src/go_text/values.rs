//! Values that came from JSON, and the names of their types.

use serde_json::{Number, Value};

use super::{general_float, go_float};

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

/// The kind of a value as Go's error texts name it: `cannot unmarshal string into …`.
pub fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The kind of a value as apimachinery's converter of unstructured objects names it.
pub fn converted_name(value: &Value) -> &'static str {
    match value {
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        other => kind_name(other),
    }
}

/// A number that does not fit, as the client wrote it; of one too long to be kept as it was, its value is shown.
pub fn number_name(number: &Number) -> String {
    match number.as_f64().filter(|float| number.is_f64() && float.abs() >= 1e16) {
        Some(float) => format!("number {}", go_float(float)),
        None => format!("number {number}"),
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
        Value::Number(number) if number.is_f64() => {
            out.push_str(&number.as_f64().map(general_float).unwrap_or_default())
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::go_map;

    #[test]
    fn values_print_as_in_go() {
        let value =
            json!({"spec": {"n": null, "replicas": 3, "on": true, "f": 1.0, "g": 1e6, "list": ["a", {"name": "b"}]}});
        assert_eq!(
            go_map(&value),
            "map[spec:map[f:1 g:1e+06 list:[a map[name:b]] n:<nil> on:true replicas:3]]"
        );
    }
}
