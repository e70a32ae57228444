//! The columns of Tables that definitions ask for (`registry/customresource/tableconvertor`).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::time::human_duration;
use trireme_registry::Column;

use crate::json_path::JsonPath;

/// The columns that all custom resources have.
#[derive(Clone)]
pub(crate) struct Columns {
    name: Column,
    /// The description of the time of creation.
    created_at: Column,
}

impl Columns {
    /// Takes them from those of a kind of Kubernetes that has no others.
    pub(crate) fn from(columns: &[Column]) -> Option<Self> {
        match columns {
            [name, created_at] => Some(Self {
                name: name.clone(),
                created_at: created_at.clone(),
            }),
            _ => None,
        }
    }

    /// The columns of a version: its own, or the age.
    pub(crate) fn of(&self, version: &Value) -> Arc<[Column]> {
        let own = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let own: Vec<Column> = own.into_iter().flatten().filter_map(printer_column).collect();
        let mut columns = vec![self.name.clone()];
        if own.is_empty() {
            columns.push(self.age());
        }
        columns.extend(own);
        columns.into()
    }

    /// The columns of a scale.
    pub(crate) fn of_scale(&self) -> Arc<[Column]> {
        let replicas = |name: &str, pointer: &'static str, description: &'static str| Column {
            name: name.into(),
            kind: "integer",
            format: "",
            priority: 0,
            defined: true,
            description: Arc::new(move || description.into()),
            cell: Arc::new(move |scale, _| scale.pointer(pointer).cloned().unwrap_or_else(|| 0.into())),
        };
        [
            self.name.clone(),
            replicas("Desired", "/spec/replicas", "Number of desired replicas"),
            replicas("Available", "/status/replicas", "Number of actual replicas"),
            self.age(),
        ]
        .into()
    }

    fn age(&self) -> Column {
        let pointer = "/metadata/creationTimestamp";
        Column {
            name: "Age".into(),
            cell: Arc::new(move |object, now| date(object.pointer(pointer), now)),
            ..self.created_at.clone()
        }
    }
}

fn printer_column(column: &Value) -> Option<Column> {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = [
        "byte",
        "date",
        "date-time",
        "double",
        "float",
        "int32",
        "int64",
        "password",
    ];
    let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
    let known = |list: &'static [&'static str], name: &str| list.iter().copied().find(|known| *known == name);
    let (kind, json_path) = (known(&TYPES, text("type"))?, text("jsonPath"));
    let path = JsonPath::parse(json_path);
    let description: Arc<str> = match text("description") {
        "" => format!("Custom resource definition column (in JSONPath format): {json_path}").into(),
        own => own.into(),
    };
    let priority = column.get("priority").and_then(Value::as_i64).unwrap_or(0);
    Some(Column {
        name: text("name").into(),
        kind,
        format: known(&FORMATS, text("format")).unwrap_or_default(),
        priority: i32::try_from(priority).unwrap_or_default(),
        defined: true,
        description: Arc::new(move || description.clone()),
        cell: Arc::new(move |object, now| {
            let found = path.as_ref().and_then(|path| path.first(object));
            cell(kind, found, now)
        }),
    })
}

fn cell(kind: &str, value: Option<&Value>, now: Timestamp) -> Value {
    let Some(value) = value else { return Value::Null };
    match (kind, value) {
        ("string", Value::String(_)) => value.clone(),
        ("string", Value::Null) => "".into(),
        ("string", other) => other.to_string().into(),
        ("boolean", Value::Bool(_)) | ("number", Value::Number(_)) => value.clone(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            #[expect(clippy::cast_possible_truncation, reason = "Go cuts the fraction off, too")]
            (None, Some(fraction)) => (fraction as i64).into(),
            (None, None) => Value::Null,
        },
        ("date", value) => date(Some(value), now),
        _ => Value::Null,
    }
}

/// The age of a time.
fn date(value: Option<&Value>, now: Timestamp) -> Value {
    match value {
        Some(Value::String(at)) => match at.parse::<Timestamp>() {
            Ok(at) => human_duration(now.duration_since(at)).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
