//! Names of variables and fields.

use std::borrow::Cow;

/// Words that cannot name a variable.
pub(super) const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Tells names that a variable can have: identifiers that are neither reserved nor literals or operators.
pub fn is_identifier(name: &str) -> bool {
    let begins = name.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic());
    let goes_on = name
        .chars()
        .all(|letter| letter == '_' || letter.is_ascii_alphanumeric());
    begins && goes_on && !is_reserved(name)
}

/// Returns true for the words that cannot name a variable, and for which fields have escapes.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || ["true", "false", "null", "in"].contains(&name)
}

/// The escapes for characters of property names that identifiers in CEL cannot have.
const ESCAPES: [(&str, &str); 4] = [
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
];

/// The name by which expressions know a property; none if they cannot speak of it.
pub fn escape_field(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if let Some((plain, escape)) = ESCAPES.iter().find(|(plain, _)| rest.starts_with(plain)) {
            escaped.push_str(escape);
            rest = rest.get(plain.len()..)?;
        } else if next == '_' || next.is_ascii_alphanumeric() {
            escaped.push(next);
            rest = rest.get(1..)?;
        } else {
            return None;
        }
    }
    Some(if escaped == name { name.into() } else { escaped.into() })
}

/// The property that expressions know by a name; none if there can be no such property.
pub fn unescape_field(name: &str) -> Option<Cow<'_, str>> {
    let mut property = String::with_capacity(name.len());
    let mut rest = name;
    while let Some((before, marked)) = rest.split_once("__") {
        let Some((mark, after)) = marked.split_once("__") else {
            break;
        };
        property.push_str(before);
        let escape = ESCAPES.iter().find(|(_, escape)| escape.trim_matches('_') == mark);
        match escape {
            Some((plain, _)) => property.push_str(plain),
            None if is_reserved(mark) && name.len() == mark.len().saturating_add(4) => property.push_str(mark),
            None => return None,
        }
        rest = after;
    }
    if rest.len() == name.len() {
        return Some(name.into());
    }
    property.push_str(rest);
    Some(property.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_have_names_that_expressions_can_spell() {
        for (property, name) in [
            ("replicas", "replicas"),
            ("_a_b", "_a_b"),
            ("namespace", "__namespace__"),
            ("in", "__in__"),
            ("int", "int"),
            ("my-name.io/x", "my__dash__name__dot__io__slash__x"),
            ("a__b", "a__underscores__b"),
            ("a___b", "a__underscores___b"),
            ("x-y-", "x__dash__y__dash__"),
        ] {
            assert_eq!(escape_field(property).as_deref(), Some(name), "{property}");
            assert_eq!(unescape_field(name).as_deref(), Some(property), "{name}");
        }
        for property in ["", "1st", "@type", "a b", "ü", "$ref"] {
            assert_eq!(escape_field(property), None, "{property}");
        }
        for name in ["__zzz__", "a__namespace__", "__dot__b__zzz__"] {
            assert_eq!(unescape_field(name), None, "{name}");
        }
    }
}
