//! Optionals.

use super::{Cost, FunctionRow, GLOBAL, MEMBER, no_overload};
use crate::{meter::EvalError, value::Value};

pub(super) const TABLE: &[FunctionRow] = &[
    ("optional.of", GLOBAL, Cost::Fixed(1), |args, _| match args {
        [value] => Ok(value.clone().some()),
        _ => no_overload("optional.of", args),
    }),
    (
        "optional.ofNonZeroValue",
        GLOBAL,
        Cost::Fixed(1),
        |args, _| match args {
            [value] if value.is_zero() => Ok(Value::Optional(None)),
            [value] => Ok(value.clone().some()),
            _ => no_overload("optional.ofNonZeroValue", args),
        },
    ),
    ("optional.none", GLOBAL, Cost::Fixed(1), |_, _| {
        Ok(Value::Optional(None))
    }),
    ("hasValue", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => no_overload("hasValue", args),
    }),
    ("value", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::Optional(Some(value))] => Ok(value.as_ref().clone()),
        [Value::Optional(None)] => Err(EvalError::fixed("optional.none() dereference")),
        _ => no_overload("value", args),
    }),
    ("or", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::Optional(Some(_)), _] => Ok(args[0].clone()),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => no_overload("or", args),
    }),
    ("orValue", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::Optional(Some(value)), _] => Ok(value.as_ref().clone()),
        [Value::Optional(None), other] => Ok(other.clone()),
        _ => no_overload("orValue", args),
    }),
];
