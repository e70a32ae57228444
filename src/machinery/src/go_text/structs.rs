//! Values as Kubernetes' internal types print them in messages: Go's field names, every field written.
//!
//! Most messages show a value as clients wrote it. Some show the server's own struct, which has no JSON names; for
//! those a kind describes the struct with [`PrintedShape`].

use serde_json::Value;

use crate::Object;

/// The form in which a value is printed.
#[derive(Debug, Clone, Copy)]
pub enum PrintedShape {
    /// Text, empty if it is absent.
    Text,
    /// A number, 0 if it is absent.
    Number,
    /// `false` if it is absent.
    Bool,
    /// As it stands, or null: pointers to plain values, lists and maps of them.
    Plain,
    /// A struct that is always there.
    Struct(&'static [PrintedField]),
    /// A pointer to a struct: null if it is absent.
    Pointer(&'static [PrintedField]),
    /// A list of structs: null if it is absent.
    List(&'static [PrintedField]),
    /// A pointer to a struct that has JSON names and leaves out what is absent, such as a label selector.
    Named(&'static [PrintedField]),
    /// A list of structs of the same sort.
    NamedList(&'static [PrintedField]),
    /// A map of structs: null if it is absent.
    Map(&'static [PrintedField]),
    /// A pointer to a struct whose JSON is not that of its fields; the function makes fields of it.
    Taken(fn(&Value) -> Value, &'static [PrintedField]),
}

/// A field: Go's name, the JSON name, how it is printed.
pub type PrintedField = (&'static str, &'static str, PrintedShape);

/// `metav1.LabelSelector`.
pub const LABEL_SELECTOR: &[PrintedField] = &[
    ("matchLabels", "matchLabels", PrintedShape::Plain),
    (
        "matchExpressions",
        "matchExpressions",
        PrintedShape::NamedList(&[
            ("key", "key", PrintedShape::Text),
            ("operator", "operator", PrintedShape::Text),
            ("values", "values", PrintedShape::Plain),
        ]),
    ),
];

/// A value whose fields have an order, ready to be printed.
pub enum Printed {
    /// JSON that is printed as it stands.
    Plain(String),
    /// Fields in their order.
    Object(Vec<(String, Printed)>),
    /// Items in their order.
    List(Vec<Printed>),
}

impl Printed {
    /// The value as it stands, its fields in their order.
    pub fn plain(value: &Value) -> Self {
        match value {
            Value::Array(items) => Self::List(items.iter().map(Self::plain).collect()),
            Value::Object(object) => {
                let fields = object.iter().map(|(key, value)| (key.clone(), Self::plain(value)));
                Self::Object(fields.collect())
            }
            other => Self::Plain(escaped(&other.to_string())),
        }
    }

    /// All of it on one line.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        write_compact(self, &mut out);
        out
    }

    /// A line for each value, each level indented by one blank.
    pub fn indented(&self) -> String {
        let mut out = String::new();
        write_indented(self, 0, &mut out);
        out
    }
}

/// The struct on one line, as `Invalid value: {…}` shows it; an absent one is `null`.
pub fn compact(value: Option<&Value>, shape: PrintedShape) -> String {
    node(value, shape).compact()
}

/// The struct as lines indented by one blank, which differences are shown of.
pub fn lines(value: Option<&Value>, shape: PrintedShape) -> Vec<String> {
    node(value, shape).indented().lines().map(str::to_owned).collect()
}

fn node(value: Option<&Value>, shape: PrintedShape) -> Printed {
    let value = value.filter(|value| !value.is_null());
    match (shape, value) {
        (PrintedShape::Struct(fields), value) => all_fields(value.and_then(Value::as_object), fields),
        (PrintedShape::Pointer(fields), Some(value)) => all_fields(value.as_object(), fields),
        (PrintedShape::List(fields), Some(Value::Array(items))) => {
            Printed::List(items.iter().map(|item| all_fields(item.as_object(), fields)).collect())
        }
        (PrintedShape::Map(fields), Some(Value::Object(entries))) => {
            let entries = entries.iter();
            let printed = entries.map(|(key, entry)| (key.clone(), all_fields(entry.as_object(), fields)));
            Printed::Object(printed.collect())
        }
        (PrintedShape::Taken(fields_of, fields), Some(value)) => all_fields(fields_of(value).as_object(), fields),
        (PrintedShape::Named(fields), Some(value)) => named_fields(value.as_object(), fields),
        (PrintedShape::NamedList(fields), Some(Value::Array(items))) => Printed::List(
            items
                .iter()
                .map(|item| named_fields(item.as_object(), fields))
                .collect(),
        ),
        (_, Some(value)) => Printed::plain(value),
        (PrintedShape::Text, None) => Printed::Plain("\"\"".to_owned()),
        (PrintedShape::Number, None) => Printed::Plain("0".to_owned()),
        (PrintedShape::Bool, None) => Printed::Plain("false".to_owned()),
        (_, None) => Printed::Plain("null".to_owned()),
    }
}

fn all_fields(object: Option<&Object>, fields: &[PrintedField]) -> Printed {
    let get = |name: &str| object.and_then(|object| object.get(name));
    Printed::Object(
        fields
            .iter()
            .map(|(go, json, shape)| ((*go).to_owned(), node(get(json), *shape)))
            .collect(),
    )
}

fn named_fields(object: Option<&Object>, fields: &[PrintedField]) -> Printed {
    let get = |name: &str| object.and_then(|object| object.get(name));
    let present = fields
        .iter()
        .filter_map(|(go, json, shape)| Some(((*go).to_owned(), node(Some(get(json)?), *shape))));
    Printed::Object(present.collect())
}

/// Go's encoder escapes what could end a script in HTML, and the ends of lines that JavaScript knows beside JSON's.
fn escaped(json: &str) -> String {
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

fn key(name: &str) -> String {
    escaped(&Value::from(name).to_string())
}

fn write_compact(node: &Printed, out: &mut String) {
    match node {
        Printed::Plain(text) => out.push_str(text),
        Printed::Object(fields) => {
            out.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&key(name));
                out.push(':');
                write_compact(value, out);
            }
            out.push('}');
        }
        Printed::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write_compact(item, out);
            }
            out.push(']');
        }
    }
}

fn write_indented(node: &Printed, depth: usize, out: &mut String) {
    let begin_line = |out: &mut String, index: usize| {
        out.push_str(if index > 0 { ",\n" } else { "\n" });
        out.push_str(&" ".repeat(depth + 1));
    };
    let end = |out: &mut String, close: char| {
        out.push('\n');
        out.push_str(&" ".repeat(depth));
        out.push(close);
    };
    match node {
        Printed::Plain(text) => out.push_str(text),
        Printed::Object(fields) if fields.is_empty() => out.push_str("{}"),
        Printed::List(items) if items.is_empty() => out.push_str("[]"),
        Printed::Object(fields) => {
            out.push('{');
            for (index, (name, value)) in fields.iter().enumerate() {
                begin_line(out, index);
                out.push_str(&key(name));
                out.push_str(": ");
                write_indented(value, depth + 1, out);
            }
            end(out, '}');
        }
        Printed::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                begin_line(out, index);
                write_indented(item, depth + 1, out);
            }
            end(out, ']');
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REFERENCE: &[PrintedField] = &[
        ("Group", "group", PrintedShape::Text),
        ("Count", "count", PrintedShape::Number),
    ];
    const SPEC: &[PrintedField] = &[
        ("Selector", "selector", PrintedShape::Named(LABEL_SELECTOR)),
        ("Reference", "reference", PrintedShape::Pointer(REFERENCE)),
        ("Names", "names", PrintedShape::Plain),
    ];

    #[test]
    fn absent_fields_print_as_go_prints_their_zero() {
        let object = json!({ "reference": { "group": "a<b" }, "selector": { "matchLabels": { "a": "b" } } });
        let text = r#"{"Selector":{"matchLabels":{"a":"b"}},"Reference":{"Group":"a\u003cb","Count":0},"Names":null}"#;
        assert_eq!(compact(Some(&object), PrintedShape::Struct(SPEC)), text);
        assert_eq!(compact(None, PrintedShape::Pointer(REFERENCE)), "null");
    }

    #[test]
    fn lines_are_indented_by_one_blank() {
        let object = json!({ "names": ["x", "y"], "selector": {} });
        let expected = [
            "{",
            " \"Selector\": {},",
            " \"Reference\": null,",
            " \"Names\": [",
            "  \"x\",",
            "  \"y\"",
            " ]",
            "}",
        ];
        assert_eq!(lines(Some(&object), PrintedShape::Struct(SPEC)), expected);
    }
}
