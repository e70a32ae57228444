//! Lists that are made of others (cel-go's `ext.Lists`, version 3).

use std::{cmp::Ordering, sync::Arc};

use super::{
    CallContext, Cost, FunctionResult, FunctionRow, GLOBAL, MEMBER, lists::NO_SUCH_OVERLOAD, no_overload, operators,
};
use crate::{
    meter::{EvalError, Meter},
    value::{List, Value},
};

/// These charge for themselves, once they know the size of what they make.
const OWN: Cost = Cost::Fixed(0);
/// The call, and the list that it makes.
const BASE_COST: u64 = 11;

pub(super) const TABLE: &[FunctionRow] = &[
    ("slice", MEMBER, OWN, slice),
    ("flatten", MEMBER, OWN, flatten),
    ("sort", MEMBER, OWN, |args, context| match args {
        [Value::List(list)] => sorted(list, list, context),
        _ => no_overload("sort", args),
    }),
    ("@sortByAssociatedKeys", MEMBER, OWN, |args, context| match args {
        [Value::List(list), Value::List(keys)] => sorted(list, keys, context),
        _ => no_overload("@sortByAssociatedKeys", args),
    }),
    ("lists.range", GLOBAL, OWN, |args, context| match args {
        [Value::Int(end)] => {
            charge_size(u64::try_from(*end).unwrap_or(0), context.meter)?;
            Ok(made((0..*end).map(Value::Int).collect()))
        }
        _ => no_overload("lists.range", args),
    }),
    ("reverse", MEMBER, OWN, |args, context| match args {
        [Value::List(list)] => {
            charge_size(list.len() as u64, context.meter)?;
            let mut items: Vec<Value<'_>> = list.iter().collect();
            items.reverse();
            Ok(made(items))
        }
        _ => no_overload("reverse", args),
    }),
    ("distinct", MEMBER, OWN, distinct),
];

fn made(items: Vec<Value<'_>>) -> Value<'_> {
    Value::List(List::Items(Arc::new(items)))
}

fn charge_size(items: u64, meter: &mut Meter) -> Result<(), EvalError> {
    meter.charge(items.saturating_add(BASE_COST))
}

/// Charges for comparing every item with every other.
fn charge_comparisons(list: &List<'_>, meter: &mut Meter) -> Result<(), EvalError> {
    let size = list.len() as u64;
    let pairs = size.saturating_mul(size);
    let is_text = matches!(list.get(0), Some(Value::String(_) | Value::Bytes(_)));
    // Comparing text costs a tenth more.
    let text = if is_text { pairs / 10 } else { 0 };
    charge_size(pairs.saturating_mul(2).saturating_add(text), meter)
}

fn slice<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return no_overload("slice", args);
    };
    let failed = |why: &str| Err(EvalError::failed(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return failed("negative indexes not supported");
    };
    if from > to {
        return failed("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return failed(&format!("list is length {}", list.len()));
    }
    charge_size((to - from) as u64, context.meter)?;
    Ok(made((from..to).filter_map(|index| list.get(index)).collect()))
}

fn flatten<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return no_overload("flatten", args),
    };
    let depth = u64::try_from(depth).map_err(|_| EvalError::fixed("level must be non-negative"))?;
    charge_size((list.len() as u64).saturating_mul(depth), context.meter)?;
    let mut items = Vec::new();
    push_flat(list, depth, &mut items, context.meter)?;
    Ok(made(items))
}

fn push_flat<'v>(list: &List<'v>, depth: u64, items: &mut Vec<Value<'v>>, meter: &mut Meter) -> Result<(), EvalError> {
    for item in list.iter() {
        meter.work(1)?;
        match item {
            Value::List(inner) if depth > 0 => push_flat(&inner, depth - 1, items, meter)?,
            item => items.push(item),
        }
    }
    Ok(())
}

/// The items in the order of their keys; those with equal keys stay in theirs.
fn sorted<'v>(list: &List<'v>, keys: &List<'v>, context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    charge_comparisons(keys, context.meter)?;
    if list.len() != keys.len() {
        let (items, keys) = (list.len(), keys.len());
        return Err(EvalError::failed(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {items} and \
             {keys} elements respectively"
        )));
    }
    let mut pairs: Vec<(Value<'v>, Value<'v>)> = keys.iter().zip(list.iter()).collect();
    if let Some((first, _)) = pairs.first() {
        first.order(first).ok_or(NOT_COMPARABLE)?;
        let kind = first.kind_name();
        if pairs.iter().any(|(key, _)| key.kind_name() != kind) {
            return Err(EvalError::fixed("list elements must have the same type"));
        }
    }
    pairs.sort_by(|(a, _), (b, _)| a.order(b).unwrap_or(Ordering::Equal));
    Ok(made(pairs.into_iter().map(|(_, item)| item).collect()))
}

const NOT_COMPARABLE: EvalError = EvalError::fixed("list elements must be comparable");

fn distinct<'v>(args: &[Value<'v>], context: &mut CallContext<'v, '_>) -> FunctionResult<'v> {
    let [Value::List(list)] = args else {
        return Err(NO_SUCH_OVERLOAD);
    };
    charge_comparisons(list, context.meter)?;
    let mut kept = Vec::new();
    for item in list.iter() {
        if !operators::is_among(&item, &kept, context)? {
            kept.push(item);
        }
    }
    Ok(made(kept))
}
