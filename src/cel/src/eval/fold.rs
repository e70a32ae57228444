//! Comprehensions. Each step costs what its expansion by cel-go's macros costs there.

use std::sync::Arc;

use super::{EvalResult, Evaluation, NO_SUCH_OVERLOAD};
use crate::{
    meter::EvalError,
    plan::{FoldNode, PlanNode},
    syntax::ast::FoldKind,
    value::{Map, MapEntries, MapKey, Value},
};

/// The end of a comprehension reads what was accumulated.
const RESULT_COST: u64 = 1;
/// Appending reads what was accumulated and calls `+`; the list of one item that is appended costs 10 more.
const APPEND_COST: u64 = 2;
const ITEM_LIST_COST: u64 = 10;
/// Inserting reads what was accumulated and calls a function.
const INSERT_COST: u64 = 2;

/// The first and, in comprehensions over two variables, the second variable of each step.
type Steps<'v> = Box<dyn Iterator<Item = Result<(Value<'v>, Option<Value<'v>>), EvalError>> + 'v>;

impl<'v> Evaluation<'v, '_> {
    pub(super) fn fold(&mut self, fold: &'v FoldNode) -> EvalResult<'v> {
        let range = self.eval(&fold.range)?;
        let steps = self.steps(&range, fold.has_second)?;
        match fold.fold {
            FoldKind::All => self.decide(fold, steps, false),
            FoldKind::Exists => self.decide(fold, steps, true),
            FoldKind::ExistsOne => self.exists_one(fold, steps),
            FoldKind::Filter => self.filter(fold, steps),
            FoldKind::List => self.transform_list(fold, steps),
            FoldKind::Values | FoldKind::Entries => self.transform_map(fold, steps),
        }
    }

    fn steps(&self, range: &Value<'v>, has_second: bool) -> Result<Steps<'v>, EvalError> {
        let environment = self.environment;
        match range {
            Value::List(list) if has_second => {
                let list = list.clone();
                Ok(Box::new(list.iter().enumerate().map(|(index, item)| {
                    Ok((Value::Int(i64::try_from(index).unwrap_or(i64::MAX)), Some(item)))
                })))
            }
            Value::List(list) => Ok(Box::new(list.iter().map(|item| Ok((item, None))))),
            Value::Map(map) => {
                let map = map.clone();
                Ok(Box::new(map.keys().into_iter().map(move |key| {
                    let value = match has_second {
                        true => map.get(environment, &key).transpose()?,
                        false => None,
                    };
                    Ok((key.value(), value))
                })))
            }
            other => {
                let text = format!("got '{}', expected iterable type", other.kind_name());
                Err(EvalError::failed(text))
            }
        }
    }

    fn step(&mut self, node: &'v PlanNode, (first, second): &(Value<'v>, Option<Value<'v>>)) -> EvalResult<'v> {
        match second {
            Some(second) => self.with_locals([first.clone(), second.clone()], node),
            None => self.with_locals([first.clone()], node),
        }
    }

    /// The truth of a condition for a step.
    fn holds(&mut self, node: &'v PlanNode, step: &(Value<'v>, Option<Value<'v>>)) -> Result<bool, EvalError> {
        self.step(node, step)?.as_bool().ok_or(NO_SUCH_OVERLOAD)
    }

    /// `all` and `exists`: a step that decides wins over steps that fail.
    fn decide(&mut self, fold: &'v FoldNode, steps: Steps<'v>, deciding: bool) -> EvalResult<'v> {
        // `exists` negates what was accumulated before it looks at it.
        let condition_cost = if deciding { 3 } else { 2 };
        let mut failed = None;
        let mut steps = steps.peekable();
        while let Some(step) = steps.next() {
            self.meter.charge(condition_cost + 1)?;
            match self.holds(&fold.body, &step?) {
                Ok(value) if value == deciding => {
                    let looks_again = steps.peek().is_some();
                    self.meter
                        .charge(RESULT_COST + if looks_again { condition_cost } else { 0 })?;
                    return Ok(Value::Bool(deciding));
                }
                Ok(_) => {}
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        self.meter.charge(RESULT_COST)?;
        failed.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    fn exists_one(&mut self, fold: &'v FoldNode, steps: Steps<'v>) -> EvalResult<'v> {
        let mut count = 0_u64;
        for step in steps {
            self.meter.work(1)?;
            if self.holds(&fold.body, &step?)? {
                self.meter.charge(APPEND_COST)?;
                count += 1;
            }
        }
        self.meter.charge(RESULT_COST + 1)?;
        Ok(Value::Bool(count == 1))
    }

    fn filter(&mut self, fold: &'v FoldNode, steps: Steps<'v>) -> EvalResult<'v> {
        let mut items = Vec::new();
        for step in steps {
            self.meter.work(1)?;
            let step = step?;
            if self.holds(&fold.body, &step)? {
                self.meter.charge(APPEND_COST + ITEM_LIST_COST + 1)?;
                items.push(step.0);
            }
        }
        self.meter.charge(RESULT_COST)?;
        Ok(Value::list(items))
    }

    fn transform_list(&mut self, fold: &'v FoldNode, steps: Steps<'v>) -> EvalResult<'v> {
        // A list of a constant is a constant.
        let of_list = if matches!(fold.body, PlanNode::Constant(_)) {
            0
        } else {
            ITEM_LIST_COST
        };
        let mut items = Vec::new();
        for step in steps {
            self.meter.work(1)?;
            let step = step?;
            if !self.passes(fold, &step)? {
                continue;
            }
            items.push(self.step(&fold.body, &step)?);
            self.meter.charge(APPEND_COST + of_list)?;
        }
        self.meter.charge(RESULT_COST)?;
        Ok(Value::list(items))
    }

    fn passes(&mut self, fold: &'v FoldNode, step: &(Value<'v>, Option<Value<'v>>)) -> Result<bool, EvalError> {
        match &fold.filter {
            Some(filter) => self.holds(filter, step),
            None => Ok(true),
        }
    }

    fn transform_map(&mut self, fold: &'v FoldNode, steps: Steps<'v>) -> EvalResult<'v> {
        let mut fields = MapEntries::default();
        for step in steps {
            self.meter.work(1)?;
            let step = step?;
            if !self.passes(fold, &step)? {
                continue;
            }
            let result = self.step(&fold.body, &step)?;
            if fold.fold == FoldKind::Values {
                self.meter.charge(INSERT_COST + 1)?;
                insert(&mut fields, MapKey::of(&step.0), result)?;
                continue;
            }
            self.meter.charge(INSERT_COST)?;
            let Value::Map(entries) = result else {
                return Err(NO_SUCH_OVERLOAD);
            };
            for key in entries.keys() {
                self.meter.work(1)?;
                if let Some(value) = entries.get(self.environment, &key) {
                    insert(&mut fields, Some(key), value?)?;
                }
            }
        }
        self.meter.charge(RESULT_COST)?;
        Ok(Value::Map(Map::Made(Arc::new(fields))))
    }
}

fn insert<'v>(fields: &mut MapEntries<'v>, key: Option<MapKey<'v>>, value: Value<'v>) -> Result<(), EvalError> {
    let key = key.ok_or_else(|| EvalError::fixed("unsupported key type"))?;
    if fields.entries.contains_key(&key) {
        let text = format!(
            "insert failed: key {} already exists",
            crate::library::display(&key.value())
        );
        return Err(EvalError::failed(text));
    }
    fields.entries.insert(key, value);
    Ok(())
}
