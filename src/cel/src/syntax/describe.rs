//! Syntax errors in the words of cel-go, whose grammar and messages the `cel` crate has.
//!
//! That parser goes down into an expression with large steps and can fail on what it does not expect, so it is asked
//! about small expressions alone, and only about those that are known to be wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cel::parser::Parser;

use crate::error::{CompileError, Issue};

/// The most characters, and the deepest brackets, of an expression that the other parser is asked about.
const MAX_BYTES: usize = 4_096;
const MAX_BRACKETS: usize = 8;
/// Operators make its tree deeper too.
const MAX_OPERATORS: usize = 48;

/// The errors of a source that is no expression; `text` at `offset` is what our own parser says.
pub(crate) fn describe(source: &str, offset: usize, text: String) -> CompileError {
    let described = is_small(source).then(|| in_words_of_cel(source)).flatten();
    described.unwrap_or_else(|| CompileError::new(source, vec![Issue::at_offset(source, offset, text)]))
}

fn is_small(source: &str) -> bool {
    let (mut depth, mut deepest, mut operators) = (0_usize, 0, 0_usize);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                depth = depth.saturating_add(1);
                deepest = deepest.max(depth);
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'?' => {
                operators = operators.saturating_add(1);
            }
            _ => {}
        }
    }
    source.len() <= MAX_BYTES && deepest <= MAX_BRACKETS && operators <= MAX_OPERATORS
}

fn in_words_of_cel(source: &str) -> Option<CompileError> {
    let parser = || {
        Parser::new()
            .max_recursion_depth(250)
            .enable_optional_syntax(true)
            .enable_ident_escape_syntax(true)
            .parse(source)
    };
    // A failure of that parser is none of ours: the source is known to be wrong.
    let errors = catch_unwind(AssertUnwindSafe(parser)).ok()?.err()?.errors;
    let is_syntax = |text: &str| text.starts_with("Syntax error");
    let is_reserved = |text: &str| text.starts_with("reserved identifier");
    // Beside errors of the syntax its others are only consequences, but for names in what could be parsed.
    let has_syntax = errors.iter().any(|error| is_syntax(&error.msg));
    let told = errors
        .into_iter()
        .filter(|error| !has_syntax || is_syntax(&error.msg) || is_reserved(&error.msg));
    let issues = told.map(|error| Issue {
        line: usize::try_from(error.pos.0).unwrap_or(0),
        // cel-go gives the end of an empty expression the place before its first character.
        column: usize::try_from(error.pos.1.saturating_sub(1))
            .ok()
            .filter(|_| !source.is_empty()),
        text: end_alone(error.msg),
    });
    Some(CompileError::new(source, issues.collect()))
}

/// The text without what else may stand where an expression may end: cel-go names the end alone.
fn end_alone(text: String) -> String {
    match text.split_once("expecting {<EOF>,") {
        Some((what, _)) => format!("{what}expecting <EOF>"),
        None => text,
    }
}
