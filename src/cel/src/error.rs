//! Errors of expressions as cel-go prints them: with the line and a mark below the place.

use std::fmt;

/// The most issues that are printed.
const MAX_PRINTED: usize = 100;

/// An issue at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// From 1.
    pub line: usize,
    /// Characters before the place in its line; none if the issue is not at a place.
    pub column: Option<usize>,
    /// The message.
    pub text: String,
}

impl Issue {
    /// An issue at a byte of the expression.
    pub(crate) fn at_offset(expression: &str, offset: usize, text: String) -> Self {
        let before = expression.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: Some(before.get(line_start..).unwrap_or_default().chars().count()),
            text,
        }
    }
}

/// The errors of an expression that does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    expression: String,
    issues: Vec<Issue>,
}

impl CompileError {
    /// Issues in the order of their places.
    pub(crate) fn new(expression: &str, mut issues: Vec<Issue>) -> Self {
        issues.sort_by_key(|issue| (issue.line, issue.column));
        Self {
            expression: expression.to_owned(),
            issues,
        }
    }

    /// An issue of the expression as a whole.
    pub(crate) fn whole(expression: &str, text: String) -> Self {
        let issue = Issue {
            line: 0,
            column: None,
            text,
        };
        Self::new(expression, vec![issue])
    }

    /// The single issues.
    pub fn issues(&self) -> &[Issue] {
        &self.issues
    }
}

impl std::error::Error for CompileError {}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().take(MAX_PRINTED).enumerate() {
            f.write_str(if index > 0 { "\n" } else { "" })?;
            write_issue(f, issue, &self.expression)?;
        }
        match self.issues.len().saturating_sub(MAX_PRINTED) {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

fn write_issue(f: &mut fmt::Formatter<'_>, issue: &Issue, expression: &str) -> fmt::Result {
    if issue.line == 0 {
        return write!(f, "ERROR: <input>:-1:0: {}", issue.text);
    }
    let shown_column = issue.column.map_or(0, |column| column + 1);
    write!(f, "ERROR: <input>:{}:{shown_column}: {}", issue.line, issue.text)?;
    let line = expression.split('\n').nth(issue.line - 1).unwrap_or_default();
    let (Some(column), false) = (issue.column, expression.is_empty()) else {
        return Ok(());
    };
    let line = line.replace('\t', " ");
    write!(f, "\n | {line}\n | ")?;
    let mut characters = line.chars();
    for character in characters.by_ref().take(column) {
        f.write_str(if character.is_ascii() { "." } else { "\u{ff0e}" })?;
    }
    let is_wide = characters.next().is_some_and(|character| !character.is_ascii());
    f.write_str(if is_wide { "\u{ff3e}" } else { "^" })
}
