//! What is wrong with an expression, told as cel-go tells it: with the line and a mark below the place.

use std::fmt;

use ::cel::ParseErrors;

/// The most faults that are told.
const MAX_TOLD: usize = 100;

/// A fault at a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// Characters before the place in its line; none if the fault is not at a place.
    pub column: Option<usize>,
    /// What is wrong there.
    pub text: String,
}

impl Fault {
    /// A fault at a byte of the expression.
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

/// Why an expression does not compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    expression: String,
    faults: Vec<Fault>,
}

impl CompileError {
    /// Faults in the order of their places.
    pub(crate) fn new(expression: &str, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| (fault.line, fault.column));
        Self {
            expression: expression.to_owned(),
            faults,
        }
    }

    /// A fault of the expression as a whole.
    pub(crate) fn whole(expression: &str, text: String) -> Self {
        let fault = Fault {
            line: 0,
            column: None,
            text,
        };
        Self::new(expression, vec![fault])
    }

    /// What the parser found. Beside faults of the syntax its others are only consequences.
    pub(crate) fn of_parser(expression: &str, errors: ParseErrors) -> Self {
        let is_syntax = |text: &str| text.starts_with("Syntax error");
        let has_syntax = errors.errors.iter().any(|error| is_syntax(&error.msg));
        let told = errors
            .errors
            .into_iter()
            .filter(|error| !has_syntax || is_syntax(&error.msg));
        let faults = told.map(|error| Fault {
            line: usize::try_from(error.pos.0).unwrap_or(0),
            // cel-go gives the end of an empty expression the place before its first character.
            column: usize::try_from(error.pos.1 - 1).ok().filter(|_| !expression.is_empty()),
            text: error.msg,
        });
        Self::new(expression, faults.collect())
    }

    /// The single faults.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }
}

impl std::error::Error for CompileError {}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().take(MAX_TOLD).enumerate() {
            f.write_str(if index > 0 { "\n" } else { "" })?;
            write_fault(f, fault, &self.expression)?;
        }
        match self.faults.len().saturating_sub(MAX_TOLD) {
            0 => Ok(()),
            more => write!(f, "\n{more} more errors were truncated"),
        }
    }
}

fn write_fault(f: &mut fmt::Formatter<'_>, fault: &Fault, expression: &str) -> fmt::Result {
    if fault.line == 0 {
        return write!(f, "ERROR: <input>:-1:0: {}", fault.text);
    }
    let shown_column = fault.column.map_or(0, |column| column + 1);
    write!(f, "ERROR: <input>:{}:{shown_column}: {}", fault.line, fault.text)?;
    let line = expression.split('\n').nth(fault.line - 1).unwrap_or_default();
    let (Some(column), false) = (fault.column, expression.is_empty()) else {
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
