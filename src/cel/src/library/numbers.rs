//! Quantities and semantic versions.

use std::cmp::Ordering;

use trireme_machinery::quantity::{Format, Quantity};

use super::{Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, no_overload};
use crate::{
    ext::semvers::SemanticVersion,
    meter::EvalError,
    value::{Opaque, Value},
};

pub(super) const TABLE: &[FunctionRow] = &[
    ("quantity", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => Quantity::parse(text.as_str())
            .map(quantity)
            .map_err(|error| EvalError::failed(error.to_string())),
        _ => no_overload("quantity", args),
    }),
    ("isQuantity", GLOBAL, Cost::Traversal(1), |args, _| match args {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text.as_str()).is_ok())),
        _ => no_overload("isQuantity", args),
    }),
    ("sign", GLOBAL, Cost::Fixed(1), |args, _| {
        of_quantity("sign", args, |value| Ok(Value::Int(i64::from(value.signum()))))
    }),
    ("isInteger", MEMBER, Cost::Fixed(1), |args, _| {
        of_quantity("isInteger", args, |value| Ok(Value::Bool(value.as_integer().is_some())))
    }),
    ("asInteger", MEMBER, Cost::Fixed(1), |args, _| {
        of_quantity("asInteger", args, |value| {
            value
                .as_integer()
                .map(Value::Int)
                .ok_or(EvalError::fixed("cannot convert value to integer"))
        })
    }),
    ("asApproximateFloat", MEMBER, Cost::Fixed(1), |args, _| {
        of_quantity("asApproximateFloat", args, |value| {
            Ok(Value::Double(approximate(value)))
        })
    }),
    ("add", MEMBER, Cost::Fixed(1), |args, _| sum("add", args, |a, b| a + b)),
    ("sub", MEMBER, Cost::Fixed(1), |args, _| sum("sub", args, |a, b| a - b)),
    ("isGreaterThan", MEMBER, Cost::Fixed(1), |args, _| {
        Ok(Value::Bool(order("isGreaterThan", args)?.is_gt()))
    }),
    ("isLessThan", MEMBER, Cost::Fixed(1), |args, _| {
        Ok(Value::Bool(order("isLessThan", args)?.is_lt()))
    }),
    ("compareTo", MEMBER, Cost::Fixed(1), |args, _| {
        Ok(Value::Int(order("compareTo", args)? as i64))
    }),
    ("semver", GLOBAL, Cost::Traversal(1), |args, _| match version(args) {
        Some(found) => found
            .map(|found| Value::Opaque(Opaque::Semver(found.into())))
            .map_err(EvalError::failed),
        None => no_overload("semver", args),
    }),
    ("isSemver", GLOBAL, Cost::Traversal(1), |args, _| match version(args) {
        Some(found) => Ok(Value::Bool(found.is_ok())),
        None => no_overload("isSemver", args),
    }),
    ("major", MEMBER, Cost::Fixed(1), |args, _| number_of("major", args, 0)),
    ("minor", MEMBER, Cost::Fixed(1), |args, _| number_of("minor", args, 1)),
    ("patch", MEMBER, Cost::Fixed(1), |args, _| number_of("patch", args, 2)),
];

fn quantity<'v>(value: Quantity) -> Value<'v> {
    Value::Opaque(Opaque::Quantity(value.into()))
}

fn of_quantity<'v>(name: &str, args: &[Value<'v>], result: fn(&Quantity) -> FunctionResult<'v>) -> FunctionResult<'v> {
    match args {
        [Value::Opaque(Opaque::Quantity(value))] => result(value),
        _ => no_overload(name, args),
    }
}

#[expect(clippy::cast_precision_loss, reason = "the result is approximate")]
fn approximate(value: &Quantity) -> f64 {
    match value.milli_value() {
        i64::MIN | i64::MAX => value.value() as f64,
        milli => milli as f64 / 1000.0,
    }
}

fn sum<'v>(name: &str, args: &[Value<'v>], combine: fn(Quantity, Quantity) -> Quantity) -> FunctionResult<'v> {
    match args {
        [Value::Opaque(Opaque::Quantity(a)), Value::Opaque(Opaque::Quantity(b))] => Ok(quantity(combine(**a, **b))),
        [Value::Opaque(Opaque::Quantity(a)), Value::Int(b)] => {
            Ok(quantity(combine(**a, Quantity::from_integer(*b, Format::DecimalSi))))
        }
        _ => no_overload(name, args),
    }
}

fn order(name: &str, args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Opaque(Opaque::Quantity(a)), Value::Opaque(Opaque::Quantity(b))] => Ok(a.cmp(b)),
        [Value::Opaque(Opaque::Semver(a)), Value::Opaque(Opaque::Semver(b))] => Ok(a.precedence(b)),
        _ => no_overload(name, args).map(|_| Ordering::Equal),
    }
}

/// The version that the arguments are text of, leniently if the second says so.
fn version(args: &[Value<'_>]) -> Option<Result<SemanticVersion, String>> {
    match args {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => {
            Some(SemanticVersion::parse(text.as_str()))
        }
        [Value::String(text), Value::Bool(true)] => Some(SemanticVersion::parse_lenient(text.as_str())),
        _ => None,
    }
}

fn number_of<'v>(name: &str, args: &[Value<'v>], index: usize) -> FunctionResult<'v> {
    match args {
        [Value::Opaque(Opaque::Semver(version))] => {
            let number = version.numbers.get(index).copied().unwrap_or(0);
            Ok(Value::Int(i64::try_from(number).unwrap_or(i64::MAX)))
        }
        _ => no_overload(name, args),
    }
}
