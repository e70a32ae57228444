//! The body of an answer as it is compared: JSON or text, whole or by lines.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::http::{Answer, Body};

/// The tables whose columns are as wide as their widest cell, which depends on what else the server does.
const PADDED_TABLES: &str = "/debug/api_priority_and_fairness/";

/// Parses a body; if lines were asked for, that of an error into lines too. The columns of a dump of priority and fairness are
/// recorded with one blank between them.
pub(super) fn parsed(answer: &Answer, request: &str, as_lines: bool) -> Value {
    let is_padded = request.contains(PADDED_TABLES);
    let parse = |text: &str| {
        serde_json::from_str(text).unwrap_or_else(|_| match is_padded {
            true => Value::String(without_padding(text)),
            false => Value::String(text.to_owned()),
        })
    };
    match &answer.body {
        Body::Whole(bytes) if as_lines => String::from_utf8_lossy(bytes)
            .split_inclusive('\n')
            .map(parse)
            .collect(),
        Body::Whole(bytes) => parse(&String::from_utf8_lossy(bytes)),
        Body::Lines(lines) => lines.iter().map(|line| parse(line)).collect(),
    }
}

fn without_padding(table: &str) -> String {
    static PADDING: LazyLock<Regex> = LazyLock::new(|| Regex::new(", +").expect("a valid pattern"));
    PADDING.replace_all(table, ", ").into_owned()
}

#[cfg(test)]
mod tests {
    use super::without_padding;

    #[test]
    fn columns_are_one_blank_apart() {
        assert_eq!(
            without_padding("Name,    Index,x\nsystem,  1, a b\n"),
            "Name, Index,x\nsystem, 1, a b\n"
        );
    }
}
