//! Pods as Kubernetes' error texts show them: all fields of its internal structs, in their order and under their
//! names, absent ones included.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::{Map, Value};

use super::layout_table::LAYOUT;

struct Struct {
    /// Absent fields are left out.
    sparse: bool,
    fields: Vec<Field>,
}

struct Field {
    name: &'static str,
    json: String,
    shape: Shape,
}

enum Shape {
    Text,
    Number,
    Bool,
    Quantity,
    Optional,
    Struct(&'static str),
    OptionalStruct(&'static str),
    List(&'static str),
    Embedded(&'static str),
}

static STRUCTS: LazyLock<HashMap<&'static str, Struct>> = LazyLock::new(|| {
    let structs = LAYOUT.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let (name, sparse) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        Some((
            name,
            Struct {
                sparse,
                fields: words.map(field).collect(),
            },
        ))
    });
    structs.collect()
});

fn field(word: &'static str) -> Field {
    if let Some(name) = word.strip_prefix('^') {
        return Field {
            name,
            json: String::new(),
            shape: Shape::Embedded(name),
        };
    }
    let (name, shape) = word.split_once(':').unwrap_or((word, ""));
    let (name, json) = match name.split_once('/') {
        Some((name, json)) => (name, json.to_owned()),
        None => (name, uncapitalized(name)),
    };
    let shape = match (shape, shape.get(..1)) {
        ("", _) => Shape::Text,
        ("i", _) => Shape::Number,
        ("b", _) => Shape::Bool,
        ("q", _) => Shape::Quantity,
        ("p", _) => Shape::Optional,
        (shape, Some("*")) => Shape::OptionalStruct(shape.trim_start_matches('*')),
        (shape, Some("[")) => Shape::List(shape.trim_start_matches('[')),
        (shape, _) => Shape::Struct(shape),
    };
    Field { name, json, shape }
}

/// `DNSPolicy` is `dnsPolicy`, `TTY` is `tty`.
fn uncapitalized(name: &str) -> String {
    let run = name.chars().take_while(char::is_ascii_uppercase).count();
    let lowered = if run == name.len() || run == 1 {
        run
    } else {
        run.saturating_sub(1)
    };
    name.char_indices()
        .map(|(at, c)| if at < lowered { c.to_ascii_lowercase() } else { c })
        .collect()
}

/// Something to print: values whose fields have an order.
enum Shown<'a> {
    Fields(Vec<(&'a str, Shown<'a>)>),
    List(Vec<Shown<'a>>),
    Scalar(&'a Value),
    Zero(&'static str),
}

/// A struct on one line.
pub(crate) fn compact(struct_name: &str, value: &Value) -> String {
    let value = moved(struct_name, value);
    let mut out = String::new();
    print(&shown(struct_name, &value), None, &mut out);
    out
}

/// A list of structs on one line.
pub(crate) fn compact_list(struct_name: &str, values: &[Value]) -> String {
    let parts: Vec<String> = values.iter().map(|value| compact(struct_name, value)).collect();
    format!("[{}]", parts.join(","))
}

/// A struct on many lines, each level indented by one space.
pub(crate) fn indented(struct_name: &str, value: &Value) -> String {
    let value = moved(struct_name, value);
    let mut out = String::new();
    print(&shown(struct_name, &value), Some(0), &mut out);
    out
}

/// Internally the use of the host's namespaces is a part of the security context, and metadata has no field.
fn moved(struct_name: &str, value: &Value) -> Value {
    let mut value = value.clone();
    match struct_name {
        "PodSpec" => move_host_fields(&mut value),
        "PodTemplateSpec" => {
            if let Some(spec) = value.get_mut("spec") {
                move_host_fields(spec);
            }
            lift_metadata(&mut value);
        }
        _ => {}
    }
    value
}

fn move_host_fields(spec: &mut Value) {
    let fields = [
        "hostNetwork",
        "hostPID",
        "hostIPC",
        "shareProcessNamespace",
        "hostUsers",
    ];
    let given: Vec<(&str, Value)> = fields
        .into_iter()
        .filter_map(|field| Some((field, spec.get(field)?.clone())))
        .collect();
    let Some(spec) = spec.as_object_mut() else { return };
    if let Some(context) = spec.get_mut("securityContext").and_then(Value::as_object_mut) {
        context.extend(given.into_iter().map(|(field, value)| (field.to_owned(), value)));
    }
    let volumes = spec.get_mut("volumes").and_then(Value::as_array_mut);
    for template in volumes
        .into_iter()
        .flatten()
        .filter_map(|v| v.pointer_mut("/ephemeral/volumeClaimTemplate"))
    {
        lift_metadata(template);
    }
}

fn lift_metadata(template: &mut Value) {
    let Some(fields) = template.as_object_mut() else { return };
    if let Some(Value::Object(metadata)) = fields.remove("metadata") {
        fields.extend(metadata);
    }
}

fn shown<'a>(struct_name: &str, value: &'a Value) -> Shown<'a> {
    let mut fields = Vec::new();
    push_fields(struct_name, value, &mut fields);
    Shown::Fields(fields)
}

fn push_fields<'a>(struct_name: &str, value: &'a Value, out: &mut Vec<(&'a str, Shown<'a>)>) {
    let Some(layout) = STRUCTS.get(struct_name) else { return };
    for field in &layout.fields {
        if let Shape::Embedded(name) = field.shape {
            push_fields(name, value, out);
            continue;
        }
        let given = value.get(&field.json);
        if layout.sparse && given.is_none() {
            continue;
        }
        out.push((field.name, shown_field(&field.shape, given)));
    }
}

fn shown_field<'a>(shape: &Shape, given: Option<&'a Value>) -> Shown<'a> {
    static ABSENT: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
    match (shape, given) {
        (Shape::Struct(name), given) => shown(name, given.unwrap_or(&ABSENT)),
        (Shape::OptionalStruct(name), Some(value)) => shown(name, value),
        (Shape::List(name), Some(Value::Array(list))) => {
            Shown::List(list.iter().map(|item| shown(name, item)).collect())
        }
        (_, Some(Value::Array(list))) => Shown::List(list.iter().map(Shown::Scalar).collect()),
        (_, Some(Value::Object(map))) => Shown::Fields(
            map.iter()
                .map(|(key, value)| (key.as_str(), Shown::Scalar(value)))
                .collect(),
        ),
        (_, Some(value)) => Shown::Scalar(value),
        (Shape::Text, None) => Shown::Zero("\"\""),
        (Shape::Number, None) => Shown::Zero("0"),
        (Shape::Bool, None) => Shown::Zero("false"),
        (Shape::Quantity, None) => Shown::Zero("\"0\""),
        (_, None) => Shown::Zero("null"),
    }
}

fn print(value: &Shown<'_>, depth: Option<usize>, out: &mut String) {
    match value {
        Shown::Zero(text) => out.push_str(text),
        Shown::Scalar(value) => out.push_str(&go_json(value)),
        Shown::Fields(fields) => print_all('{', '}', fields.len(), depth, out, |at, depth, out| {
            let (name, value) = &fields[at];
            out.push_str(&go_json(&Value::from(*name)));
            out.push_str(if depth.is_some() { ": " } else { ":" });
            print(value, depth, out);
        }),
        Shown::List(list) => print_all('[', ']', list.len(), depth, out, |at, depth, out| {
            print(&list[at], depth, out)
        }),
    }
}

fn print_all(
    open: char,
    close: char,
    count: usize,
    depth: Option<usize>,
    out: &mut String,
    item: impl Fn(usize, Option<usize>, &mut String),
) {
    out.push(open);
    let inner = depth.map(|depth| depth + 1);
    let line = |depth: Option<usize>, out: &mut String| {
        if let Some(depth) = depth {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', depth));
        }
    };
    for at in 0..count {
        if at > 0 {
            out.push(',');
        }
        line(inner, out);
        item(at, inner, out);
    }
    if count > 0 {
        line(depth, out);
    }
    out.push(close);
}

/// JSON as Go writes it: safe within HTML.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        text.replace('<', "\\u003c")
            .replace('>', "\\u003e")
            .replace('&', "\\u0026")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029")
    } else {
        text
    }
}
