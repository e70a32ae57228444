//! Which styles a text can be written in.

/// The styles that the characters of a text allow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Analysis {
    pub(super) multiline: bool,
    pub(super) plain: bool,
    pub(super) single_quoted: bool,
    pub(super) literal: bool,
}

/// The spaces and line breaks of a text.
#[derive(Default)]
struct Spacing {
    space_at_start: bool,
    break_at_start: bool,
    space_at_end: bool,
    break_at_end: bool,
    space_after_break: bool,
    break_after_space: bool,
    any_break: bool,
}

/// Looks at the text as the value of a block collection or a key in one.
pub(super) fn analyse(text: &str) -> Analysis {
    if text.is_empty() {
        return Analysis {
            multiline: false,
            plain: true,
            single_quoted: true,
            literal: false,
        };
    }
    let spacing = spacing(text);
    let printable = text.chars().all(is_printable);
    let at_edge = spacing.space_at_start || spacing.break_at_start || spacing.space_at_end || spacing.break_at_end;
    let quotable = !spacing.space_after_break && !spacing.break_after_space && printable;
    Analysis {
        multiline: spacing.any_break,
        plain: quotable && !at_edge && !spacing.any_break && !has_indicators(text),
        single_quoted: quotable && !text.contains(['\u{2028}', '\u{2029}']),
        literal: printable && !spacing.space_at_end && !spacing.break_after_space,
    }
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Characters that are written as they stand; the rest needs escapes.
pub(super) fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

fn spacing(text: &str) -> Spacing {
    let first = text.chars().next().unwrap_or_default();
    let last = text.chars().next_back().unwrap_or_default();
    let pairs = || text.chars().zip(text.chars().skip(1));
    Spacing {
        space_at_start: first == ' ',
        break_at_start: is_break(first),
        space_at_end: last == ' ',
        break_at_end: is_break(last),
        space_after_break: pairs().any(|(a, b)| is_break(a) && b == ' '),
        break_after_space: pairs().any(|(a, b)| a == ' ' && is_break(b)),
        any_break: text.chars().any(is_break),
    }
}

/// Returns true if the text would be read as more than a plain scalar.
fn has_indicators(text: &str) -> bool {
    if text.starts_with("---") || text.starts_with("...") {
        return true;
    }
    let mut before = ' ';
    let mut chars = text.chars().peekable();
    let mut first = true;
    while let Some(c) = chars.next() {
        let blank_follows = chars.peek().is_none_or(|&next| is_blank(next) || is_break(next));
        let indicates = match c {
            '#' => is_blank(before),
            ':' => blank_follows,
            ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => first,
            '?' | '-' => first && blank_follows,
            _ => false,
        };
        if indicates {
            return true;
        }
        before = c;
        first = false;
    }
    false
}

fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}
