//! The meaning of `${…}` in a case, so that big and binary inputs can be written in a line.
//!
//! | written | means |
//! | --- | --- |
//! | `${"a\r\n"}` | the text of a JSON string |
//! | `${repeat("[", 1500)}` | a text, so many times |
//! | `${each(3, "k#: v\n")}` | a text for each number from 0, which stands for `#` |
//! | `${hex("00ff")}` | these bytes |
//! | `${name}` | what the test has set for this name |

use std::collections::BTreeMap;

/// Variables of the test, by name.
pub(super) type Variables = BTreeMap<String, String>;

/// Makes the bytes that a text stands for.
///
/// # Errors
/// If what stands between `${` and `}` is none of the above.
pub(super) fn expand(text: &str, variables: &Variables) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        out.extend_from_slice(before.as_bytes());
        rest = term(after, variables, &mut out).ok_or_else(|| format!("not understood: ${{{after}"))?;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

/// Appends what one term means; gives back what follows its brace.
fn term<'a>(text: &'a str, variables: &Variables, out: &mut Vec<u8>) -> Option<&'a str> {
    if text.starts_with('"') {
        let (plain, rest) = string(text)?;
        out.extend_from_slice(plain.as_bytes());
        return rest.strip_prefix('}');
    }
    if let Some(rest) = text.strip_prefix("repeat(") {
        let (plain, rest) = string(rest)?;
        let (count, rest) = number(rest.strip_prefix(',')?)?;
        out.extend(plain.as_bytes().repeat(count));
        return rest.strip_prefix(")}");
    }
    if let Some(rest) = text.strip_prefix("each(") {
        let (count, rest) = number(rest)?;
        let (plain, rest) = string(rest.strip_prefix(',')?.trim_start())?;
        for index in 0..count {
            out.extend_from_slice(plain.replace('#', &index.to_string()).as_bytes());
        }
        return rest.strip_prefix(")}");
    }
    if let Some(rest) = text.strip_prefix("hex(") {
        let (digits, rest) = string(rest)?;
        for pair in digits.as_bytes().chunks(2) {
            out.push(u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?);
        }
        return rest.strip_prefix(")}");
    }
    let (name, rest) = text.split_once('}')?;
    out.extend_from_slice(variables.get(name)?.as_bytes());
    Some(rest)
}

/// A JSON string at the beginning of a text, and what follows it.
fn string(text: &str) -> Option<(String, &str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    let rest = text.get(values.byte_offset()..)?;
    Some((value, rest))
}

fn number(text: &str) -> Option<(usize, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text.get(..end)?.parse().ok()?, text.get(end..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[u8]) {
        let variables = BTreeMap::from([("token".to_owned(), "abc".to_owned())]);
        assert_eq!(expand(text, &variables).as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn terms_make_bytes() {
        check("plain", b"plain");
        check(r#"a${"\r\n}"}b"#, b"a\r\n}b");
        check(r#"${repeat("{\"a\":", 2)}1"#, b"{\"a\":{\"a\":1");
        check(r#"${each(3, "k#;")}"#, b"k0;k1;k2;");
        check(r#"<${hex("00fF")}>"#, b"<\x00\xff>");
        check("${token}${token}", b"abcabc");
    }

    #[test]
    fn errors_are_reported() {
        for text in ["${unknown}", "${repeat(\"a\")}", "${\"a}", "${hex(\"xy\")}", "${"] {
            assert!(expand(text, &BTreeMap::new()).is_err(), "{text}");
        }
    }
}
