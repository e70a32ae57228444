//! Text (cel-go's `ext.Strings`, version 2). Positions count characters.

use super::{CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, no_overload};
use crate::{
    meter::{EvalError, MAX_TEXT_BYTES},
    value::Value,
};

mod clauses;
mod floats;
mod formatting;

pub(crate) use clauses::{FormatClause, FormatPiece, FormatPieces, no_argument};

pub(super) const TABLE: &[FunctionRow] = &[
    ("contains", MEMBER, Cost::Product, |args, _| {
        truth("contains", args, |text, other| text.contains(other))
    }),
    ("startsWith", MEMBER, Cost::Traversal(1), |args, _| {
        truth("startsWith", args, |text, other| text.starts_with(other))
    }),
    ("endsWith", MEMBER, Cost::Traversal(1), |args, _| {
        truth("endsWith", args, |text, other| text.ends_with(other))
    }),
    ("charAt", MEMBER, Cost::Fixed(1), char_at),
    ("indexOf", MEMBER, Cost::Elements, |args, context| {
        position("indexOf", args, context, false)
    }),
    ("lastIndexOf", MEMBER, Cost::Elements, |args, context| {
        position("lastIndexOf", args, context, true)
    }),
    ("join", MEMBER, Cost::Fixed(0), join),
    ("strings.quote", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => {
            bounded(text.as_str().len() * 4)?;
            Ok(Value::text(quote(text.as_str())))
        }
        _ => no_overload("strings.quote", args),
    }),
    ("format", MEMBER, Cost::Traversal(1), |args, context| match args {
        [Value::String(text), Value::List(values)] => {
            formatting::format(text.as_str(), values, context).map(Value::text)
        }
        _ => no_overload("format", args),
    }),
    ("replace", MEMBER, Cost::Traversal(2), replace),
    ("split", MEMBER, Cost::Traversal(2), split),
    ("substring", MEMBER, Cost::Traversal(1), substring),
    ("trim", MEMBER, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => Ok(Value::text(text.as_str().trim())),
        _ => no_overload("trim", args),
    }),
    ("lowerAscii", MEMBER, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => Ok(Value::text(text.as_str().to_ascii_lowercase())),
        _ => no_overload("lowerAscii", args),
    }),
    ("upperAscii", MEMBER, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => Ok(Value::text(text.as_str().to_ascii_uppercase())),
        _ => no_overload("upperAscii", args),
    }),
];

/// Refuses to make more text than an evaluation may.
pub(super) const fn bounded(bytes: usize) -> Result<(), EvalError> {
    if bytes > MAX_TEXT_BYTES {
        return Err(EvalError::CostLimitExceeded);
    }
    Ok(())
}

fn truth<'v>(name: &str, args: &[Value<'v>], holds: fn(&str, &str) -> bool) -> FunctionResult<'v> {
    match args {
        [Value::String(text), Value::String(other)] => Ok(Value::Bool(holds(text.as_str(), other.as_str()))),
        _ => no_overload(name, args),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::failed(format!("index out of range: {index}"))
}

/// The byte at which a character begins; the end counts as one.
fn byte_of(text: &str, index: i64) -> Result<usize, EvalError> {
    let characters = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.nth(characters).ok_or_else(|| out_of_range(index))
}

fn char_at<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::String(text), Value::Int(index)] => {
            let rest = text.as_str().get(byte_of(text.as_str(), *index)?..).unwrap_or_default();
            Ok(Value::text(rest.chars().next().map(String::from).unwrap_or_default()))
        }
        _ => no_overload("charAt", args),
    }
}

/// The position of text in text, or of an item in a list; -1 if it is not there.
fn position<'v>(name: &str, args: &[Value<'v>], context: &mut CallContext<'v, '_>, last: bool) -> FunctionResult<'v> {
    let position = match args {
        [Value::List(list), item] => {
            let mut found = None;
            for (index, other) in list.iter().enumerate() {
                if other.equals(item, context.environment, context.meter)? {
                    found = Some(index);
                    if !last {
                        break;
                    }
                }
            }
            found
        }
        [Value::String(text), Value::String(part)] => {
            let (text, part) = (text.as_str(), part.as_str());
            let at = if last { text.rfind(part) } else { text.find(part) };
            at.map(|at| text.get(..at).unwrap_or_default().chars().count())
        }
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            return position_from(text.as_str(), part.as_str(), *offset, last).map(Value::Int);
        }
        _ => return no_overload(name, args),
    };
    Ok(Value::Int(
        position.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)),
    ))
}

/// The position of text in text from an offset on, or the last one up to it; -1 if it is not there. The empty text is found
/// at every offset, even one that text does not have.
fn position_from(text: &str, part: &str, offset: i64, last: bool) -> Result<i64, EvalError> {
    if part.is_empty() {
        return Ok(offset);
    }
    let first = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let Some((from, _)) = text.char_indices().nth(first) else {
        return Ok(-1);
    };
    let at = if last {
        let starts = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= from);
        starts
            .filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(part)))
            .last()
    } else {
        text.get(from..).and_then(|rest| rest.find(part)).map(|at| at + from)
    };
    let position = at.map(|at| text.get(..at).unwrap_or_default().chars().count());
    Ok(position.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)))
}

fn join<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator.as_str()),
        _ => return no_overload("join", args),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        context.meter.work(1)?;
        let text = item.as_str().ok_or(EvalError::fixed("no such overload"))?;
        bounded(joined.len() + separator.len() + text.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    let joined = crate::value::Text::Shared(joined.into());
    context.meter.charge_traversal(joined.characters() as u64 * 2)?;
    Ok(Value::String(joined))
}

fn replace<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let (text, from, to, limit) = match args {
        [Value::String(text), Value::String(from), Value::String(to)] => (text, from, to, -1),
        [
            Value::String(text),
            Value::String(from),
            Value::String(to),
            Value::Int(limit),
        ] => (text, from, to, *limit),
        _ => return no_overload("replace", args),
    };
    let (text, from, to) = (text.as_str(), from.as_str(), to.as_str());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(from).take(limit).count();
    bounded(text.len().saturating_add(count.saturating_mul(to.len())))?;
    Ok(Value::text(text.replacen(from, to, limit)))
}

fn split<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return no_overload("split", args),
    };
    let (text, separator) = (text.as_str(), separator.as_str());
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<Value<'v>> = match (limit, separator) {
        (0, _) => Vec::new(),
        (limit, "") => characters(text, limit).into_iter().map(Value::text).collect(),
        (limit, separator) => text.splitn(limit, separator).map(Value::text).collect(),
    };
    Ok(Value::list(parts))
}

/// At most so many characters, the last with all that follows.
fn characters(text: &str, limit: usize) -> Vec<&str> {
    let mut starts: Vec<usize> = text.char_indices().map(|(at, _)| at).take(limit).collect();
    starts.push(text.len());
    starts
        .windows(2)
        .filter_map(|pair| text.get(pair[0]..pair[1]))
        .collect()
}

fn substring<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::String(text), Value::Int(start)] => {
            let from = byte_of(text.as_str(), *start)?;
            Ok(Value::text(text.as_str().get(from..).unwrap_or_default()))
        }
        [Value::String(text), Value::Int(start), Value::Int(end)] => {
            if start > end {
                let text = format!("invalid substring range. start: {start}, end: {end}");
                return Err(EvalError::failed(text));
            }
            let (from, to) = (byte_of(text.as_str(), *start)?, byte_of(text.as_str(), *end)?);
            Ok(Value::text(text.as_str().get(from..to).unwrap_or_default()))
        }
        _ => no_overload("substring", args),
    }
}

/// Text as a literal of CEL.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
