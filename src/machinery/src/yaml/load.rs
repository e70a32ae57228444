//! The reader: parser events in, a tree out, on an explicit stack.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Tag};
use serde_json::Value;

use super::{
    MAX_ALIASED_BYTES, YamlError,
    scalar::{Scalar, resolve},
};
use crate::{
    Object,
    go_text::{go_float, quote},
    json::{self, DecodedDocument, MAX_DEPTH, MAX_DUPLICATES},
};

const TOO_DEEP: &str = "exceeded max depth";

/// A list or map that is still open.
enum YamlFrame {
    List(Vec<Value>),
    Map(Object, NextNode),
}

/// The role of the next node of a map.
enum NextNode {
    Key,
    /// The value of this key, which stood at this line; shown so in errors.
    Value {
        key: String,
        shown: String,
        line: usize,
    },
    /// The entries that `<<` merges in.
    Merge {
        line: usize,
    },
}

/// A value that an alias may repeat, with its size and depth.
struct Anchored {
    value: Value,
    bytes: usize,
    depth: usize,
}

#[derive(Default)]
pub(super) struct Loader {
    open: Vec<(YamlFrame, usize)>,
    anchors: HashMap<usize, Anchored>,
    copied_bytes: usize,
    duplicates: Vec<String>,
}

/// A finished node.
struct LoadedNode {
    value: Value,
    /// The key it would make, and how errors show that.
    scalar: Option<Scalar>,
    text: String,
    line: usize,
}

fn malformed(why: impl Into<String>) -> YamlError {
    YamlError::Malformed(why.into())
}

impl Loader {
    pub(super) fn run(mut self, text: &str) -> Result<DecodedDocument, YamlError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.chars().any(is_forbidden) {
            return Err(malformed("control characters are not allowed"));
        }
        if let Some(line) = other_version(text) {
            let place = if line == 0 {
                String::new()
            } else {
                format!("line {line}: ")
            };
            return Err(malformed(format!("{place}found incompatible YAML document")));
        }
        let mut parser = Parser::new_from_str(text);
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|e| scan_error(&e))?;
            let line = span.start.line();
            let node = match event {
                Event::SequenceStart(anchor, tag) => {
                    check_tag(tag.as_deref(), "seq", line)?;
                    self.push(YamlFrame::List(Vec::new()), anchor)?;
                    continue;
                }
                Event::MappingStart(anchor, tag) => {
                    check_tag(tag.as_deref(), "map", line)?;
                    self.push(YamlFrame::Map(Object::new(), NextNode::Key), anchor)?;
                    continue;
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(line)?,
                Event::Scalar(text, style, anchor, tag) => {
                    let node = scalar_node(&text, style, tag.as_deref(), line)?;
                    self.remember(anchor, &node.value)?;
                    node
                }
                Event::Alias(anchor) => self.repeat(anchor, line)?,
                Event::StreamEnd | Event::DocumentEnd => break,
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) => continue,
            };
            if let Some(value) = self.place(node)? {
                return Ok(self.finish(value));
            }
        }
        Ok(self.finish(Value::Null))
    }

    fn finish(self, value: Value) -> DecodedDocument {
        DecodedDocument {
            value,
            duplicates: self.duplicates,
        }
    }

    fn push(&mut self, frame: YamlFrame, anchor: usize) -> Result<(), YamlError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(malformed(TOO_DEEP));
        }
        self.open.push((frame, anchor));
        Ok(())
    }

    fn close(&mut self, line: usize) -> Result<LoadedNode, YamlError> {
        let (frame, anchor) = self.open.pop().expect("the parser balances its events");
        let value = match frame {
            YamlFrame::List(items) => Value::Array(items),
            YamlFrame::Map(fields, _) => Value::Object(fields),
        };
        self.remember(anchor, &value)?;
        Ok(LoadedNode {
            value,
            scalar: None,
            text: String::new(),
            line,
        })
    }

    /// Puts a node into the innermost open list or map; gives back the value of the whole document.
    fn place(&mut self, node: LoadedNode) -> Result<Option<Value>, YamlError> {
        match self.open.last_mut() {
            None => return Ok(Some(node.value)),
            Some((YamlFrame::List(items), _)) => items.push(node.value),
            Some((YamlFrame::Map(fields, pending), _)) => match std::mem::replace(pending, NextNode::Key) {
                NextNode::Key => *pending = key_of(node)?,
                NextNode::Value { key, shown, line } => {
                    if fields.insert(key, node.value).is_some() {
                        report(&mut self.duplicates, line, &shown);
                    }
                }
                NextNode::Merge { line } => merge(fields, node.value, line, &mut self.duplicates)?,
            },
        }
        Ok(None)
    }

    fn charge(&mut self, bytes: usize) -> Result<(), YamlError> {
        self.copied_bytes = self.copied_bytes.saturating_add(bytes);
        if self.copied_bytes > MAX_ALIASED_BYTES {
            return Err(malformed("document contains excessive aliasing"));
        }
        Ok(())
    }

    fn remember(&mut self, anchor: usize, value: &Value) -> Result<(), YamlError> {
        if anchor == 0 {
            return Ok(());
        }
        let (bytes, depth) = (measure(value), json::depth(value));
        self.charge(bytes)?;
        let anchored = Anchored {
            value: value.clone(),
            bytes,
            depth,
        };
        self.anchors.insert(anchor, anchored);
        Ok(())
    }

    fn repeat(&mut self, anchor: usize, line: usize) -> Result<LoadedNode, YamlError> {
        let Some(anchored) = self.anchors.get(&anchor) else {
            return Err(malformed("anchor value contains itself"));
        };
        if self.open.len().saturating_add(anchored.depth) > MAX_DEPTH {
            return Err(malformed(TOO_DEEP));
        }
        let bytes = anchored.bytes;
        let node = alias_node(anchored.value.clone(), line);
        self.charge(bytes)?;
        Ok(node)
    }
}

/// An alias may stand for a key, too.
fn alias_node(value: Value, line: usize) -> LoadedNode {
    let (scalar, text) = match &value {
        Value::Array(_) | Value::Object(_) => (None, String::new()),
        Value::String(text) => (Some(Scalar::Text), text.clone()),
        Value::Bool(flag) => (Some(Scalar::Bool(*flag)), flag.to_string()),
        Value::Number(_) => (Some(Scalar::Integer(value.clone())), value.to_string()),
        Value::Null => (Some(Scalar::Null), String::new()),
    };
    LoadedNode {
        value,
        scalar,
        text,
        line,
    }
}

/// The number of bytes a value holds.
fn measure(value: &Value) -> usize {
    let own = std::mem::size_of::<Value>();
    let inner: usize = match value {
        Value::Array(items) => items.iter().map(measure).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| measure(value).saturating_add(own).saturating_add(key.len()))
            .sum(),
        Value::String(text) => text.len(),
        _ => 0,
    };
    inner.saturating_add(own)
}

fn is_forbidden(c: char) -> bool {
    !matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

/// Makes a key of a node, as JSON has only text keys.
fn key_of(node: LoadedNode) -> Result<NextNode, YamlError> {
    let (line, text) = (node.line, node.text);
    let (key, shown) = match node.scalar {
        Some(Scalar::Merge) => return Ok(NextNode::Merge { line }),
        Some(Scalar::Text | Scalar::Timestamp) => {
            let shown = quote(&text);
            (text, shown)
        }
        Some(Scalar::Bool(flag)) => (flag.to_string(), flag.to_string()),
        Some(Scalar::Integer(number)) => (number.to_string(), number.to_string()),
        Some(Scalar::Float(number)) => {
            let key = go_float(number);
            (key.clone(), key)
        }
        Some(Scalar::Null) => return Err(malformed(format!("line {line}: null is not a key"))),
        None => return Err(malformed(format!("line {line}: invalid map key"))),
    };
    Ok(NextNode::Value { key, shown, line })
}

/// Merges what `<<` names: a map, or a list of maps of which the first counts most.
fn merge(fields: &mut Object, value: Value, line: usize, duplicates: &mut Vec<String>) -> Result<(), YamlError> {
    let maps = match value {
        Value::Object(map) => vec![Value::Object(map)],
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    let wrong = || malformed("map merge requires map or sequence of maps as the value");
    if maps.is_empty() {
        return Err(wrong());
    }
    for map in maps.into_iter().rev() {
        let Value::Object(map) = map else {
            return Err(wrong());
        };
        for (key, value) in map {
            let shown = quote(&key);
            if fields.insert(key, value).is_some() {
                report(duplicates, line, &shown);
            }
        }
    }
    Ok(())
}

fn report(duplicates: &mut Vec<String>, line: usize, shown: &str) {
    if duplicates.len() < MAX_DUPLICATES {
        duplicates.push(format!("line {line}: key {shown} already set in map"));
    }
}

/// The name of a tag of YAML itself, `""` for none and for `!`; other tags are refused.
fn tag_name(tag: Option<&Tag>, line: usize) -> Result<&str, YamlError> {
    const PREFIX: &str = "tag:yaml.org,2002:";
    let Some(tag) = tag else { return Ok("") };
    match (tag.handle.as_str(), tag.suffix.as_str()) {
        (PREFIX, name) => Ok(name),
        ("", "!") => Ok("!"),
        ("", full) if full.starts_with(PREFIX) => Ok(full.strip_prefix(PREFIX).unwrap_or_default()),
        (handle, suffix) => Err(malformed(format!("line {line}: unsupported tag {handle}{suffix}"))),
    }
}

fn check_tag(tag: Option<&Tag>, expected: &str, line: usize) -> Result<(), YamlError> {
    match tag_name(tag, line)? {
        "" | "!" => Ok(()),
        name if name == expected => Ok(()),
        name => Err(malformed(format!(
            "line {line}: cannot decode !!{expected} as a !!{name}"
        ))),
    }
}

fn scalar_node(text: &str, style: ScalarStyle, tag: Option<&Tag>, line: usize) -> Result<LoadedNode, YamlError> {
    let tag = tag_name(tag, line)?;
    let scalar = match tag {
        "" if style == ScalarStyle::Plain => resolve(text),
        "" | "!" | "str" | "binary" => Scalar::Text,
        tag => tagged(text, tag)?,
    };
    let mut text = text.to_owned();
    if tag == "binary" {
        let bytes = STANDARD.decode(text.replace(['\n', '\r'], ""));
        let bytes = bytes.map_err(|_| malformed("!!binary value contains invalid base64 data"))?;
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    let value = match &scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(flag) => Value::Bool(*flag),
        Scalar::Integer(number) => number.clone(),
        Scalar::Float(number) => json::number(*number).ok_or_else(|| YamlError::Unsupported(unsupported(*number)))?,
        Scalar::Timestamp | Scalar::Merge | Scalar::Text => Value::String(text.clone()),
    };
    Ok(LoadedNode {
        value,
        scalar: Some(scalar),
        text,
        line,
    })
}

fn unsupported(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "+Inf"
    } else {
        "-Inf"
    }
}

/// A scalar with an explicit tag must be of that type.
fn tagged(text: &str, tag: &str) -> Result<Scalar, YamlError> {
    let scalar = resolve(text);
    let fits = match (&scalar, tag) {
        (Scalar::Integer(_), "float") => true,
        (found, tag) => found.tag() == tag,
    };
    if fits {
        return Ok(scalar);
    }
    Err(malformed(format!(
        "cannot decode !!{} `{text}` as a !!{tag}",
        scalar.tag()
    )))
}

/// The line, from 0, of a directive before the first document that asks for another version of YAML than 1.1: the parser takes
/// any.
fn other_version(text: &str) -> Option<usize> {
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if !line.starts_with('%') && !trimmed.is_empty() && !trimmed.starts_with('#') {
            return None;
        }
        let version = line
            .strip_prefix("%YAML")
            .and_then(|rest| rest.split_whitespace().next());
        let (major, minor) = version
            .and_then(|version| version.split_once('.'))
            .unwrap_or(("1", "1"));
        let is_other = |part: &str| part.parse::<u64>().is_ok_and(|part| part != 1);
        if is_other(major) || is_other(minor) {
            return Some(number);
        }
    }
    None
}

/// Words an error as Go's library does: without context, and without the line if it is the first.
fn scan_error(error: &ScanError) -> YamlError {
    let info = error.info();
    let problem = match info.strip_prefix("while ").and_then(|rest| rest.split_once(", ")) {
        Some((_, problem)) => problem,
        None => info,
    };
    let (problem, by_parser) = match problem {
        "expected ',' or ']'" => ("did not find expected ',' or ']'", true),
        "simple key expected" | "simple key expect ':'" => ("could not find expected ':'", false),
        "misplaced bracket" => ("did not find expected node content", true),
        "the handle wasn't declared" => ("found undefined tag handle", true),
        "found unknown anchor" => return malformed("unknown anchor referenced"),
        "recursion limit exceeded" => return malformed(TOO_DEEP),
        text if text.starts_with("unexpected character") || text.starts_with("tabs disallowed") => {
            ("found character that cannot start any token", false)
        }
        text => (text, text.starts_with("did not find expected")),
    };
    // Lines count from 1 here and from 0 there; an error of the parser is reported one line less.
    let line = error.marker().line();
    match line {
        0 | 1 => malformed(problem),
        line => {
            let line = line.saturating_sub(usize::from(by_parser));
            malformed(format!("line {line}: {problem}"))
        }
    }
}
