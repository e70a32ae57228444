//! The writer of trees in the form that version 3 of go-yaml gives to nodes without a style: keys in the order of the tree, an
//! indentation of four, lists in maps indented too, no line folded, and double quotes around texts that would be read as
//! something else.

use serde_json::Value;

use super::{
    analysis::analyse,
    emit::SIMPLE_KEY_MAX_BYTES,
    scalar::{Scalar, resolve},
    writer::YamlWriter,
};
use crate::{Object, go_text::go_float};

/// The indentation of a collection in a map.
const STEP: usize = 4;
/// That of a collection in a list, which begins beside the dash.
const DASH: usize = 2;

/// Encodes a value as a YAML node.
pub fn encode_node(value: &Value) -> String {
    let mut emitter = NodeEmitter {
        writer: YamlWriter::new(),
    };
    match value {
        Value::Object(fields) if !fields.is_empty() => emitter.map(fields, 0),
        Value::Array(items) if !items.is_empty() => emitter.list(items, 0),
        other => emitter.leaf(other, STEP),
    }
    let mut out = emitter.writer.out;
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

struct NodeEmitter {
    writer: YamlWriter,
}

impl NodeEmitter {
    fn map(&mut self, fields: &Object, indent: usize) {
        let deeper = in_map(indent);
        for (key, value) in fields {
            self.writer.indent(indent);
            if key.len() <= SIMPLE_KEY_MAX_BYTES && !analyse(key).multiline {
                self.text(key, None);
                self.writer.colon();
            } else {
                self.writer.block_indicator('?');
                self.text(key, Some(deeper));
                self.writer.indent(indent);
                self.writer.block_indicator(':');
            }
            self.node(value, deeper);
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for item in items {
            self.writer.indent(indent);
            self.writer.block_indicator('-');
            self.node(item, indent.saturating_add(DASH));
        }
    }

    fn node(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Object(fields) if !fields.is_empty() => self.map(fields, indent),
            Value::Array(items) if !items.is_empty() => self.list(items, indent),
            other => self.leaf(other, indent),
        }
    }

    fn leaf(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.writer.word("null"),
            Value::Bool(flag) => self.writer.word(if *flag { "true" } else { "false" }),
            Value::Number(number) => {
                let float = number.as_f64().filter(|_| number.is_f64());
                self.writer.word(&float.map_or_else(|| number.to_string(), go_float));
            }
            Value::String(text) => self.text(text, Some(indent)),
            Value::Array(_) => self.writer.word("[]"),
            Value::Object(_) => self.writer.word("{}"),
        }
    }

    /// Writes a text; without an indentation it is a simple key and stays in its line.
    fn text(&mut self, text: &str, indent: Option<usize>) {
        let analysis = analyse(text);
        let margin = indent.unwrap_or_default();
        if text.contains('\n') && analysis.literal && indent.is_some() {
            self.writer.literal(text, margin, STEP);
        } else if text.contains('\n') || !reads_as_text(text) {
            self.writer.double_quoted(text, margin, false);
        } else if analysis.plain {
            self.writer.plain(text, margin, false);
        } else if analysis.single_quoted {
            self.writer.single_quoted(text, margin, false);
        } else {
            self.writer.double_quoted(text, margin, false);
        }
    }
}

/// The indentation of a collection in a map with this one: the next multiple of four.
fn in_map(indent: usize) -> usize {
    indent.saturating_add(1).next_multiple_of(STEP)
}

/// Reports whether a plain scalar is a text. `yes` and `off` are, other than in YAML 1.1.
fn reads_as_text(text: &str) -> bool {
    match resolve(text) {
        Scalar::Text => true,
        Scalar::Bool(_) => !text.eq_ignore_ascii_case("true") && !text.eq_ignore_ascii_case("false"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn collections_are_indented_as_nodes_are() {
        let kinds = json!([{"group": "apps", "kind": "Deployment", "version": "v1"}, {"group": "", "kind": "A: b"}]);
        let text = "- group: apps\n  kind: Deployment\n  version: v1\n- group: \"\"\n  kind: 'A: b'\n";
        assert_eq!(encode_node(&kinds), text);
        let deep = json!({"a": [{"b": {"c": [1, [2.5, []]]}, "d": {}}], "e": {"f": null}});
        let text = "a:\n    - b:\n        c:\n            - 1\n            - - 2.5\n              - []\n      d: {}\ne:\n    f: null\n";
        assert_eq!(encode_node(&deep), text);
    }

    #[test]
    fn texts_are_quoted_where_they_would_be_something_else() {
        for (text, yaml) in [
            ("set", "set\n"),
            ("true", "\"true\"\n"),
            ("yes", "yes\n"),
            ("0777", "\"0777\"\n"),
            ("", "\"\"\n"),
            ("- a", "'- a'\n"),
            ("a\nb", "|-\n    a\n    b\n"),
            (" a\n", "|4\n     a\n"),
            ("a \n", "\"a \\n\"\n"),
        ] {
            assert_eq!(encode_node(&json!(text)), yaml);
        }
        let long = "a ".repeat(60) + "b";
        assert_eq!(encode_node(&json!(long)), format!("{long}\n"));
    }
}
