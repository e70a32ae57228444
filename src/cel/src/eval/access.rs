//! Fields and indexes.

use super::{EvalResult, Evaluation};
use crate::{
    library::display,
    meter::EvalError,
    plan::{IndexNode, SelectNode},
    value::{List, MapKey, Value},
};

impl<'v> Evaluation<'v, '_> {
    pub(super) fn select(&mut self, select: &'v SelectNode) -> EvalResult<'v> {
        let operand = self.eval(&select.operand)?;
        self.meter.charge(1 + u64::from(select.starts_path))?;
        let found = self.field(&operand, &select.field)?;
        match (operand, select.optional) {
            (Value::Optional(_), _) | (_, true) => Ok(into_optional(found)),
            _ => found.ok_or_else(|| no_such_key(&select.field)),
        }
    }

    pub(super) fn has(&mut self, select: &'v SelectNode) -> EvalResult<'v> {
        let operand = self.eval(&select.operand)?;
        self.field(&operand, &select.field)
            .map(|found| Value::Bool(found.is_some()))
    }

    /// Finds a field. A value without fields, such as null, has none of this name (`refQualify` of cel-go).
    fn field(&self, operand: &Value<'v>, field: &str) -> Result<Option<Value<'v>>, EvalError> {
        match operand {
            Value::Map(map) => map.field(self.environment, field).transpose(),
            Value::List(_) => Err(not_an_index("string")),
            Value::Optional(Some(inner)) => self.field(inner, field),
            _ => Ok(None),
        }
    }

    pub(super) fn index(&mut self, node: &'v IndexNode) -> EvalResult<'v> {
        let operand = self.eval(&node.operand)?;
        let index = self.eval(&node.index)?;
        self.meter.charge(1 + u64::from(node.starts_path))?;
        let found = self.item(&operand, &index)?;
        match (&operand, node.optional) {
            (Value::Optional(_), _) | (_, true) => Ok(into_optional(found)),
            (Value::List(_), _) => {
                found.ok_or_else(|| EvalError::failed(format!("index out of bounds: {}", display(&index))))
            }
            _ => found.ok_or_else(|| no_such_key(&display(&index))),
        }
    }

    fn item(&self, operand: &Value<'v>, index: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
        match operand {
            Value::List(list) => item_of(list, index),
            Value::Map(map) => {
                let key = MapKey::of(index).ok_or_else(|| {
                    EvalError::failed(format!("unsupported index type '{}' in map", index.kind_name()))
                })?;
                map.get(self.environment, &key).transpose()
            }
            Value::Optional(Some(inner)) => self.item(inner, index),
            _ => Ok(None),
        }
    }
}

fn item_of<'v>(list: &List<'v>, index: &Value<'v>) -> Result<Option<Value<'v>>, EvalError> {
    match MapKey::of(index) {
        Some(MapKey::Int(at)) => Ok(usize::try_from(at).ok().and_then(|at| list.get(at))),
        Some(MapKey::Uint(at)) => Ok(usize::try_from(at).ok().and_then(|at| list.get(at))),
        _ => Err(not_an_index(&index.kind_name())),
    }
}

fn not_an_index(kind: &str) -> EvalError {
    EvalError::failed(format!("unsupported index type '{kind}' in list"))
}

fn into_optional(found: Option<Value<'_>>) -> Value<'_> {
    match found {
        None => Value::Optional(None),
        Some(optional @ Value::Optional(_)) => optional,
        Some(found) => found.some(),
    }
}

fn no_such_key(key: &str) -> EvalError {
    EvalError::failed(format!("no such key: {key}"))
}
