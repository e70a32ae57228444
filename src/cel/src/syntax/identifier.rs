//! Names of variables.

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
    begins && goes_on && !RESERVED.contains(&name) && !["true", "false", "null", "in"].contains(&name)
}
