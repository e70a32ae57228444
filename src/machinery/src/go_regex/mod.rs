//! Regular expressions as Go's `regexp` package reads them: RE2's syntax with Perl's flags.
//!
//! Whatever compiles a pattern of a user calls [`GoRegex::new`]: patterns in schemas, functions of CEL, allowed origins. A pattern
//! is parsed as `regexp/syntax` parses it, with its limits and its texts for errors, and written anew for the `regex` crate, with no
//! flag, escape or operator left that the two read differently.
//!
//! Limits: groups only group, as no caller asks for submatches. Names of scripts are those of Unicode 15 as in Go 1.26, while
//! the characters in a class are those of the Unicode version of the `regex` crate. A pattern may nest 100 repetitions, branches
//! and sequences deep, where Go allows 1,000. Go allows 128 MiB for what is compiled, which is reached at other patterns here,
//! because characters are compiled to the bytes of UTF-8.

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

mod class;
mod escapes;
mod parser;
mod shape;
#[cfg(test)]
mod tests;
mod unicode;

use regex::{Regex, RegexBuilder};

/// The most memory that a compiled pattern takes if nobody says otherwise: 500 times a letter of any script.
pub const DEFAULT_MAX_BYTES: usize = 32 * 1024 * 1024;
/// The deepest nesting that the `regex` crate is to parse. The parser here refuses before that is reached.
const NEST_LIMIT: u32 = 4 * shape::MAX_HEIGHT;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub struct GoRegex(Regex);

impl GoRegex {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If Go would refuse it, or if it takes more than [`DEFAULT_MAX_BYTES`].
    pub fn new(pattern: &str) -> Result<Self, RegexError> {
        Self::within(pattern, DEFAULT_MAX_BYTES)
    }

    /// Compiles a pattern that may take this much memory.
    ///
    /// # Errors
    /// If Go would refuse it, or if it takes more.
    pub fn within(pattern: &str, max_bytes: usize) -> Result<Self, RegexError> {
        let translated = parser::translate(pattern)?;
        let mut builder = RegexBuilder::new(&translated);
        let compiled = builder.size_limit(max_bytes).nest_limit(NEST_LIMIT).build();
        // The text is well-formed: it can only be too large.
        compiled
            .map(Self)
            .map_err(|_| RegexError::new(RegexErrorKind::Large, pattern))
    }

    /// Returns true if the pattern matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The first match.
    pub fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.find(text).map(|found| found.as_str())
    }

    /// All matches from left to right that do not overlap.
    pub fn find_all<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        self.0.find_iter(text).map(|found| found.as_str())
    }
}

/// The reason why a text is no pattern, with the part that is wrong. Prints as Go's error does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {kind}: `{expression}`")]
pub struct RegexError {
    kind: RegexErrorKind,
    expression: String,
}

impl RegexError {
    /// Returns true if the text is a pattern that would take too much memory.
    pub fn is_large(&self) -> bool {
        self.kind == RegexErrorKind::Large
    }

    fn new(kind: RegexErrorKind, expression: &str) -> Self {
        Self {
            kind,
            expression: expression.to_owned(),
        }
    }
}

/// Go's kinds of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum RegexErrorKind {
    #[error("invalid character class range")]
    ClassRange,
    #[error("invalid escape sequence")]
    Escape,
    #[error("invalid named capture")]
    NamedCapture,
    #[error("invalid or unsupported Perl syntax")]
    PerlSyntax,
    #[error("invalid nested repetition operator")]
    NestedRepetition,
    #[error("invalid repeat count")]
    RepeatCount,
    #[error("missing closing ]")]
    MissingBracket,
    #[error("missing closing )")]
    MissingParenthesis,
    #[error("missing argument to repetition operator")]
    MissingArgument,
    #[error("trailing backslash at end of expression")]
    TrailingBackslash,
    #[error("unexpected )")]
    UnexpectedParenthesis,
    #[error("expression nests too deeply")]
    Depth,
    #[error("expression too large")]
    Large,
}

/// The part of a text that ends where the rest of it begins.
fn before<'t>(text: &'t str, rest: &str) -> &'t str {
    text.get(..text.len().saturating_sub(rest.len())).unwrap_or(text)
}
