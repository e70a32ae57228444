//! Values of answers that later steps of a scenario are made with.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::value_paths::{dig, plain_text};

/// Keeps the values of an answer that its step names.
pub(super) fn keep(step: &Value, body: &Value, variables: &mut HashMap<String, String>) {
    for (name, path) in step["keep"].as_object().into_iter().flatten() {
        let value = path.as_str().and_then(|path| dig(body, path));
        variables.insert(name.clone(), value.map_or_else(|| "None".to_owned(), plain_text));
    }
}

/// Puts kept values in place of `${name}`; unknown names stay.
pub(super) fn substitute_text(text: &str, variables: &HashMap<String, String>) -> String {
    static VARIABLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{(\w+)\}").expect("a valid pattern"));
    let replaced = VARIABLE.replace_all(text, |found: &regex::Captures<'_>| {
        variables.get(&found[1]).cloned().unwrap_or_else(|| found[0].to_owned())
    });
    replaced.into_owned()
}

pub(super) fn substitute(value: &Value, variables: &HashMap<String, String>) -> Value {
    match value {
        // The one variable that is no text.
        Value::String(text) if text == "${hookPort}" => {
            let port = variables.get("hookPort").and_then(|port| port.parse::<u16>().ok());
            port.map_or_else(|| value.clone(), Value::from)
        }
        Value::String(text) => Value::String(substitute_text(text, variables)),
        Value::Array(items) => items.iter().map(|item| substitute(item, variables)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, field)| (substitute_text(key, variables), substitute(field, variables)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}
