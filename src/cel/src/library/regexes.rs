//! Regular expressions in RE2's syntax, matched in linear time.

use trireme_machinery::go_regex::{GoRegex, RegexError};

use super::{CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, no_overload};
use crate::{meter::EvalError, value::Value};

pub(super) const TABLE: &[FunctionRow] = &[
    ("matches", MEMBER, Cost::Pattern, matches),
    // cel-go tracks the cost of the other form only.
    ("matches", GLOBAL, Cost::Fixed(1), matches),
    ("find", MEMBER, Cost::Pattern, |args, context| match args {
        [Value::String(text), Value::String(pattern)] => {
            let found = with_pattern(pattern.as_str(), ILLEGAL, context, |regex| {
                regex.find(text.as_str()).unwrap_or_default().to_owned()
            })?;
            Ok(Value::text(found))
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
        let found = with_pattern(pattern.as_str(), ILLEGAL, context, |regex| {
            regex.find_all(text.as_str()).take(limit).map(Value::text).collect()
        })?;
        Ok(Value::list(found))
    }),
];

/// The words that `find` and `findAll` put before the error of a pattern.
const ILLEGAL: &str = "Illegal regex: ";
/// The most memory that a pattern takes that an evaluation compiles as it likes.
const SMALL_PATTERN_BYTES: usize = 1024 * 1024;
/// The steps of work that a larger one counts as: an evaluation has few of them.
const LARGE_PATTERN_WORK: u64 = 2_000_000;

fn matches<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::String(text), Value::String(pattern)] => with_pattern(pattern.as_str(), "", context, |regex| {
            Value::Bool(regex.is_match(text.as_str()))
        }),
        _ => no_overload("matches", args),
    }
}

/// Calls a function with a pattern, which is compiled unless it is written out. `prefix` is put before the error.
fn with_pattern<T>(
    pattern: &str,
    prefix: &str,
    context: &mut CallContext<'_, '_>,
    f: impl FnOnce(&GoRegex) -> T,
) -> Result<T, EvalError> {
    if let Some(regex) = context.pattern {
        return Ok(f(regex));
    }
    let mut compiled = GoRegex::within(pattern, SMALL_PATTERN_BYTES);
    if compiled.as_ref().is_err_and(RegexError::is_large) {
        context.meter.work(LARGE_PATTERN_WORK)?;
        compiled = GoRegex::new(pattern);
    }
    match compiled {
        Ok(regex) => Ok(f(&regex)),
        Err(error) => Err(EvalError::failed(format!("{prefix}{error}"))),
    }
}
