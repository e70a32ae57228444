//! Answers for people: indented JSON.

use crate::query::Query;

use super::accept::asks_for_pretty;

/// Reports whether the client wants indented JSON: it says so, or it is one that people look at.
pub(crate) fn wants_pretty(query: &Query, accept: Option<&str>, user_agent: Option<&str>) -> bool {
    if accept.is_some_and(asks_for_pretty) {
        return true;
    }
    match query.get("pretty").filter(|text| !text.is_empty()) {
        Some(text) => matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => user_agent.is_some_and(|agent| ["curl", "Wget", "Mozilla/5.0"].iter().any(|p| agent.starts_with(p))),
    }
}

/// Indents compact JSON by two spaces a level, as Go's `MarshalIndent` does.
pub(crate) fn indent(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len().saturating_mul(2));
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut bytes = json.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if in_string {
            out.push(byte);
            in_string = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                out.push(byte);
            }
            b'{' | b'[' => {
                out.push(byte);
                if let Some(close) = bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    out.push(close);
                } else {
                    depth = depth.saturating_add(1);
                    new_line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                new_line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b' ' | b'\n' | b'\r' | b'\t' => {}
            other => out.push(other),
        }
    }
    out
}

fn new_line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.extend(std::iter::repeat_n(b' ', depth.saturating_mul(2)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn indented_json_reads_as_serde_would_write_it() {
        let value = json!({"a": [1, {"b": "x,{\"y\\"}], "c": {}, "d": [], "e": null, "f": "\\", "g": [[]]});
        let compact = value.to_string();
        let pretty = serde_json::to_string_pretty(&value).expect("values can be written");
        assert_eq!(String::from_utf8(indent(compact.as_bytes())).ok(), Some(pretty));
    }

    #[test]
    fn people_get_indented_answers() {
        let pretty = |query, agent| wants_pretty(&Query::parse(Some(query)).expect("is in order"), None, agent);
        assert!(pretty("", Some("curl/8.1")));
        assert!(pretty("pretty=true", Some("kubectl/v1")));
        assert!(!pretty("pretty=false", Some("curl/8.1")));
        assert!(!pretty("", Some("kubectl/v1")));
        assert!(pretty("pretty=T", None));
        assert!(!pretty("pretty=bogus", Some("curl/8.1")));
        assert!(pretty("pretty=", Some("curl/8.1")));
        assert!(!pretty("", None));
    }

    #[test]
    fn a_media_type_can_ask_for_indented_answers() {
        let pretty = |accept, query| wants_pretty(&Query::parse(Some(query)).expect("is in order"), Some(accept), None);
        assert!(pretty("application/json;pretty=1", ""));
        assert!(pretty("text/html, application/json; pretty=1", "pretty=false"));
        assert!(pretty("application/yaml;q=0.5, application/json; pretty=1", ""));
        assert!(
            !pretty("application/json, application/*;pretty=1", ""),
            "another clause is taken"
        );
        assert!(!pretty("application/json;pretty=true", ""));
        assert!(!pretty("application/json", ""));
    }
}
