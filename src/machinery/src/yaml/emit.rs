//! The writer of trees: block style, keys in natural order, texts quoted where they would be read as something else.

use std::cmp::Ordering;

use serde_json::Value;

use super::{
    analysis::{Analysis, analyse},
    scalar::{Scalar, resolve},
    writer::YamlWriter,
};
use crate::{Object, go_text::go_float};

/// The indentation of a nested collection.
const STEP: usize = 2;
/// Keys longer than this are written as `? key`.
pub(super) const SIMPLE_KEY_MAX_BYTES: usize = 128;

/// Encodes a value as a YAML document.
pub fn encode(value: &Value) -> String {
    let mut emitter = Emitter {
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

struct Emitter {
    writer: YamlWriter,
}

impl Emitter {
    fn map(&mut self, fields: &Object, indent: usize) {
        let deeper = indent.saturating_add(STEP);
        let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
        sorted.sort_by(|(a, _), (b, _)| natural_order(a, b));
        for (key, value) in sorted {
            self.writer.indent(indent);
            let analysis = analyse(key);
            if key.len() <= SIMPLE_KEY_MAX_BYTES && !analysis.multiline {
                self.text(key, analysis, None);
                self.writer.colon();
                self.node(value, indent, true);
            } else {
                self.writer.block_indicator('?');
                self.text(key, analysis, Some(deeper));
                self.writer.indent(indent);
                self.writer.block_indicator(':');
                self.node(value, indent, true);
            }
        }
    }

    fn list(&mut self, items: &[Value], indent: usize) {
        for item in items {
            self.writer.indent(indent);
            self.writer.block_indicator('-');
            self.node(item, indent, false);
        }
    }

    /// A value within a collection; lists in maps are not indented further.
    fn node(&mut self, value: &Value, indent: usize, in_map: bool) {
        let deeper = indent.saturating_add(STEP);
        match value {
            Value::Object(fields) if !fields.is_empty() => self.map(fields, deeper),
            Value::Array(items) if !items.is_empty() && in_map => self.list(items, indent),
            Value::Array(items) if !items.is_empty() => self.list(items, deeper),
            other => self.leaf(other, deeper),
        }
    }

    fn leaf(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.writer.word("null"),
            Value::Bool(flag) => self.writer.word(if *flag { "true" } else { "false" }),
            Value::Number(number) => {
                let text = match number.as_f64() {
                    Some(float) if number.is_f64() => go_float(float),
                    _ => number.to_string(),
                };
                self.writer.word(&text);
            }
            Value::String(text) => self.text(text, analyse(text), Some(indent)),
            Value::Array(_) => self.writer.word("[]"),
            Value::Object(_) => self.writer.word("{}"),
        }
    }

    /// Writes a text; without an indentation it is a simple key and stays in its line.
    fn text(&mut self, text: &str, analysis: Analysis, indent: Option<usize>) {
        let fold = indent.is_some();
        let margin = indent.unwrap_or_default();
        let stays_text = resolve(text) == Scalar::Text && !is_sexagesimal(text);
        if text.contains('\n') {
            if analysis.literal && fold {
                self.writer.literal(text, margin, STEP);
            } else {
                self.writer.double_quoted(text, margin, fold);
            }
        } else if stays_text && analysis.plain {
            self.writer.plain(text, margin, fold);
        } else if stays_text && analysis.single_quoted {
            self.writer.single_quoted(text, margin, fold);
        } else {
            self.writer.double_quoted(text, margin, fold);
        }
    }
}

/// `1:30`, which other readers of YAML 1.1 take for a number.
fn is_sexagesimal(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let head = parts.next().unwrap_or_default();
    if !head.starts_with(|c: char| c.is_ascii_digit()) || !digits(head) || !unsigned.contains(':') {
        return false;
    }
    let mut tail = parts.peekable();
    while let Some(part) = tail.next() {
        let whole = match part.split_once('.') {
            Some((whole, fraction)) if tail.peek().is_none() => {
                if !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
                    return false;
                }
                whole
            }
            _ => part,
        };
        let small = matches!(whole.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']);
        if !small {
            return false;
        }
    }
    true
}

/// The order of keys: numbers within texts by value, letters after everything else.
///
/// Follows go-yaml's order of keys but where that one goes in circles (`12` before `1a` before `2` before `12`): here a
/// number ends before it is compared, so that `1a` comes before `2` and `12`.
fn natural_order(a: &str, b: &str) -> Ordering {
    pieces(a).cmp(pieces(b))
}

/// A piece of a key; the order of the variants is that of the keys that begin with them.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum ScalarPart<'a> {
    Sign(char),
    /// Compared by value, then by the leading zeroes.
    Number {
        significant_length: usize,
        significant: &'a str,
        zeroes: usize,
    },
    Letter(char),
}

/// Takes a key apart into runs of digits and single characters.
fn pieces(key: &str) -> impl Iterator<Item = ScalarPart<'_>> {
    let mut rest = key;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let run_end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (run, after) = rest.split_at_checked(run_end)?;
        if run.is_empty() {
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            return Some(if first.is_alphabetic() {
                ScalarPart::Letter(first)
            } else {
                ScalarPart::Sign(first)
            });
        }
        rest = after;
        let significant = run.trim_start_matches('0');
        Some(ScalarPart::Number {
            significant_length: significant.len(),
            significant,
            zeroes: run.len().saturating_sub(significant.len()),
        })
    })
}
