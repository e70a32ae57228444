//! `format`: clauses as C has them.

use super::{super::show, bounded};
use crate::{
    library::CallContext,
    meter::EvalError,
    value::{List, Map, Value},
};

/// Fills the clauses of a text with values.
pub(super) fn format(text: &str, values: &List<'_>, context: &mut CallContext<'_, '_>) -> Result<String, EvalError> {
    let mut written = String::new();
    let (mut rest, mut next) = (text, 0);
    while let Some(at) = rest.find('%') {
        written.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix('%') {
            written.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = precision(rest)?;
        let verb = after
            .chars()
            .next()
            .ok_or_else(|| invalid("unexpected end of string"))?;
        rest = after.get(verb.len_utf8()..).unwrap_or_default();
        let value = values
            .get(next)
            .ok_or_else(|| invalid(&format!("index {next} out of range")))?;
        next += 1;
        clause(&mut written, verb, precision, &value, context)?;
        bounded(written.len())?;
    }
    written.push_str(rest);
    Ok(written)
}

fn invalid(reason: &str) -> EvalError {
    EvalError::failed(format!("could not parse formatting string: {reason}"))
}

fn failed(reason: &str) -> EvalError {
    EvalError::failed(format!("error during formatting: {reason}"))
}

/// The decimals that a clause asks for.
fn precision(text: &str) -> Result<(Option<usize>, &str), EvalError> {
    let Some(digits) = text.strip_prefix('.') else {
        return Ok((None, text));
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let (number, rest) = digits.split_at(end);
    let number: usize = number.parse().map_err(|_| invalid("error while parsing precision"))?;
    match number <= 1_000 {
        true => Ok((Some(number), rest)),
        false => Err(invalid("precision is too large")),
    }
}

fn clause(
    written: &mut String,
    verb: char,
    precision: Option<usize>,
    value: &Value<'_>,
    context: &mut CallContext<'_, '_>,
) -> Result<(), EvalError> {
    let decimals = precision.unwrap_or(6);
    let text = match (verb, value) {
        ('s', value) => return text_of(written, value, context),
        ('d', Value::Int(value)) => value.to_string(),
        ('d', Value::Uint(value)) => value.to_string(),
        ('d' | 'f' | 'e', Value::Double(value)) if !value.is_finite() => match value.is_nan() {
            true => "NaN".to_owned(),
            false => if *value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        },
        ('f', Value::Double(value)) => format!("{value:.decimals$}"),
        ('f', Value::Int(value)) => format!("{:.decimals$}", *value as f64),
        ('f', Value::Uint(value)) => format!("{:.decimals$}", *value as f64),
        ('e', Value::Double(value)) => {
            let text = format!("{value:.decimals$e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let number: i32 = exponent.parse().unwrap_or(0);
            format!(
                "{digits}e{}{:02}",
                if number < 0 { '-' } else { '+' },
                number.unsigned_abs()
            )
        }
        ('b', Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:b}")),
        ('b', Value::Uint(value)) => format!("{value:b}"),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('o', Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:o}")),
        ('o', Value::Uint(value)) => format!("{value:o}"),
        ('x', Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:x}")),
        ('x', Value::Uint(value)) => format!("{value:x}"),
        ('X', Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:X}")),
        ('X', Value::Uint(value)) => format!("{value:X}"),
        ('x', Value::String(text)) => hex(text.as_str().as_bytes()),
        ('X', Value::String(text)) => hex(text.as_str().as_bytes()).to_ascii_uppercase(),
        ('x', Value::Bytes(bytes)) => hex(bytes),
        ('X', Value::Bytes(bytes)) => hex(bytes).to_ascii_uppercase(),
        ('d' | 'f' | 'e' | 'b' | 'o' | 'x' | 'X', other) => {
            let kind = other.kind_name();
            return Err(failed(&format!("no formatting function for %{verb} of type {kind}")));
        }
        _ => return Err(invalid(&format!("unrecognized formatting clause \"{verb}\""))),
    };
    written.push_str(&text);
    Ok(())
}

fn signed(value: i64, digits: fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", digits(value.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value of any type; what it holds is shown too.
fn text_of(written: &mut String, value: &Value<'_>, context: &mut CallContext<'_, '_>) -> Result<(), EvalError> {
    context.meter.work(1)?;
    bounded(written.len())?;
    match value {
        Value::List(list) => {
            written.push('[');
            for (index, item) in list.iter().enumerate() {
                written.push_str(if index > 0 { ", " } else { "" });
                text_of(written, &item, context)?;
            }
            written.push(']');
        }
        Value::Map(Map::Json(fields, _)) => {
            written.push('{');
            for (index, (key, value)) in fields.iter().enumerate() {
                written.push_str(if index > 0 { ", " } else { "" });
                written.push_str(key);
                written.push_str(": ");
                text_of(written, &Value::from_json(value), context)?;
            }
            written.push('}');
        }
        Value::Map(Map::Made(fields)) => {
            written.push('{');
            for (index, (key, value)) in fields.entries.iter().enumerate() {
                written.push_str(if index > 0 { ", " } else { "" });
                written.push_str(&show::display(&key.value()));
                written.push_str(": ");
                text_of(written, value, context)?;
            }
            written.push('}');
        }
        other => written.push_str(&show::display(other)),
    }
    Ok(())
}
