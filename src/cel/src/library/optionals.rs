//! Optionals (cel-go's `cel.OptionalTypes`, version 2).

use std::sync::Arc;

use super::{CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, display, no_overload};
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
    ("first", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::List(list)] => Ok(Value::Optional(list.get(0).map(Arc::new))),
        _ => no_overload("first", args),
    }),
    ("last", MEMBER, Cost::Fixed(1), |args, _| match args {
        [Value::List(list)] => {
            let last = list.len().checked_sub(1).and_then(|last| list.get(last));
            Ok(Value::Optional(last.map(Arc::new)))
        }
        _ => no_overload("last", args),
    }),
    ("optional.unwrap", GLOBAL, Cost::Fixed(1), |args, context| {
        unwrap("optional.unwrap", args, context)
    }),
    ("unwrapOpt", MEMBER, Cost::Fixed(1), |args, context| {
        unwrap("unwrapOpt", args, context)
    }),
];

/// The values of those optionals of a list that have one.
fn unwrap<'v>(name: &str, args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let mut values = Vec::new();
    for item in list.iter() {
        context.meter.work(1)?;
        match item {
            Value::Optional(inner) => values.extend(inner.map(|inner| inner.as_ref().clone())),
            other => return Err(EvalError::failed(format!("value {} is not optional", display(&other)))),
        }
    }
    Ok(Value::list(values))
}
