//! Prints a value as Go's `json.Marshal` prints the struct: keys in declaration order, HTML characters escaped.

use serde_json::Value;

use super::types::{Shape, TypeId, TypeTable};
use crate::Object;

/// The value as compact JSON with the keys of structs in declaration order, as it stands in messages such as
/// `Invalid value: {"kind":"Pod",…}`. Fields that the type does not have come last.
pub fn ordered_json(table: &TypeTable, ty: TypeId, value: &Value) -> String {
    let mut out = String::new();
    write(table, &Shape::Struct(ty), value, &mut out);
    out
}

/// The result of a patch as Go's patch libraries print it: objects that the patch went into have their keys sorted, those
/// that it left alone have theirs in declaration order. `opened` has an object for each object and list that the patch went
/// into, by field or index, and anything else for a value that it put there. `ty` is the type of the result, if it has one.
pub fn patched_json(table: &TypeTable, ty: Option<TypeId>, patched: &Value, opened: &Value) -> String {
    let mut out = String::new();
    let shape = ty.map_or(Shape::Any, Shape::Struct);
    write_patched(table, &shape, patched, opened, &mut out);
    out
}

fn write_patched(table: &TypeTable, shape: &Shape, value: &Value, opened: &Value, out: &mut String) {
    let below = |key: &str, shape: &Shape, value: &Value, out: &mut String| match opened.get(key) {
        Some(opened) => write_patched(table, shape, value, opened, out),
        None => write(table, shape, value, out),
    };
    match value {
        Value::Object(fields) if opened.is_object() => {
            out.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                separate(index, out);
                out.push_str(&escape_html(&Value::from(key.as_str()).to_string()));
                out.push(':');
                below(key, field_shape(table, shape, key), value, out);
            }
            out.push('}');
        }
        Value::Array(items) if opened.is_object() => {
            let item = match shape {
                Shape::List { item, .. } => item,
                _ => &Shape::Any,
            };
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                separate(index, out);
                below(&index.to_string(), item, value, out);
            }
            out.push(']');
        }
        value => out.push_str(&escape_html(&value.to_string())),
    }
}

fn field_shape<'t>(table: &'t TypeTable, shape: &'t Shape, key: &str) -> &'t Shape {
    match shape {
        Shape::Struct(ty) => table.field(*ty, key).map_or(&Shape::Any, |field| &field.shape),
        Shape::Map { value, .. } => value,
        _ => &Shape::Any,
    }
}

fn write(table: &TypeTable, shape: &Shape, value: &Value, out: &mut String) {
    match (shape, value) {
        (Shape::Struct(ty), Value::Object(object)) => write_struct(table, *ty, object, out),
        (Shape::List { item, .. }, Value::Array(items)) => {
            out.push('[');
            for (index, value) in items.iter().enumerate() {
                separate(index, out);
                write(table, item, value, out);
            }
            out.push(']');
        }
        (Shape::Map { value: entry, .. }, Value::Object(entries)) => {
            let entries = entries.iter().map(|(key, value)| (key.as_str(), &**entry, value));
            write_entries(table, entries, out);
        }
        (_, value) => out.push_str(&escape_html(&value.to_string())),
    }
}

fn write_struct(table: &TypeTable, ty: TypeId, object: &Object, out: &mut String) {
    let definition = table.get(ty);
    let declared = definition
        .fields
        .iter()
        .filter_map(|field| Some((field.name.as_str(), &field.shape, object.get(&field.name)?)));
    let others = object
        .iter()
        .filter(|(key, _)| table.field(ty, key).is_none())
        .map(|(key, value)| (key.as_str(), &Shape::Any, value));
    write_entries(table, declared.chain(others), out);
}

fn write_entries<'a>(
    table: &TypeTable,
    entries: impl Iterator<Item = (&'a str, &'a Shape, &'a Value)>,
    out: &mut String,
) {
    out.push('{');
    for (index, (key, shape, value)) in entries.enumerate() {
        separate(index, out);
        out.push_str(&escape_html(&Value::from(key).to_string()));
        out.push(':');
        write(table, shape, value, out);
    }
    out.push('}');
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push(',');
    }
}

/// Go escapes what could end a script element; outside of strings these characters do not occur in JSON.
fn escape_html(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::samples, ordered_json};

    #[test]
    fn keys_stand_in_declaration_order() {
        let (table, pod) = samples::pods();
        let value = json!({
            "alien": 1,
            "spec": {"containers": [{"image": "a<b", "name": "c"}]},
            "metadata": {"labels": {"b": "2", "a": "1"}, "name": "p"},
            "kind": "Pod",
            "apiVersion": "v1",
        });
        assert_eq!(
            ordered_json(&table, pod, &value),
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","labels":{"a":"1","b":"2"}},"spec":{"containers":[{"name":"c","image":"a\u003cb"}]},"alien":1}"#
        );
    }
}
