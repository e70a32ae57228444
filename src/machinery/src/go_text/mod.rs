//! Text as Go and the libraries of kube-apiserver print it: the only home of such text.
//!
//! Messages of kube-apiserver quote values, name types and pass on errors of Go's standard library. Clients show these
//! messages, and tests of others compare them, so they are part of the API in practice.
//!
//! | here | imitates |
//! | --- | --- |
//! | [`quote`] | `%q` |
//! | [`go_map`] | `%v` of decoded JSON |
//! | [`kind_name`], [`number_name`] | the values that `encoding/json` could not put into a field |
//! | [`converted_name`] | the same of apimachinery's converter of unstructured objects |
//! | [`parse_int`], [`parse_uint`], [`atoi`], [`parse_error`] | `strconv` and its errors |
//! | [`structs`] | structs of Go's internal types as JSON |
//! | [`diff`] | `k8s.io/apimachinery/pkg/util/diff` |
//!
//! Limits: `%q` escapes control characters but not other characters that Go does not call printable; `%v` knows values that
//! came from JSON only; a struct prints the fields that its kind describes. The names of the types behind fields are data of
//! the [`schema`](crate::schema), and formats that are read back (durations, times, quantities) belong to their types. The
//! module knows no kinds and depends on nothing else of this crate but its values.

pub mod diff;
mod numbers;
pub mod structs;
mod values;

pub use numbers::{atoi, parse_error, parse_int, parse_uint};
pub(crate) use numbers::{general_float, go_float};
pub(crate) use values::go_type;
pub use values::{converted_name, go_map, kind_name, number_name};

/// Several errors as Go's aggregate shows them: each text once. Nothing if there are none.
pub fn aggregate_errors(errors: &[String]) -> Option<String> {
    let mut texts: Vec<&str> = Vec::new();
    for error in errors {
        if !texts.contains(&error.as_str()) {
            texts.push(error);
        }
    }
    match texts.as_slice() {
        [] => None,
        [one] => Some((*one).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// A string in double quotes as Go's `time` package has it: what is not plain ASCII is shown byte by byte.
pub fn quote_bytes(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=b'~' | 0x7f => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}

/// Reports whether Go prints a character as it is: blanks other than the plain one, marks of formats and what is not
/// assigned are escaped.
fn is_printable(c: char) -> bool {
    // Behind another character a combining one is not escaped for being the first.
    c.is_ascii_graphic() || c == ' ' || format!("a{c}").escape_debug().nth(1) == Some(c)
}

/// A string in double quotes with Go's `%q` escapes.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() && c.is_ascii() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if is_printable(c) => out.push(c),
            c if u32::from(c) > 0xffff => out.push_str(&format!("\\U{:08x}", u32::from(c))),
            c => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_shows_what_go_can_print() {
        for (text, quoted) in [
            ("a b", r#""a b""#),
            ("a\"\\\n\u{1}\u{7f}", r#""a\"\\\n\x01\x7f""#),
            ("éЖ\u{301}漢", "\"éЖ\u{301}漢\""),
            ("\u{301}", "\"\u{301}\""),
            (
                "\u{85}\u{a0}\u{ad}\u{2028}\u{3000}",
                r#""\u0085\u00a0\u00ad\u2028\u3000""#,
            ),
            ("\u{e000}\u{e0001}😀", "\"\\ue000\\U000e0001😀\""),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }
}
