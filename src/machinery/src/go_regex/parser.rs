//! Reads a pattern from left to right and writes it for the `regex` crate as it goes (`parse` in Go's `regexp/syntax`).

#![cfg_attr(not(test), warn(clippy::indexing_slicing, clippy::arithmetic_side_effects))]

use std::fmt::Write as _;

use super::{
    RegexError, RegexErrorKind, before, class,
    escapes::{self, Rune, first, push_literal},
    shape::{Joined, MAX_REPEAT, NodeForm, NodeMeasure, Repetition},
    unicode,
};

/// Translates a pattern.
///
/// # Errors
/// If Go would refuse it.
pub(super) fn translate(pattern: &str) -> Result<String, RegexError> {
    let mut parser = PatternParser {
        whole: pattern,
        rest: pattern,
        out: String::with_capacity(pattern.len()),
        flags: RegexFlags::default(),
        group: GroupContent::new(),
        open: Vec::new(),
    };
    let mut last_repetition = None;
    while let Some((next, after)) = first(parser.rest) {
        let here = parser.rest;
        let is_repetition = parser.step(next, after, last_repetition)?;
        last_repetition = is_repetition.then_some(here);
    }
    parser.end_branch()?;
    let shape = parser.group.branches.shape();
    parser.check(shape)?;
    if parser.open.is_empty() {
        return Ok(parser.out);
    }
    Err(RegexError::new(RegexErrorKind::MissingParenthesis, pattern))
}

/// The flags that hold from here to the end of the group.
#[derive(Debug, Clone, Copy, Default)]
struct RegexFlags {
    /// `i`
    folds_case: bool,
    /// `m`
    is_multi_line: bool,
    /// `s`
    dot_takes_newline: bool,
    /// `U`
    is_lazy: bool,
}

impl RegexFlags {
    /// Sets the flag of a letter; returns false if there is none.
    fn set(&mut self, letter: char, value: bool) -> bool {
        let flag = match letter {
            'i' => &mut self.folds_case,
            'm' => &mut self.is_multi_line,
            's' => &mut self.dot_takes_newline,
            'U' => &mut self.is_lazy,
            _ => return false,
        };
        *flag = value;
        true
    }
}

/// The part of a pattern that a repetition after it repeats.
#[derive(Debug, Clone, Copy)]
struct RepetitionOperand {
    shape: NodeMeasure,
    /// Where its text begins.
    start: usize,
    /// It ends in a repetition, to which another would be added.
    is_repetition: bool,
}

/// The content of a group, as far as it has been read.
#[derive(Debug)]
struct GroupContent {
    branches: Joined,
    /// The branch that is being read, without its last operand.
    branch: Joined,
    last: Option<RepetitionOperand>,
}

impl GroupContent {
    fn new() -> Self {
        Self {
            branches: Joined::new(NodeForm::Alternation),
            branch: Joined::new(NodeForm::Concatenation),
            last: None,
        }
    }
}

/// A group that surrounds the one that is being read.
#[derive(Debug)]
struct OpenGroup {
    group: GroupContent,
    /// The flags that hold again after the inner group.
    flags: RegexFlags,
    /// Where the text of the inner group begins.
    start: usize,
    captures: bool,
}

struct PatternParser<'p> {
    whole: &'p str,
    rest: &'p str,
    out: String,
    flags: RegexFlags,
    group: GroupContent,
    open: Vec<OpenGroup>,
}

impl<'p> PatternParser<'p> {
    /// Reads what begins with this character; returns true if it was a repetition.
    fn step(&mut self, next: char, after: &'p str, last_repetition: Option<&'p str>) -> Result<bool, RegexError> {
        let here = self.rest;
        self.rest = after;
        match next {
            '(' if after.starts_with('?') => self.flags_or_group(here)?,
            '(' => self.open_group(true)?,
            '|' => self.end_branch().map(|()| self.out.push('|'))?,
            ')' => self.close_group()?,
            '^' => self.leaf(if self.flags.is_multi_line { "(?m:^)" } else { r"\A" })?,
            '$' => self.leaf(if self.flags.is_multi_line { "(?m:$)" } else { r"\z" })?,
            '.' => self.leaf(if self.flags.dot_takes_newline { "(?s:.)" } else { "." })?,
            '[' => {
                let (class, rest) = class::class(here)?;
                self.rest = rest;
                self.class(&class)?;
            }
            '*' | '+' | '?' => {
                self.repeat(simple_repetition(next), here, last_repetition)?;
                return Ok(true);
            }
            '{' => return self.counted_or_brace(here, last_repetition),
            '\\' => self.escape(here)?,
            _ => self.literal(next.into())?,
        }
        Ok(false)
    }

    fn check(&self, shape: NodeMeasure) -> Result<(), RegexError> {
        shape.check().map_err(|kind| RegexError::new(kind, self.whole))
    }

    /// Takes in what was written last as an operand.
    fn push(&mut self, shape: NodeMeasure, start: usize) -> Result<(), RegexError> {
        let operand = RepetitionOperand {
            shape,
            start,
            is_repetition: false,
        };
        if let Some(last) = self.group.last.replace(operand) {
            self.group.branch.push(last.shape);
        }
        self.check(shape)
    }

    fn leaf(&mut self, text: &str) -> Result<(), RegexError> {
        let start = self.out.len();
        self.out.push_str(text);
        self.push(NodeMeasure::leaf(NodeForm::Other), start)
    }

    fn class(&mut self, class: &str) -> Result<(), RegexError> {
        if self.flags.folds_case {
            return self.leaf(&format!("(?i:{class})"));
        }
        self.leaf(class)
    }

    fn literal(&mut self, rune: Rune) -> Result<(), RegexError> {
        let start = self.out.len();
        let form = if self.flags.folds_case {
            NodeForm::FoldedLiteral
        } else {
            NodeForm::Literal
        };
        if char::from_u32(rune).is_none() {
            self.out.push_str(unicode::NOTHING);
        } else if self.flags.folds_case {
            self.out.push_str("(?i:");
            push_literal(&mut self.out, rune);
            self.out.push(')');
        } else {
            push_literal(&mut self.out, rune);
        }
        self.push(NodeMeasure::leaf(form), start)
    }

    fn open_group(&mut self, captures: bool) -> Result<(), RegexError> {
        self.open.push(OpenGroup {
            group: std::mem::replace(&mut self.group, GroupContent::new()),
            flags: self.flags,
            start: self.out.len(),
            captures,
        });
        self.out.push_str("(?:");
        Ok(())
    }

    fn end_branch(&mut self) -> Result<(), RegexError> {
        let group = &mut self.group;
        if let Some(last) = group.last.take() {
            group.branch.push(last.shape);
        }
        let branch = std::mem::replace(&mut group.branch, Joined::new(NodeForm::Concatenation)).shape();
        group.branches.push(branch);
        self.check(branch)
    }

    fn close_group(&mut self) -> Result<(), RegexError> {
        self.end_branch()?;
        let inner = self.group.branches.shape();
        self.check(inner)?;
        let Some(outer) = self.open.pop() else {
            return Err(RegexError::new(RegexErrorKind::UnexpectedParenthesis, self.whole));
        };
        self.out.push(')');
        self.flags = outer.flags;
        self.group = outer.group;
        let shape = if outer.captures { inner.captured() } else { inner };
        self.push(shape, outer.start)
    }

    /// Reads what begins with `(?`: a group with a name, or flags, with a group after them or without.
    fn flags_or_group(&mut self, here: &'p str) -> Result<(), RegexError> {
        let inner = here.strip_prefix("(?").unwrap_or(here);
        let named = inner.strip_prefix("P<").or_else(|| inner.strip_prefix('<'));
        // Go looks for a name only if something follows.
        if let Some(named) = named.filter(|named| !named.is_empty()) {
            return self.named_group(here, named);
        }
        let mut flags = self.flags;
        let mut value = true;
        let mut has_flag = false;
        let mut rest = inner;
        while let Some((letter, after)) = first(rest) {
            rest = after;
            match letter {
                '-' if value => (value, has_flag) = (false, false),
                ':' | ')' if value || has_flag => {
                    self.rest = rest;
                    if letter == ':' {
                        self.open_group(false)?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ if flags.set(letter, value) => has_flag = true,
                _ => break,
            }
        }
        Err(RegexError::new(RegexErrorKind::PerlSyntax, before(here, rest)))
    }

    fn named_group(&mut self, here: &'p str, named: &'p str) -> Result<(), RegexError> {
        let error = |part| RegexError::new(RegexErrorKind::NamedCapture, part);
        let (name, rest) = named.split_once('>').ok_or_else(|| error(here))?;
        let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric();
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(error(before(here, rest)));
        }
        self.rest = rest;
        self.open_group(true)
    }

    fn counted_or_brace(&mut self, here: &'p str, last_repetition: Option<&'p str>) -> Result<bool, RegexError> {
        let Some((repetition, rest)) = counted_repetition(self.rest) else {
            return self.literal('{'.into()).map(|()| false);
        };
        let Repetition { min, max, .. } = repetition;
        if min.max(max.unwrap_or(0)) > MAX_REPEAT || max.is_some_and(|max| min > max) {
            return Err(RegexError::new(RegexErrorKind::RepeatCount, before(here, rest)));
        }
        self.rest = rest;
        self.repeat(repetition, here, last_repetition)?;
        Ok(true)
    }

    /// Repeats the last operand. `here` is the text from the operator on, which has been read; `last` the same of an operator
    /// directly before.
    fn repeat(&mut self, repetition: Repetition, here: &'p str, last: Option<&'p str>) -> Result<(), RegexError> {
        let mut is_lazy = self.flags.is_lazy;
        if let Some(rest) = self.rest.strip_prefix('?') {
            self.rest = rest;
            is_lazy = !is_lazy;
        }
        let error = |kind, from| Err(RegexError::new(kind, before(from, self.rest)));
        if let Some(last) = last {
            return error(RegexErrorKind::NestedRepetition, last);
        }
        let Some(operand) = self.group.last.as_mut() else {
            return error(RegexErrorKind::MissingArgument, here);
        };
        if operand.is_repetition {
            self.out.insert_str(operand.start, "(?:");
            self.out.push(')');
        }
        operand.shape = operand.shape.repeated(repetition);
        operand.is_repetition = true;
        let shape = operand.shape;
        write_repetition(&mut self.out, repetition, is_lazy);
        self.check(shape)?;
        let is_many = repetition.is_counted && repetition.min.max(repetition.max.unwrap_or(0)) >= 2;
        if is_many && shape.repeats_too_often() {
            return Err(RegexError::new(RegexErrorKind::RepeatCount, before(here, self.rest)));
        }
        Ok(())
    }

    /// Reads what begins with a backslash.
    fn escape(&mut self, here: &'p str) -> Result<(), RegexError> {
        if let Some((letter, rest)) = first(self.rest) {
            let assertion = match letter {
                'A' => r"\A",
                'z' => r"\z",
                'b' => r"(?-u:\b)",
                'B' => r"(?-u:\B)",
                'C' => return Err(RegexError::new(RegexErrorKind::Escape, before(here, rest))),
                'Q' => return self.quoted(rest),
                _ => "",
            };
            if !assertion.is_empty() {
                self.rest = rest;
                return self.leaf(assertion);
            }
        }
        if let Some((class, rest)) = unicode::class_escape(here)? {
            self.rest = rest;
            return self.class(&class);
        }
        if let Some((class, rest)) = escapes::perl_class(here) {
            self.rest = rest;
            return self.class(class);
        }
        let (rune, rest) = escapes::escaped(here)?;
        self.rest = rest;
        self.literal(rune)
    }

    /// Reads up to `\E`, where everything stands for itself.
    fn quoted(&mut self, text: &'p str) -> Result<(), RegexError> {
        let (quoted, rest) = text.split_once(r"\E").unwrap_or((text, ""));
        self.rest = rest;
        quoted.chars().try_for_each(|c| self.literal(c.into()))
    }
}

fn simple_repetition(operator: char) -> Repetition {
    Repetition {
        min: u32::from(operator == '+'),
        max: (operator == '?').then_some(1),
        is_counted: false,
    }
}

/// Reads `n}`, `n,}` or `n,m}`; anything else leaves the brace before it a character like others.
fn counted_repetition(text: &str) -> Option<(Repetition, &str)> {
    let (min, rest) = count(text)?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (Some(min), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => count(rest).map(|(max, rest)| (Some(max), rest))?,
    };
    let rest = rest.strip_prefix('}')?;
    let is_counted = true;
    Some((Repetition { min, max, is_counted }, rest))
}

/// Reads digits that do not begin with a zero. What is too large for a number is too large for a count.
fn count(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().unwrap_or(u32::MAX), rest))
}

fn write_repetition(out: &mut String, repetition: Repetition, is_lazy: bool) {
    let Repetition { min, max, is_counted } = repetition;
    // Writing to a string does not fail.
    _ = match (is_counted, min, max) {
        (false, 0, None) => write!(out, "*"),
        (false, _, None) => write!(out, "+"),
        (false, _, Some(_)) => write!(out, "?"),
        (true, _, None) => write!(out, "{{{min},}}"),
        (true, _, Some(max)) => write!(out, "{{{min},{max}}}"),
    };
    if is_lazy {
        out.push('?');
    }
}
