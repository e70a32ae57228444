//! The writer of trees: block style, keys in natural order, texts quoted where they would be read as something else.

use std::cmp::Ordering;

use serde_json::Value;

use super::{
    analysis::{Analysis, analyse},
    scalar::{Scalar, resolve},
    writer::{STEP, Writer},
};
use crate::{Object, json};

/// Keys longer than this are written as `? key`.
const SIMPLE_KEY_MAX_BYTES: usize = 128;

/// Encodes a value as a YAML document.
pub fn encode(value: &Value) -> String {
    let mut emitter = Emitter { writer: Writer::new() };
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
    writer: Writer,
}

impl Emitter {
    fn map(&mut self, fields: &Object, indent: usize) {
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
                self.text(key, analysis, Some(indent + STEP));
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
        match value {
            Value::Object(fields) if !fields.is_empty() => self.map(fields, indent + STEP),
            Value::Array(items) if !items.is_empty() && in_map => self.list(items, indent),
            Value::Array(items) if !items.is_empty() => self.list(items, indent + STEP),
            other => self.leaf(other, indent + STEP),
        }
    }

    fn leaf(&mut self, value: &Value, indent: usize) {
        match value {
            Value::Null => self.writer.word("null"),
            Value::Bool(flag) => self.writer.word(if *flag { "true" } else { "false" }),
            Value::Number(number) => {
                let text = match number.as_f64() {
                    Some(float) if number.is_f64() => json::go_float(float),
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
                self.writer.literal(text, margin);
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

/// Numbers within texts sort by value, letters after everything else.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(x, y)| x != y) else {
        return a.len().cmp(&b.len());
    };
    let (rest_a, rest_b) = (a.get(at..).unwrap_or_default(), b.get(at..).unwrap_or_default());
    let (first_a, first_b) = (rest_a.first().copied(), rest_b.first().copied());
    let letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
    match (letter(first_a), letter(first_b)) {
        (true, true) => return first_a.cmp(&first_b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    let within_number = first_a == Some('0') || first_b == Some('0');
    let before = a.get(..at).unwrap_or_default();
    let digits_before = before.iter().rev().take_while(|c| c.is_ascii_digit());
    let lead = u64::from(within_number && digits_before.into_iter().any(|c| *c != '0'));
    let (number_a, length_a) = leading_number(rest_a, lead);
    let (number_b, length_b) = leading_number(rest_b, lead);
    number_a
        .cmp(&number_b)
        .then(length_a.cmp(&length_b))
        .then(first_a.cmp(&first_b))
}

fn leading_number(text: &[char], lead: u64) -> (u64, usize) {
    let digits = text.iter().map_while(|c| c.to_digit(10));
    digits.fold((lead, 0), |(number, length), digit| {
        let number = number.wrapping_mul(10).wrapping_add(u64::from(digit));
        (number, length + 1)
    })
}
