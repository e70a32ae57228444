//! Operators, and the functions that every type has.

use trireme_machinery::time::{Duration, Time};

use super::{CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER};
use crate::{
    meter::EvalError,
    value::{List, MapKey, Text, Value},
};

pub(super) const TABLE: &[FunctionRow] = &[
    ("!_", GLOBAL, Cost::Fixed(1), not),
    ("-_", GLOBAL, Cost::Fixed(1), negate),
    ("_==_", GLOBAL, Cost::Equality, |args, context| {
        Ok(Value::Bool(are_equal(args, context)?))
    }),
    ("_!=_", GLOBAL, Cost::Smaller, |args, context| {
        Ok(Value::Bool(!are_equal(args, context)?))
    }),
    ("_<_", GLOBAL, Cost::Smaller, |args, _| {
        compare(args, std::cmp::Ordering::is_lt)
    }),
    ("_<=_", GLOBAL, Cost::Smaller, |args, _| {
        compare(args, std::cmp::Ordering::is_le)
    }),
    ("_>_", GLOBAL, Cost::Smaller, |args, _| {
        compare(args, std::cmp::Ordering::is_gt)
    }),
    ("_>=_", GLOBAL, Cost::Smaller, |args, _| {
        compare(args, std::cmp::Ordering::is_ge)
    }),
    ("_+_", GLOBAL, Cost::Sum, add),
    ("_-_", GLOBAL, Cost::Fixed(1), subtract),
    ("_*_", GLOBAL, Cost::Fixed(1), multiply),
    ("_/_", GLOBAL, Cost::Fixed(1), divide),
    ("_%_", GLOBAL, Cost::Fixed(1), modulo),
    ("@in", GLOBAL, Cost::Membership, contains),
    ("size", GLOBAL, Cost::Fixed(1), size),
    ("size", MEMBER, Cost::Fixed(1), size),
];

const NO_SUCH_OVERLOAD: EvalError = EvalError::fixed("no such overload");
const INT_OVERFLOW: EvalError = EvalError::fixed("integer overflow");
const UINT_OVERFLOW: EvalError = EvalError::fixed("unsigned integer overflow");
pub(super) const DURATION_OVERFLOW: EvalError = EvalError::fixed("duration overflow");
pub(super) const TIMESTAMP_OVERFLOW: EvalError = EvalError::fixed("timestamp overflow");
const DIVISION_BY_ZERO: EvalError = EvalError::fixed("division by zero");
const MODULUS_BY_ZERO: EvalError = EvalError::fixed("modulus by zero");

fn not<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn negate<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        [Value::Duration(value)] => duration(value.nanos().checked_neg()),
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn are_equal<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> Result<bool, EvalError> {
    match args {
        [a, b] => a.equals(b, context.environment, context.meter),
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn compare<'v>(args: &[Value<'v>], holds: fn(std::cmp::Ordering) -> bool) -> FunctionResult<'v> {
    let [a, b] = args else { return Err(NO_SUCH_OVERLOAD) };
    match (a, b) {
        (Value::Double(x), _) | (_, Value::Double(x)) if x.is_nan() => {
            Err(EvalError::fixed("NaN values cannot be ordered"))
        }
        _ => a
            .order(b)
            .map(|order| Value::Bool(holds(order)))
            .ok_or(NO_SUCH_OVERLOAD),
    }
}

fn duration<'v>(nanos: Option<i64>) -> FunctionResult<'v> {
    nanos
        .map(|nanos| Value::Duration(Duration::from_nanos(nanos)))
        .ok_or(DURATION_OVERFLOW)
}

/// Seconds of the years 1 to 9999.
pub(super) const TIMESTAMP_SECONDS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

pub(super) fn nanos_of(time: Time) -> i128 {
    i128::from(time.unix_seconds()) * 1_000_000_000 + i128::from(time.nanos())
}

fn timestamp<'v>(nanos: i128) -> FunctionResult<'v> {
    let seconds = i64::try_from(nanos.div_euclid(1_000_000_000)).map_err(|_| TIMESTAMP_OVERFLOW)?;
    let rest = u32::try_from(nanos.rem_euclid(1_000_000_000)).map_err(|_| TIMESTAMP_OVERFLOW)?;
    if !TIMESTAMP_SECONDS.contains(&seconds) {
        return Err(TIMESTAMP_OVERFLOW);
    }
    Ok(Value::Timestamp(Time::from_unix(seconds, rest)))
}

fn add<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_add(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => a.checked_add(*b).map(Value::Uint).ok_or(UINT_OVERFLOW),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::String(a), Value::String(b)] => {
            super::strings::bounded(a.as_str().len() + b.as_str().len())?;
            Ok(Value::text(format!("{a}{b}")))
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            super::strings::bounded(a.len() + b.len())?;
            Ok(Value::Bytes([a.as_ref(), b.as_ref()].concat().into()))
        }
        [Value::List(a), Value::List(b)] => a.plus(b, context.meter).map(Value::List),
        [Value::Duration(a), Value::Duration(b)] => duration(a.nanos().checked_add(b.nanos())),
        [Value::Timestamp(time), Value::Duration(span)] | [Value::Duration(span), Value::Timestamp(time)] => {
            timestamp(nanos_of(*time) + i128::from(span.nanos()))
        }
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn subtract<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_sub(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => a.checked_sub(*b).map(Value::Uint).ok_or(UINT_OVERFLOW),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Duration(a), Value::Duration(b)] => duration(a.nanos().checked_sub(b.nanos())),
        [Value::Timestamp(time), Value::Duration(span)] => timestamp(nanos_of(*time) - i128::from(span.nanos())),
        [Value::Timestamp(a), Value::Timestamp(b)] => duration(i64::try_from(nanos_of(*a) - nanos_of(*b)).ok()),
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn multiply<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Int(a), Value::Int(b)] => a.checked_mul(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => a.checked_mul(*b).map(Value::Uint).ok_or(UINT_OVERFLOW),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn divide<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(DIVISION_BY_ZERO),
        [Value::Int(a), Value::Int(b)] => a.checked_div(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a / b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn modulo<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(MODULUS_BY_ZERO),
        [Value::Int(a), Value::Int(b)] => a.checked_rem(*b).map(Value::Int).ok_or(INT_OVERFLOW),
        [Value::Uint(a), Value::Uint(b)] => Ok(Value::Uint(a % b)),
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

fn contains<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    match args {
        [item, Value::List(list)] => Ok(Value::Bool(is_in(item, list, context)?)),
        [key, Value::Map(map)] => match MapKey::of(key) {
            Some(key) => Ok(Value::Bool(map.get(context.environment, &key).transpose()?.is_some())),
            None => Ok(Value::Bool(false)),
        },
        _ => Err(NO_SUCH_OVERLOAD),
    }
}

pub(super) fn is_in<'v>(
    item: &Value<'v>,
    list: &List<'v>,
    context: &mut CallContext<'v, '_>,
) -> Result<bool, EvalError> {
    if !matches!(list, List::Json(..) | List::Merged(..)) {
        return any_equals(item, list.iter(), context);
    }
    // Items of objects are what is compared, not what is compared with: they may be sets.
    for other in list.iter() {
        if other.equals(item, context.environment, context.meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// As [`is_in`], of values that are no list yet.
pub(super) fn is_among<'v>(
    item: &Value<'v>,
    others: &[Value<'v>],
    context: &mut CallContext<'v, '_>,
) -> Result<bool, EvalError> {
    any_equals(item, others.iter().cloned(), context)
}

fn any_equals<'v>(
    item: &Value<'v>,
    others: impl Iterator<Item = Value<'v>>,
    context: &mut CallContext<'v, '_>,
) -> Result<bool, EvalError> {
    for other in others {
        if item.equals(&other, context.environment, context.meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn size<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let size = match args {
        [Value::String(text)] => Text::characters(text),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return super::no_overload("size", args),
    };
    Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
}
