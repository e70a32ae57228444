//! `format`, as cel-go has it in versions 1 to 3 of its library of strings. Lists and maps are shown as expressions
//! write them, with their texts in quotes.

use trireme_machinery::go_text;

use super::{
    super::show,
    bounded,
    clauses::{FormatClause, FormatPiece, FormatPieces, no_argument},
    floats,
};
use crate::{
    environment::VARIABLES,
    library::CallContext,
    meter::EvalError,
    syntax::escape_field,
    types::Type,
    value::{List, Map, MapKey, Text, Value},
};

/// Fills the clauses of a text with values.
pub(super) fn format<'v>(
    text: &str,
    values: &List<'v>,
    context: &mut CallContext<'v, '_>,
) -> Result<String, EvalError> {
    let mut written = String::new();
    let mut pieces = FormatPieces::new(text);
    let mut next = 0;
    while let Some(piece) = pieces.next() {
        match piece {
            FormatPiece::Text(text) => written.push_str(text),
            FormatPiece::Percent => {
                let value = values.get(next).ok_or_else(|| EvalError::failed(no_argument(next)))?;
                pieces.expect_clause().map_err(EvalError::failed)?;
                let clause = pieces.clause().map_err(EvalError::failed)?;
                next += 1;
                write_clause(&mut written, clause, &value, context)?;
            }
        }
        bounded(written.len())?;
    }
    Ok(written)
}

fn write_clause<'v>(
    written: &mut String,
    clause: FormatClause,
    value: &Value<'v>,
    context: &mut CallContext<'v, '_>,
) -> Result<(), EvalError> {
    let text = match (clause, value) {
        (FormatClause::String, value) => return write_text(written, value, context),
        (FormatClause::Decimal, Value::Int(value)) => value.to_string(),
        (FormatClause::Decimal, Value::Uint(value)) => value.to_string(),
        (FormatClause::Fixed(precision), value) => floats::fixed(float(clause, value)?, precision)?,
        (FormatClause::Scientific(width), value) => floats::scientific(float(clause, value)?, width),
        (FormatClause::Binary, Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:b}")),
        (FormatClause::Binary, Value::Uint(value)) => format!("{value:b}"),
        (FormatClause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (FormatClause::Octal, Value::Int(value)) => signed(*value, |magnitude| format!("{magnitude:o}")),
        (FormatClause::Octal, Value::Uint(value)) => format!("{value:o}"),
        (FormatClause::Hex(capital), value) => {
            let digits = hex(value).ok_or_else(|| mismatch(clause, value))?;
            if capital { digits.to_ascii_uppercase() } else { digits }
        }
        _ => return Err(mismatch(clause, value)),
    };
    written.push_str(&text);
    Ok(())
}

fn mismatch(clause: FormatClause, value: &Value<'_>) -> EvalError {
    EvalError::failed(clause.mismatch(&type_name(value)))
}

/// The name of a value's type.
fn type_name(value: &Value<'_>) -> String {
    match value {
        Value::Map(map) if is_map(map) => "map".to_owned(),
        Value::Map(Map::Lazy(_)) => VARIABLES.to_owned(),
        other => other.kind_name(),
    }
}

/// Tells maps from objects that were made. An object that is JSON is a map, whatever it is declared as.
fn is_map(map: &Map<'_>) -> bool {
    match map {
        Map::Json(..) => true,
        Map::Made(_) => map.name().is_none(),
        Map::Lazy(_) => false,
    }
}

/// A double, or the text of one that is not finite.
fn float(clause: FormatClause, value: &Value<'_>) -> Result<f64, EvalError> {
    match (value, value.as_str()) {
        (Value::Double(value), _) => Ok(*value),
        (_, Some("NaN")) => Ok(f64::NAN),
        (_, Some("Infinity")) => Ok(f64::INFINITY),
        (_, Some("-Infinity")) => Ok(f64::NEG_INFINITY),
        _ => Err(mismatch(clause, value)),
    }
}

fn signed(value: i64, digits: fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", digits(value.unsigned_abs()))
}

fn hex(value: &Value<'_>) -> Option<String> {
    let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(match value {
        Value::Int(value) => signed(*value, |magnitude| format!("{magnitude:x}")),
        Value::Uint(value) => format!("{value:x}"),
        Value::String(text) => digits(text.as_str().as_bytes()),
        Value::Bytes(bytes) => digits(bytes),
        _ => return None,
    })
}

/// A value of `%s`.
fn write_text<'v>(written: &mut String, value: &Value<'v>, context: &mut CallContext<'v, '_>) -> Result<(), EvalError> {
    match value {
        Value::List(_) => return write_literal(written, value, context),
        Value::Map(map) if is_map(map) => return write_literal(written, value, context),
        Value::Bytes(bytes) => written.push_str(text_of_bytes(bytes)?),
        Value::Type(kind) => written.push_str(&kind.name()),
        Value::Map(_) | Value::Optional(_) | Value::Opaque(_) => return Err(mismatch(FormatClause::String, value)),
        other => written.push_str(&show::display(other)),
    }
    Ok(())
}

/// A value in a list or map.
fn write_literal<'v>(
    written: &mut String,
    value: &Value<'v>,
    context: &mut CallContext<'v, '_>,
) -> Result<(), EvalError> {
    context.meter.work(1)?;
    bounded(written.len())?;
    match value {
        Value::List(list) => write_list(written, list, context)?,
        Value::Map(map) if is_map(map) => write_map(written, map, context)?,
        Value::String(text) => written.push_str(&go_text::quote(text.as_str())),
        Value::Bytes(bytes) => written.push_str(&format!("b{}", go_text::quote(text_of_bytes(bytes)?))),
        Value::Duration(_) => written.push_str(&format!("duration({})", go_text::quote(&show::display(value)))),
        Value::Timestamp(_) => written.push_str(&format!("timestamp({})", go_text::quote(&show::display(value)))),
        Value::Double(value) if value.is_finite() => written.push_str(&format!("{value:.6}")),
        Value::Double(_) => written.push_str(&go_text::quote(&show::display(value))),
        Value::Map(_) | Value::Optional(_) | Value::Opaque(_) => {
            let name = type_name(value);
            return Err(failed(&format!("no formatting function for {name}")));
        }
        other => write_text(written, other, context)?,
    }
    Ok(())
}

fn failed(reason: &str) -> EvalError {
    EvalError::failed(format!("error during formatting: {reason}"))
}

fn write_list<'v>(written: &mut String, list: &List<'v>, context: &mut CallContext<'v, '_>) -> Result<(), EvalError> {
    written.push('[');
    for (index, item) in list.iter().enumerate() {
        written.push_str(if index > 0 { ", " } else { "" });
        write_literal(written, &item, context)?;
    }
    written.push(']');
    Ok(())
}

/// Entries come in the order of their keys as text.
fn write_map<'v>(written: &mut String, map: &Map<'v>, context: &mut CallContext<'v, '_>) -> Result<(), EvalError> {
    let mut keys = Vec::with_capacity(map.len());
    for key in map.keys() {
        let key = escaped(map, key);
        let mut shown = String::new();
        write_literal(&mut shown, &key.value(), context)?;
        keys.push((shown, key));
    }
    keys.sort_by(|(one, _), (other, _)| one.cmp(other));
    written.push('{');
    for (index, (shown, key)) in keys.iter().enumerate() {
        written.push_str(if index > 0 { ", " } else { "" });
        written.push_str(shown);
        written.push(':');
        let value = map.get(context.environment, key);
        write_literal(written, &value.unwrap_or(Ok(Value::Null))?, context)?;
    }
    written.push('}');
    Ok(())
}

/// A key as expressions know it: the names of an object's fields are escaped.
fn escaped<'v>(map: &Map<'v>, key: MapKey<'v>) -> MapKey<'v> {
    match (map, &key) {
        (Map::Json(_, Type::Named(_)), MapKey::String(name)) => match escape_field(name.as_str()) {
            Some(escaped) => MapKey::String(Text::Shared(escaped.into())),
            None => key,
        },
        _ => key,
    }
}

fn text_of_bytes(bytes: &[u8]) -> Result<&str, EvalError> {
    std::str::from_utf8(bytes).map_err(|_| {
        failed("could not convert argument \"invalid UTF-8 in bytes, cannot convert to string\" to string")
    })
}
