//! The decoder: one loop over the input and an explicit stack of open objects and lists.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{DecodedDocument, JsonError, MAX_DEPTH, MAX_DUPLICATES, number, text};
use crate::Object;

const BEGINNING_OF_VALUE: &str = "looking for beginning of value";
const BEGINNING_OF_KEY: &str = "looking for beginning of object key string";

/// An object or list that is still open.
enum JsonFrame {
    List(Vec<Value>),
    /// The fields so far, and the key whose value comes next.
    Object(Object, String),
}

/// The tokens that may come next.
enum ExpectedToken {
    /// A value, or the end of the list that was just opened.
    FirstItem,
    /// A value.
    Value,
    /// A complete value, to be put where it belongs.
    Complete(Value),
}

pub(super) struct JsonDecoder<'a> {
    input: &'a [u8],
    /// The input, if all of it is UTF-8, so that its strings need not be looked at one by one.
    valid: Option<&'a str>,
    at: usize,
    open: Vec<JsonFrame>,
    duplicates: Vec<String>,
    seen: BTreeSet<String>,
}

impl<'a> JsonDecoder<'a> {
    pub(super) fn new(input: &'a [u8]) -> Self {
        Self {
            input,
            valid: std::str::from_utf8(input).ok(),
            at: 0,
            open: Vec::new(),
            duplicates: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<DecodedDocument, JsonError> {
        let mut state = ExpectedToken::Value;
        loop {
            state = match state {
                ExpectedToken::Value => self.value(false)?,
                ExpectedToken::FirstItem => self.value(true)?,
                ExpectedToken::Complete(value) => match self.place(value)? {
                    Placed::Within(next) => next,
                    Placed::Top(value) => return self.finish(value),
                },
            };
        }
    }

    fn finish(mut self, value: Value) -> Result<DecodedDocument, JsonError> {
        match self.next_token() {
            None => Ok(DecodedDocument {
                value,
                duplicates: self.duplicates,
            }),
            Some(byte) => Err(unexpected(byte, "after top-level value")),
        }
    }

    /// The next byte that is not white space.
    fn next_token(&mut self) -> Option<u8> {
        while let Some(&byte) = self.input.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at = self.at.saturating_add(1);
        }
        None
    }

    fn expect_token(&mut self) -> Result<u8, JsonError> {
        self.next_token().ok_or(JsonError::UnexpectedEnd)
    }

    fn value(&mut self, may_close: bool) -> Result<ExpectedToken, JsonError> {
        let byte = self.expect_token()?;
        match byte {
            b'{' => self.open_object(),
            b'[' => {
                self.at = self.at.saturating_add(1);
                self.push(JsonFrame::List(Vec::new()))?;
                Ok(ExpectedToken::FirstItem)
            }
            b']' if may_close => {
                self.at = self.at.saturating_add(1);
                self.close()
            }
            b'"' => Ok(ExpectedToken::Complete(Value::String(self.string()?))),
            b'-' | b'0'..=b'9' => Ok(ExpectedToken::Complete(self.number()?)),
            b't' => self.literal("true", Value::Bool(true)),
            b'f' => self.literal("false", Value::Bool(false)),
            b'n' => self.literal("null", Value::Null),
            other => Err(unexpected(other, BEGINNING_OF_VALUE)),
        }
    }

    fn push(&mut self, frame: JsonFrame) -> Result<(), JsonError> {
        if self.open.len() >= MAX_DEPTH {
            return Err(JsonError::TooDeep);
        }
        self.open.push(frame);
        Ok(())
    }

    fn close(&mut self) -> Result<ExpectedToken, JsonError> {
        let value = match self.open.pop().expect("only an open frame is closed") {
            JsonFrame::List(items) => Value::Array(items),
            JsonFrame::Object(fields, _) => Value::Object(fields),
        };
        Ok(ExpectedToken::Complete(value))
    }

    fn open_object(&mut self) -> Result<ExpectedToken, JsonError> {
        self.at = self.at.saturating_add(1);
        self.push(JsonFrame::Object(Object::new(), String::new()))?;
        if self.expect_token()? == b'}' {
            self.at = self.at.saturating_add(1);
            return self.close();
        }
        self.key()
    }

    /// Reads a key and its colon.
    fn key(&mut self) -> Result<ExpectedToken, JsonError> {
        let byte = self.expect_token()?;
        if byte != b'"' {
            return Err(unexpected(byte, BEGINNING_OF_KEY));
        }
        let name = self.string()?;
        if let Some(JsonFrame::Object(_, key)) = self.open.last_mut() {
            *key = name;
        }
        match self.expect_token()? {
            b':' => {
                self.at = self.at.saturating_add(1);
                Ok(ExpectedToken::Value)
            }
            other => Err(unexpected(other, "after object key")),
        }
    }

    /// Puts a value into the innermost open object or list and reads what separates it from the next.
    fn place(&mut self, value: Value) -> Result<Placed, JsonError> {
        match self.open.last_mut() {
            None => return Ok(Placed::Top(value)),
            Some(JsonFrame::List(items)) => {
                items.push(value);
                match self.expect_token()? {
                    b',' => self.at = self.at.saturating_add(1),
                    b']' => {
                        self.at = self.at.saturating_add(1);
                        return self.close().map(Placed::Within);
                    }
                    other => return Err(unexpected(other, "after array element")),
                }
                return Ok(Placed::Within(ExpectedToken::Value));
            }
            Some(JsonFrame::Object(fields, key)) => {
                let name = std::mem::take(key);
                match fields.entry(name) {
                    serde_json::map::Entry::Vacant(slot) => {
                        slot.insert(value);
                    }
                    serde_json::map::Entry::Occupied(mut slot) => {
                        slot.insert(value);
                        let name = slot.key().clone();
                        self.report(&name);
                    }
                }
            }
        }
        match self.expect_token()? {
            b',' => self.at = self.at.saturating_add(1),
            b'}' => {
                self.at = self.at.saturating_add(1);
                return self.close().map(Placed::Within);
            }
            other => return Err(unexpected(other, "after object key:value pair")),
        }
        self.key().map(Placed::Within)
    }

    /// Notes that the innermost object has this key twice.
    fn report(&mut self, key: &str) {
        if self.duplicates.len() >= MAX_DUPLICATES {
            return;
        }
        let mut path = String::new();
        let enclosing = self.open.len().saturating_sub(1);
        for frame in self.open.iter().take(enclosing) {
            match frame {
                JsonFrame::List(items) => path.push_str(&format!("[{}]", items.len())),
                JsonFrame::Object(_, key) => append_field(&mut path, key),
            }
        }
        append_field(&mut path, key);
        if self.seen.insert(path.clone()) {
            self.duplicates.push(path);
        }
    }

    fn literal(&mut self, word: &'static str, value: Value) -> Result<ExpectedToken, JsonError> {
        for expected in word.bytes() {
            match self.input.get(self.at) {
                None => return Err(JsonError::UnexpectedEnd),
                Some(&byte) if byte == expected => self.at = self.at.saturating_add(1),
                Some(&byte) => return Err(unexpected(byte, literal_place(word, expected))),
            }
        }
        Ok(ExpectedToken::Complete(value))
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let (length, is_integer) = number::scan(self.input.get(self.at..).unwrap_or_default())?;
        let digits = self
            .input
            .get(self.at..self.at.saturating_add(length))
            .unwrap_or_default();
        self.at = self.at.saturating_add(length);
        let digits = std::str::from_utf8(digits).expect("digits are ASCII");
        number::parse(digits, is_integer)
    }

    /// Reads a string whose opening quote is next.
    fn string(&mut self) -> Result<String, JsonError> {
        let start = self.at.saturating_add(1);
        let body = self.input.get(start..).unwrap_or_default();
        let plain = text::plain_length(body);
        if body.get(plain) == Some(&b'"')
            && let Some(value) = self
                .valid
                .and_then(|valid| valid.get(start..start.saturating_add(plain)))
        {
            self.at = start.saturating_add(plain).saturating_add(1);
            return Ok(value.to_owned());
        }
        let (value, length) = text::read(body)?;
        self.at = self.at.saturating_add(length).saturating_add(1);
        Ok(value)
    }
}

enum Placed {
    Within(ExpectedToken),
    Top(Value),
}

fn append_field(path: &mut String, field: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(field);
}

fn literal_place(word: &str, expected: u8) -> &'static str {
    match (word, expected) {
        ("true", b'r') => "in literal true (expecting 'r')",
        ("true", b'u') => "in literal true (expecting 'u')",
        ("true", _) => "in literal true (expecting 'e')",
        ("false", b'a') => "in literal false (expecting 'a')",
        ("false", b'l') => "in literal false (expecting 'l')",
        ("false", b's') => "in literal false (expecting 's')",
        ("false", _) => "in literal false (expecting 'e')",
        (_, b'u') => "in literal null (expecting 'u')",
        _ => "in literal null (expecting 'l')",
    }
}

/// The error for a byte out of place; the byte stands for the character of that number, as Go prints it.
pub(super) fn unexpected(byte: u8, place: &'static str) -> JsonError {
    let character = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        _ => {
            let quoted = crate::go_text::quote(char::from(byte).encode_utf8(&mut [0; 4]));
            format!("'{}'", quoted.trim_matches('"'))
        }
    };
    JsonError::Unexpected { character, place }
}
