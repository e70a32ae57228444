//! Documents that are JSON, which is what most clients send as YAML: read as JSON, where both languages give the same value.
//!
//! That takes a small part of the time of a YAML parser. Whatever may differ is left to that: floating-point numbers, raw
//! control characters and tabs, line separators, surrogates, repeated keys, and all that is no JSON, whose errors are YAML's.

use serde_json::Value;

use crate::json::{self, DecodedDocument};

/// The depth up to which documents are read here; what may nest deeper is YAML's to say.
const MAX_FLOW_DEPTH: usize = 100;

/// The document; nothing if it is not certain that YAML has the same value for it.
pub(super) fn decode(text: &str) -> Option<DecodedDocument> {
    let text = text.trim_end_matches([' ', '\n']);
    if !text.starts_with('{') || !is_alike(text) {
        return None;
    }
    let decoded = json::decode(text.as_bytes()).ok()?;
    (decoded.duplicates.is_empty() && has_alike_values(&decoded.value, MAX_FLOW_DEPTH)).then_some(decoded)
}

/// True if all characters and escapes stand for the same in both languages.
fn is_alike(text: &str) -> bool {
    let is_plain = text
        .bytes()
        .fold(true, |all, byte| all & (byte >= b' ') & (byte != 0x7f));
    is_plain && (text.is_ascii() || !text.chars().any(is_special)) && has_alike_escapes(text.as_bytes())
}

/// Control characters, line separators, byte order marks and what is no character.
fn is_special(c: char) -> bool {
    matches!(
        c,
        '\u{80}'..='\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

fn has_alike_escapes(mut rest: &[u8]) -> bool {
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        rest = match rest.get(at..) {
            Some([_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', after @ ..]) => after,
            Some([_, b'u', a, b, c, d, after @ ..]) if is_printable_ascii([*a, *b, *c, *d]) => after,
            _ => return false,
        };
    }
    true
}

/// True if the hexadecimal digits of an escape stand for a character that both languages take as it is.
fn is_printable_ascii(digits: [u8; 4]) -> bool {
    std::str::from_utf8(&digits)
        .ok()
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .is_some_and(|code| (0x20..0x7f).contains(&code))
}

fn has_alike_values(value: &Value, depth: usize) -> bool {
    let inner_depth = depth.checked_sub(1);
    match value {
        Value::Number(number) => !number.is_f64(),
        Value::Array(items) => inner_depth.is_some_and(|depth| items.iter().all(|item| has_alike_values(item, depth))),
        Value::Object(fields) => {
            inner_depth.is_some_and(|depth| fields.values().all(|field| has_alike_values(field, depth)))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection, prelude::*};
    use serde_json::json;

    use super::{super::load::Loader, *};

    fn by_yaml(text: &str) -> DecodedDocument {
        Loader::default().run(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn text() -> impl Strategy<Value = String> {
        let odd = proptest::sample::select(vec![
            "",
            "<<",
            "~",
            "null",
            "yes",
            "0x1",
            "1e3",
            " a ",
            "a: b",
            "- a",
            "#",
            "# a",
            "a #b",
            "&a",
            "*a",
            "!!str",
            "%",
            "|",
            "{",
            "}",
            "[,]",
            "'",
            "\"",
            "\\",
            "\\u0026",
            "/",
            "a\nb",
            "\t",
            "\r",
            "\u{8}",
            "\u{c}",
            "é",
            "\u{1f600}",
            "---",
            "...",
            "?",
            ": ",
            ",",
            "\u{3000}",
        ]);
        prop_oneof![odd.prop_map(str::to_owned), "[ -~]{0,12}"]
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-9_i64..10).prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 6, |inner| {
            let fields = collection::btree_map(text(), inner.clone(), 0..6);
            prop_oneof![
                collection::vec(inner, 0..6).prop_map(Value::from),
                fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn json_is_read_as_yaml_reads_it(value in value(), escapes_html: bool) {
            let mut text = json!({ "value": value }).to_string();
            if escapes_html {
                text = text.replace('<', "\\u003c").replace('&', "\\u0026");
            }
            let read = decode(&text);
            prop_assert!(read.is_some(), "{}", text);
            prop_assert_eq!(read, Some(by_yaml(&text)), "{}", text);
        }
    }

    #[test]
    fn what_yaml_may_read_otherwise_is_left_to_it() {
        for text in [
            "{\"a\":1.0}",
            "{\"a\":1e3}",
            "{\"a\":18446744073709551616}",
            "{\"a\":\"\\ud83d\\ude00\"}",
            "{\"a\":\"\\u0000\"}",
            "{\"a\":\"\u{2028}\"}",
            "{\"a\":\"\u{7f}\"}",
            "{\"a\":1,\"a\":2}",
            "{\t\"a\":1}",
            "{\n\"a\":1}",
            "{\"a\":1}\n---\n{}",
            "{a: 1}",
            "[1]",
            "",
            "{\"a\":\"\\x41\"}",
        ] {
            assert_eq!(decode(text), None, "{text:?}");
        }
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert!(decode(&nested(99)).is_some());
        assert!(decode(&nested(100)).is_none());
        assert!(decode("{\"a\":\"b\"} \n\n").is_some());
    }
}
