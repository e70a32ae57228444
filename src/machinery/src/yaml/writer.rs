//! Text output with columns: scalars in each style, folded at the preferred width.

use super::analysis::{is_break, is_printable};

/// Lines are folded at the first space beyond this column.
const PREFERRED_WIDTH: usize = 80;

/// The text so far, and where in its line it ends.
#[derive(Default)]
pub(super) struct YamlWriter {
    pub(super) out: String,
    column: usize,
    /// The last character separates: a space, a line break.
    spaced: bool,
    /// Nothing but indentation and list dashes stands in this line.
    indenting: bool,
}

impl YamlWriter {
    pub(super) fn new() -> Self {
        Self {
            spaced: true,
            indenting: true,
            ..Self::default()
        }
    }

    fn put(&mut self, c: char) {
        self.out.push(c);
        self.column = self.column.saturating_add(1);
    }

    fn line_break(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    /// Begins a line with this indentation, if the present one cannot be used.
    pub(super) fn indent(&mut self, indent: usize) {
        if !self.indenting || self.column > indent || (self.column == indent && !self.spaced) {
            self.line_break();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.spaced = true;
        self.indenting = true;
    }

    fn separate(&mut self) {
        if !self.spaced {
            self.put(' ');
        }
    }

    fn end_token(&mut self) {
        self.spaced = false;
        self.indenting = false;
    }

    /// Writes `-`, `?`, or the `:` after a `?`, after which the node may begin in the same line.
    pub(super) fn block_indicator(&mut self, indicator: char) {
        self.separate();
        self.put(indicator);
        self.spaced = false;
    }

    /// Writes the colon after a key.
    pub(super) fn colon(&mut self) {
        self.put(':');
        self.end_token();
    }

    /// Writes text that needs no style: a number, `null`, `{}`.
    pub(super) fn word(&mut self, text: &str) {
        self.separate();
        text.chars().for_each(|c| self.put(c));
        self.end_token();
    }

    pub(super) fn plain(&mut self, text: &str, indent: usize, fold: bool) {
        self.separate();
        let mut spaces = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let next_is_space = chars.peek() == Some(&' ');
            if c == ' ' && fold && !spaces && self.column > PREFERRED_WIDTH && !next_is_space {
                self.indent(indent);
            } else {
                self.put(c);
                self.indenting = self.indenting && c == ' ';
            }
            spaces = c == ' ';
        }
        self.end_token();
    }

    pub(super) fn single_quoted(&mut self, text: &str, indent: usize, fold: bool) {
        self.separate();
        self.put('\'');
        self.end_token();
        let mut spaces = false;
        let mut chars = text.chars().enumerate().peekable();
        while let Some((at, c)) = chars.next() {
            let inside = at > 0 && chars.peek().is_some_and(|(_, next)| *next != ' ');
            if c == ' ' && fold && !spaces && self.column > PREFERRED_WIDTH && inside {
                self.indent(indent);
            } else {
                if c == '\'' {
                    self.put(c);
                }
                self.put(c);
                self.indenting = false;
            }
            spaces = c == ' ';
        }
        self.put('\'');
        self.end_token();
    }

    pub(super) fn double_quoted(&mut self, text: &str, indent: usize, fold: bool) {
        self.separate();
        self.put('"');
        self.end_token();
        let mut spaces = false;
        let mut chars = text.chars().enumerate().peekable();
        while let Some((at, c)) = chars.next() {
            if !is_printable(c) || is_break(c) || c == '"' || c == '\\' {
                escape(c).chars().for_each(|c| self.put(c));
            } else if c == ' ' && fold && !spaces && self.column > PREFERRED_WIDTH && at > 0 && chars.peek().is_some() {
                self.indent(indent);
                if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                    self.put('\\');
                }
            } else {
                self.put(c);
                self.indenting = false;
            }
            spaces = c == ' ';
        }
        self.put('"');
        self.end_token();
    }

    /// Writes lines as they stand, after `|` and, where the first begins with a space, `step`.
    pub(super) fn literal(&mut self, text: &str, indent: usize, step: usize) {
        self.separate();
        self.put('|');
        if text.starts_with([' ', '\n']) {
            self.out.push_str(&step.to_string());
        }
        if !text.ends_with('\n') {
            self.put('-');
        } else if text == "\n" || text.ends_with("\n\n") {
            self.put('+');
        }
        self.line_break();
        self.spaced = true;
        self.indenting = true;
        let mut fresh = true;
        for c in text.chars() {
            if c == '\n' {
                self.line_break();
                self.indenting = true;
                fresh = true;
                continue;
            }
            if fresh {
                self.indent(indent);
            }
            self.put(c);
            self.indenting = false;
            fresh = false;
        }
        self.spaced = fresh;
    }
}

fn escape(c: char) -> String {
    let letter = match c {
        '\0' => '0',
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        '"' | '\\' => c,
        '\u{85}' => 'N',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let code = u32::from(c);
            return match code {
                0..=0xFF => format!("\\x{code:02X}"),
                0x100..=0xFFFF => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
        }
    };
    format!("\\{letter}")
}
