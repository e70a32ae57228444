//! Pods as Kubernetes' error texts show them: all fields of its internal structs, in their order and under their
//! names, absent ones included.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use trireme_machinery::go_text::structs::Printed;

use super::layout_table::LAYOUT;

struct LayoutStruct {
    /// Absent fields are left out.
    sparse: bool,
    fields: Vec<LayoutField>,
}

struct LayoutField {
    name: &'static str,
    json: String,
    shape: LayoutShape,
}

enum LayoutShape {
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

static STRUCTS: LazyLock<HashMap<&'static str, LayoutStruct>> = LazyLock::new(|| {
    let structs = LAYOUT.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let name = words.next()?;
        let (name, sparse) = name.strip_suffix('?').map_or((name, false), |name| (name, true));
        Some((
            name,
            LayoutStruct {
                sparse,
                fields: words.map(field).collect(),
            },
        ))
    });
    structs.collect()
});

fn field(word: &'static str) -> LayoutField {
    if let Some(name) = word.strip_prefix('^') {
        return LayoutField {
            name,
            json: String::new(),
            shape: LayoutShape::Embedded(name),
        };
    }
    let (name, shape) = word.split_once(':').unwrap_or((word, ""));
    let (name, json) = match name.split_once('/') {
        Some((name, json)) => (name, json.to_owned()),
        None => (name, uncapitalized(name)),
    };
    let shape = match (shape, shape.get(..1)) {
        ("", _) => LayoutShape::Text,
        ("i", _) => LayoutShape::Number,
        ("b", _) => LayoutShape::Bool,
        ("q", _) => LayoutShape::Quantity,
        ("p", _) => LayoutShape::Optional,
        (shape, Some("*")) => LayoutShape::OptionalStruct(shape.trim_start_matches('*')),
        (shape, Some("[")) => LayoutShape::List(shape.trim_start_matches('[')),
        (shape, _) => LayoutShape::Struct(shape),
    };
    LayoutField { name, json, shape }
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

/// A struct on one line.
pub(crate) fn compact(struct_name: &str, value: &Value) -> String {
    shown(struct_name, &moved(struct_name, value)).compact()
}

/// A list of structs on one line.
pub(crate) fn compact_list(struct_name: &str, values: &[Value]) -> String {
    let parts: Vec<String> = values.iter().map(|value| compact(struct_name, value)).collect();
    format!("[{}]", parts.join(","))
}

/// A struct on many lines, each level indented by one blank.
pub(crate) fn indented(struct_name: &str, value: &Value) -> String {
    shown(struct_name, &moved(struct_name, value)).indented()
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

fn shown(struct_name: &str, value: &Value) -> Printed {
    let mut fields = Vec::new();
    push_fields(struct_name, value, &mut fields);
    Printed::Object(fields)
}

fn push_fields(struct_name: &str, value: &Value, out: &mut Vec<(String, Printed)>) {
    let Some(layout) = STRUCTS.get(struct_name) else { return };
    for field in &layout.fields {
        if let LayoutShape::Embedded(name) = field.shape {
            push_fields(name, value, out);
            continue;
        }
        let given = value.get(&field.json);
        if layout.sparse && given.is_none() {
            continue;
        }
        out.push((field.name.to_owned(), shown_field(&field.shape, given)));
    }
}

fn shown_field(shape: &LayoutShape, given: Option<&Value>) -> Printed {
    let zero = match (shape, given) {
        (LayoutShape::Struct(name), given) => return shown(name, given.unwrap_or(&Value::Null)),
        (LayoutShape::OptionalStruct(name), Some(value)) => return shown(name, value),
        (LayoutShape::List(name), Some(Value::Array(list))) => {
            return Printed::List(list.iter().map(|item| shown(name, item)).collect());
        }
        (_, Some(value)) => return Printed::plain(value),
        (LayoutShape::Text, None) => "\"\"",
        (LayoutShape::Number, None) => "0",
        (LayoutShape::Bool, None) => "false",
        (LayoutShape::Quantity, None) => "\"0\"",
        (_, None) => "null",
    };
    Printed::Plain(zero.to_owned())
}
