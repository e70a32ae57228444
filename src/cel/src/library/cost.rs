//! Costs of calls: `CallCost` of `k8s.io/apiserver/pkg/cel/library/cost.go` in 1.36, and what cel-go 0.26 tracks itself
//! (`interpreter/runtimecost.go`, `ext/sets.go`).

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
    /// A traversal of the first argument if it is text; else 1.
    OfText,
    /// A traversal of the first argument if it is bytes; else 1.
    OfBytes,
    /// Parsing the second argument as a selector.
    Selector,
    /// Comparing two values for being the same: as [`Cost::Smaller`], but 1 for values of Kubernetes' own types.
    Equality,
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
            Self::OfText => text_cost(args.first(), |value| matches!(value, Value::String(_))),
            Self::OfBytes => text_cost(args.first(), |value| matches!(value, Value::Bytes(_))),
            Self::Selector => selector_cost(size(1)),
            Self::Elements => return args.first().map_or(Ok(()), |value| charge_elements(value, meter)),
            Self::Equality if matches!(args.first(), Some(Value::Opaque(_))) => 1,
            Self::Smaller | Self::Equality => {
                let size = |index: usize| args.get(index).map_or(1, held_size);
                tenth(size(0).min(size(1)))
            }
            Self::Sum if !is_text(0) => 1,
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

/// A traversal of a value of a type; 1 of any other.
fn text_cost(value: Option<&Value<'_>>, is_type: fn(&Value<'_>) -> bool) -> u64 {
    value
        .filter(|value| is_type(value))
        .map_or(1, |value| value.cost_size().div_ceil(10))
}

/// A list of requirements, of which there is one for every two characters at most: parsed once, each a struct with a list.
fn selector_cost(size: u64) -> u64 {
    const LIST: u64 = 10;
    const STRUCT: u64 = 40;
    let requirements = size.div_ceil(2).saturating_mul(LIST + STRUCT);
    LIST.saturating_add(size.div_ceil(10)).saturating_add(requirements)
}

/// The size of a value, of an optional one that of what it holds.
fn held_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(inner)) => held_size(inner),
        value => value.cost_size(),
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
