//! Regular expressions in RE2's syntax, matched in linear time.

use regex::{Regex, RegexBuilder};

use super::{CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, no_overload};
use crate::{meter::EvalError, value::Value};

pub(super) const TABLE: &[FunctionRow] = &[
    ("matches", MEMBER, Cost::Pattern, matches),
    // cel-go tracks the cost of the other form only.
    ("matches", GLOBAL, Cost::Fixed(1), matches),
    ("find", MEMBER, Cost::Pattern, |args, context| match args {
        [Value::String(text), Value::String(pattern)] => {
            let found = with_pattern(pattern.as_str(), context, |regex| {
                regex.find(text.as_str()).map(|found| found.as_str().to_owned())
            })?;
            Ok(Value::text(found.unwrap_or_default()))
        }
        _ => no_overload("find", args),
    }),
    ("findAll", MEMBER, Cost::Pattern, |args, context| {
        let (text, pattern, limit) = match args {
            [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
            [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
            _ => return no_overload("findAll", args),
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let found = with_pattern(pattern.as_str(), context, |regex| {
            let found = regex.find_iter(text.as_str()).take(limit);
            found.map(|found| Value::text(found.as_str())).collect()
        })?;
        Ok(Value::list(found))
    }),
];

/// The most memory that a compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

fn matches<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::String(text), Value::String(pattern)] => with_pattern(pattern.as_str(), context, |regex| {
            Value::Bool(regex.is_match(text.as_str()))
        }),
        _ => no_overload("matches", args),
    }
}

fn with_pattern<T>(pattern: &str, context: &CallContext<'_, '_>, f: impl FnOnce(&Regex) -> T) -> Result<T, EvalError> {
    match context.pattern {
        Some(regex) => Ok(f(regex)),
        None => compile(pattern).map(|regex| f(&regex)),
    }
}

/// Compiles a pattern.
///
/// # Errors
/// If it is none.
pub(crate) fn compile(pattern: &str) -> Result<Regex, EvalError> {
    let translated = translate(pattern);
    let mut builder = RegexBuilder::new(&translated);
    builder.size_limit(MAX_PATTERN_BYTES).nest_limit(250);
    builder
        .build()
        .map_err(|_| EvalError::failed(format!("error parsing regexp: invalid pattern: `{pattern}`")))
}

/// Rewrites syntax that RE2 reads otherwise: its classes are of ASCII, and `\Q…\E` quotes.
fn translate(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len());
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(character) = rest.chars().next() {
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
        match character {
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            '\\' => {
                let Some(escaped) = rest.chars().next() else {
                    translated.push('\\');
                    break;
                };
                rest = rest.get(escaped.len_utf8()..).unwrap_or_default();
                if escaped == 'Q' {
                    let (quoted, after) = rest.split_once("\\E").unwrap_or((rest, ""));
                    translated.push_str(&regex::escape(quoted));
                    rest = after;
                } else {
                    push_escape(&mut translated, escaped);
                }
                continue;
            }
            _ => {}
        }
        translated.push(character);
    }
    translated
}

fn push_escape(translated: &mut String, escaped: char) {
    match escaped {
        'd' => translated.push_str("[0-9]"),
        'D' => translated.push_str("[^0-9]"),
        'w' => translated.push_str("[0-9A-Za-z_]"),
        'W' => translated.push_str("[^0-9A-Za-z_]"),
        's' => translated.push_str("[\\t\\n\\x0C\\r ]"),
        'S' => translated.push_str("[^\\t\\n\\x0C\\r ]"),
        'b' => translated.push_str("(?-u:\\b)"),
        other => {
            translated.push('\\');
            translated.push(other);
        }
    }
}
