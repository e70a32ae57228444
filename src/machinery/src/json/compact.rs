//! A document without the spaces between its parts.

/// The text of a document as Go embeds it in another one (`json.RawMessage` in `json.Marshal`): no spaces between tokens, and
/// `<`, `>` and `&` escaped. The order of keys and the form of numbers stay. What is no JSON has some text, too.
pub fn compact(document: &str) -> String {
    let mut text = String::with_capacity(document.len());
    let (mut in_string, mut is_escaped) = (false, false);
    for character in document.chars() {
        match character {
            ' ' | '\t' | '\r' | '\n' if !in_string => continue,
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            other => text.push(other),
        }
        if character == '"' && !is_escaped {
            in_string = !in_string;
        }
        is_escaped = in_string && character == '\\' && !is_escaped;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_go_between_tokens_only() {
        let document = "[{\"op\": \"add\",\n\t\"path\" : \"/a b\", \"value\": [1.50, \"x \\\" y\", \"\\\\\", {}]}]\r\n";
        let expected = r#"[{"op":"add","path":"/a b","value":[1.50,"x \" y","\\",{}]}]"#;
        assert_eq!(compact(document), expected);
        assert_eq!(compact("\"a<b> & \u{2028}\""), r#""a\u003cb\u003e \u0026 \u2028""#);
    }
}
