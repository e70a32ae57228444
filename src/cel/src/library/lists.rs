//! Lists, and lists as sets.

use std::cmp::Ordering;

use trireme_machinery::time::Duration;

use super::{CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, no_overload, operators};
use crate::{
    meter::EvalError,
    types::Type,
    value::{List, Value},
};

pub(super) const TABLE: &[FunctionRow] = &[
    ("isSorted", MEMBER, Cost::Elements, is_sorted),
    ("min", MEMBER, Cost::Elements, |args, _| {
        extreme("min", args, Ordering::Less)
    }),
    ("max", MEMBER, Cost::Elements, |args, _| {
        extreme("max", args, Ordering::Greater)
    }),
    ("sum", MEMBER, Cost::Elements, sum),
    ("sets.contains", GLOBAL, Cost::Pairs(1), |args, context| match args {
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(contains(a, b, context)?)),
        _ => no_overload("sets.contains", args),
    }),
    ("sets.equivalent", GLOBAL, Cost::Pairs(2), |args, context| match args {
        [Value::List(a), Value::List(b)] => Ok(Value::Bool(contains(a, b, context)? && contains(b, a, context)?)),
        _ => no_overload("sets.equivalent", args),
    }),
    ("sets.intersects", GLOBAL, Cost::Pairs(1), |args, context| match args {
        [Value::List(a), Value::List(b)] => {
            for item in b.iter() {
                if operators::is_in(&item, a, context)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        _ => no_overload("sets.intersects", args),
    }),
];

pub(super) const NO_SUCH_OVERLOAD: EvalError = EvalError::fixed("no such overload");

fn contains<'v>(list: &List<'v>, items: &List<'v>, context: &mut CallContext<'v, '_>) -> Result<bool, EvalError> {
    for item in items.iter() {
        if !operators::is_in(&item, list, context)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_sorted<'v>(args: &[Value<'v>], _: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let [Value::List(list)] = args else {
        return no_overload("isSorted", args);
    };
    let mut earlier: Option<Value<'_>> = None;
    for item in list.iter() {
        if let Some(earlier) = earlier
            && earlier.order(&item).ok_or(NO_SUCH_OVERLOAD)?.is_gt()
        {
            return Ok(Value::Bool(false));
        }
        earlier = Some(item);
    }
    Ok(Value::Bool(true))
}

fn extreme<'v>(name: &str, args: &[Value<'v>], wanted: Ordering) -> FunctionResult<'v> {
    let [Value::List(list)] = args else {
        return no_overload(name, args);
    };
    let mut best: Option<Value<'v>> = None;
    for item in list.iter() {
        let is_better = match &best {
            None => true,
            Some(best) => item.order(best).ok_or(NO_SUCH_OVERLOAD)? == wanted,
        };
        if is_better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::failed(format!("{name} called on empty list")))
}

/// The sum of items; that of none is 0, whatever the list could have held.
fn sum<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let [Value::List(list)] = args else {
        return no_overload("sum", args);
    };
    let add = super::find("_+_", GLOBAL).ok_or(NO_SUCH_OVERLOAD)?;
    let mut total: Option<Value<'v>> = None;
    for item in list.iter() {
        let is_number = matches!(
            item,
            Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_)
        );
        total = match total {
            _ if !is_number => return Err(NO_SUCH_OVERLOAD),
            None => Some(item),
            Some(total) => Some(add.run(&[total, item], context)?),
        };
    }
    Ok(total.unwrap_or_else(|| match list.item_type() {
        Type::Double => Value::Double(0.0),
        Type::Uint => Value::Uint(0),
        Type::Duration => Value::Duration(Duration::from_nanos(0)),
        _ => Value::Int(0),
    }))
}
