//! Columns of Table answers, as `pkg/printers/internalversion` of Kubernetes prints them.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use trireme_machinery::{selector::compile_label_selector, time};
use trireme_registry::Column;

use crate::values::{text, text_at};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// A column with a cell that depends on the object alone.
pub(crate) fn column(
    name: &str,
    kind: &'static str,
    description: impl Fn() -> Arc<str> + Send + Sync + 'static,
    cell: impl Fn(&Value) -> Value + Send + Sync + 'static,
) -> Column {
    Column {
        name: name.into(),
        kind,
        format: "",
        priority: 0,
        defined: true,
        description: Arc::new(description),
        cell: Arc::new(move |object, _| cell(object)),
    }
}

/// A column that `-o wide` shows.
pub(crate) fn wide(column: Column) -> Column {
    Column { priority: 1, ..column }
}

/// The API documentation of a field, as a column's description.
pub(crate) fn documented(type_name: &'static str, field: &'static str) -> impl Fn() -> Arc<str> + Send + Sync {
    move || trireme_schema::description(type_name, field).unwrap_or_default().into()
}

/// A description of its own.
pub(crate) fn described(text: &'static str) -> impl Fn() -> Arc<str> + Send + Sync {
    move || text.into()
}

/// A column that rows have and definitions do not.
pub(crate) fn undefined(column: Column) -> Column {
    Column {
        defined: false,
        ..column
    }
}

/// The object's name.
pub(crate) fn name() -> Column {
    let cell = |object: &Value| Value::from(text_at(object, "/metadata/name"));
    Column {
        format: "name",
        ..column("Name", "string", documented(OBJECT_META, "name"), cell)
    }
}

/// The name, and whether the class is the default one, which any of these annotations says.
pub(crate) fn default_marked_name(annotations: &'static [&'static str]) -> Column {
    let cell = move |object: &Value, _| {
        let given = object.pointer("/metadata/annotations").unwrap_or(&Value::Null);
        let is_default = annotations.iter().any(|name| text(given, name) == "true");
        let mark = if is_default { " (default)" } else { "" };
        Value::from(format!("{}{mark}", text_at(object, "/metadata/name")))
    };
    Column {
        cell: Arc::new(cell),
        ..name()
    }
}

/// The object's age.
pub(crate) fn age() -> Column {
    Column {
        cell: Arc::new(|object, now| Value::from(since(text_at(object, "/metadata/creationTimestamp"), now))),
        ..column("Age", "string", documented(OBJECT_META, "creationTimestamp"), |_| {
            Value::Null
        })
    }
}

/// The creation time of the object: the column of kinds without columns of their own.
pub(crate) fn created_at() -> Column {
    let cell = |object: &Value| {
        object
            .pointer("/metadata/creationTimestamp")
            .cloned()
            .unwrap_or(Value::Null)
    };
    column("Created At", "date", documented(OBJECT_META, "creationTimestamp"), cell)
}

/// The age of a time, as kubectl shows ages.
pub(crate) fn since(at: &str, now: Timestamp) -> String {
    match at.parse::<Timestamp>() {
        Ok(at) => time::human_duration(now.duration_since(at)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A label selector, or that it is none (`FormatLabelSelector`).
pub(crate) fn label_selector(selector: Option<&Value>) -> Value {
    match compile_label_selector(selector.and_then(Value::as_object)) {
        Ok(selector) => or_none(&selector.to_string()),
        Err(_) => "<error>".into(),
    }
}

/// A text, or `<none>` if there is none.
pub(crate) fn or_none(text: &str) -> Value {
    Value::from(if text.is_empty() { "<none>" } else { text })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_shown_or_that_they_are_none() {
        let selector = |key: &str| Some(json!({ "matchLabels": { key: "b" } }));
        for (selector, shown) in [
            (None, "<none>"),
            (Some(json!({})), "<none>"),
            (selector("a"), "a=b"),
            (selector("-"), "<error>"),
        ] {
            assert_eq!(label_selector(selector.as_ref()), shown, "{selector:?}");
        }
    }
}
