//! The differences of two JSON values.

use serde_json::Value;

/// Adds a line for each place below `path` where an answer is not what is wanted.
pub fn compare(want: &Value, got: &Value, path: &str, differences: &mut Vec<String>) {
    match (want, got) {
        (Value::Object(wanted), Value::Object(given)) => {
            for (key, want) in wanted {
                match given.get(key) {
                    Some(got) => compare(want, got, &format!("{path}.{key}"), differences),
                    None => differences.push(format!("{path}.{key}: missing, want {}", short(want))),
                }
            }
            for (key, got) in given.iter().filter(|(key, _)| !wanted.contains_key(*key)) {
                differences.push(format!("{path}.{key}: not wanted, got {}", short(got)));
            }
        }
        (Value::Array(wanted), Value::Array(given)) => {
            if wanted.len() != given.len() {
                differences.push(format!("{path}: want {} items, got {}", wanted.len(), given.len()));
            }
            for (number, (want, got)) in wanted.iter().zip(given).enumerate() {
                compare(want, got, &format!("{path}[{number}]"), differences);
            }
        }
        _ if want == got => {}
        _ => differences.push(format!("{path}: want {}, got {}", short(want), short(got))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(160) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
