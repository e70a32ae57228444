//! Costs of calls (`k8s.io/apiserver/pkg/cel/library/cost.go` and cel-go's own functions).

use crate::{
    meter::{EvalError, Meter},
    value::{Map, Value},
};

/// The cost of a call, as far as it is known before it is made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cost {
    /// So much.
    Fixed(u64),
    /// So many traversals of the first argument.
    Traversal(u64),
    /// The same if the first argument is text or bytes; else 1.
    TextTraversal,
    /// A traversal of the second argument.
    OfSecond,
    /// Going through all that the first argument holds.
    Elements,
    /// Comparing two values: the shorter one counts.
    Smaller,
    /// Joining text or bytes; lists are joined for 1.
    Sum,
    /// Searching the first argument for the second.
    Product,
    /// Matching the first argument with a pattern.
    Pattern,
    /// Looking into a list; into a map for 1.
    Membership,
    /// Comparing each item of a list with each of another so many times.
    Pairs(u64),
    /// A block of addresses, and the address or block that may be within it; with a traversal for a block.
    Containment { of_block: bool },
    /// Checking text against a named format.
    Format,
}

impl Cost {
    pub(crate) fn charge(self, args: &[Value<'_>], meter: &mut Meter) -> Result<(), EvalError> {
        let size = |index: usize| args.get(index).map_or(1, Value::cost_size);
        let tenth = |size: u64| size.div_ceil(10);
        let is_text = |index: usize| matches!(args.get(index), Some(Value::String(_) | Value::Bytes(_)));
        let cost = match self {
            Self::Fixed(cost) => cost,
            Self::Traversal(times) => tenth(size(0).saturating_mul(times)),
            Self::TextTraversal | Self::Sum | Self::Smaller if !is_text(0) && !matches!(self, Self::Smaller) => 1,
            Self::TextTraversal => tenth(size(0)),
            Self::OfSecond => tenth(size(1)),
            Self::Elements => return args.first().map_or(Ok(()), |value| charge_elements(value, meter)),
            Self::Smaller => tenth(size(0).min(size(1))),
            Self::Sum => tenth(size(0).saturating_add(size(1))),
            Self::Product => tenth(size(0)).saturating_mul(tenth(size(1))),
            Self::Pattern => tenth(size(0).saturating_add(1)).saturating_mul(size(1).div_ceil(4)),
            Self::Membership => match args.get(1) {
                Some(Value::List(list)) => list.len() as u64,
                _ => 1,
            },
            Self::Pairs(times) => size(0).saturating_mul(size(1)).saturating_mul(times).saturating_add(1),
            Self::Containment { of_block } => {
                let block = size(0);
                let of_text = if is_text(1) { tenth(size(1)) } else { 0 };
                tenth(block * 2) + of_text + if of_block { tenth(block) + 1 } else { 0 }
            }
            Self::Format => {
                let pattern = match args.first() {
                    Some(Value::Opaque(crate::value::Opaque::Format(format))) => format.max_regex_size,
                    _ => 1,
                };
                tenth(size(1).saturating_add(1)).saturating_mul(pattern.div_ceil(4))
            }
        };
        meter.charge(cost)
    }
}

/// Charges for each item, and for text in it by its length.
fn charge_elements(value: &Value<'_>, meter: &mut Meter) -> Result<(), EvalError> {
    meter.work(1)?;
    match value {
        Value::String(text) => meter.charge(text.as_str().len() as u64 / 10),
        Value::Bytes(bytes) => meter.charge(bytes.len() as u64 / 10),
        Value::List(list) => list.iter().try_for_each(|item| charge_elements(&item, meter)),
        Value::Map(Map::Made(fields)) => fields.entries.iter().try_for_each(|(key, value)| {
            charge_elements(&key.value(), meter)?;
            charge_elements(value, meter)
        }),
        Value::Map(Map::Json(fields, _)) => fields.iter().try_for_each(|(key, value)| {
            meter.charge(key.len() as u64 / 10)?;
            charge_elements(&Value::from_json(value), meter)
        }),
        _ => meter.charge(1),
    }
}
