//! Equality and order, across the types of numbers.

use std::cmp::Ordering;

use super::{Map, Value};
use crate::{
    environment::Environment,
    meter::{EvalError, Meter},
};

impl<'v> Value<'v> {
    /// CEL's equality: values of different types are not equal, numbers compare by value.
    ///
    /// # Errors
    /// If values that are made of very many others are compared too often.
    pub(crate) fn equals(
        &self,
        other: &Value<'v>,
        environment: &'v Environment,
        meter: &mut Meter,
    ) -> Result<bool, EvalError> {
        meter.work(1)?;
        Ok(match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a.as_str() == b.as_str(),
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Timestamp(a), Self::Timestamp(b)) => a == b,
            (Self::Type(a), Self::Type(b)) => a.is_same_kind(b),
            (Self::Opaque(a), Self::Opaque(b)) => a.equals(b),
            (Self::Optional(None), Self::Optional(None)) => true,
            (Self::Optional(Some(a)), Self::Optional(Some(b))) => a.equals(b, environment, meter)?,
            (Self::List(a), Self::List(b)) => a.equals(b, environment, meter)?,
            (Self::Map(a), Self::Map(b)) => maps_are_equal(a, b, environment, meter)?,
            (a, b) => a.numeric_order(b) == Some(Ordering::Equal),
        })
    }

    /// The order of two numbers of any types; none if one is no number, or is not a number.
    pub(crate) fn numeric_order(&self, other: &Self) -> Option<Ordering> {
        let whole = |value: &Self| match value {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            _ => None,
        };
        match (self, other) {
            (Self::Double(a), Self::Double(b)) => a.partial_cmp(b),
            (Self::Double(a), b) => order_with_double(whole(b)?, *a).map(Ordering::reverse),
            (a, Self::Double(b)) => order_with_double(whole(a)?, *b),
            (a, b) => Some(whole(a)?.cmp(&whole(b)?)),
        }
    }

    /// The order of two values; none if they have none.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => Some(a.cmp(b)),
            (Self::String(a), Self::String(b)) => Some(a.as_str().cmp(b.as_str())),
            (Self::Bytes(a), Self::Bytes(b)) => Some(a.cmp(b)),
            (Self::Duration(a), Self::Duration(b)) => Some(a.cmp(b)),
            (Self::Timestamp(a), Self::Timestamp(b)) => Some(a.cmp(b)),
            (a, b) => a.numeric_order(b),
        }
    }
}

/// Compares a whole number with a floating-point one without rounding it.
fn order_with_double(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e20 {
        return Some(if double > 0.0 {
            Ordering::Less
        } else {
            Ordering::Greater
        });
    }
    #[expect(clippy::cast_possible_truncation, reason = "the guard has seen that it fits")]
    let floor = double.floor() as i128;
    Some(whole.cmp(&floor).then(if double.fract() == 0.0 {
        Ordering::Equal
    } else {
        Ordering::Less
    }))
}

fn maps_are_equal<'v>(
    a: &Map<'v>,
    b: &Map<'v>,
    environment: &'v Environment,
    meter: &mut Meter,
) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    for key in a.keys() {
        let are_equal = match (a.get(environment, &key), b.get(environment, &key)) {
            // A field that is null is absent.
            (None, None) => true,
            (Some(of_a), Some(of_b)) => of_a?.equals(&of_b?, environment, meter)?,
            _ => false,
        };
        if !are_equal {
            return Ok(false);
        }
    }
    Ok(true)
}
