//! The evaluator: a plan is walked once, every step charged to the meter.
//!
//! Errors are values as far as `&&`, `||`, `all` and `exists` absorb them; what ends an evaluation (its cost) is never
//! absorbed. Recursion is as deep as the plan, whose depth the parser has bounded.

mod access;
mod fold;

use std::sync::Arc;

use serde_json::Value as Json;

use crate::{
    environment::Environment,
    library::CallContext,
    meter::{EvalError, Meter},
    plan::{CallNode, EntryNode, OptionalMapNode, PlanNode, StructNode},
    types::Type,
    value::{Map, MapEntries, MapKey, Text, Value},
};

pub(crate) const NO_SUCH_OVERLOAD: EvalError = EvalError::fixed("no such overload");
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
const STRUCT_COST: u64 = 40;

pub(crate) type EvalResult<'v> = Result<Value<'v>, EvalError>;

/// The values of an environment's variables. It is made once for a request and serves all its expressions.
#[derive(Debug, Clone, Default)]
pub struct Activation<'v> {
    variables: Vec<(&'v str, LoopBinding<'v>)>,
}

#[derive(Debug, Clone)]
enum LoopBinding<'v> {
    Json(&'v Json),
    OptionalJson(Option<&'v Json>),
    Value(Value<'v>),
}

impl<'v> Activation<'v> {
    /// No variables.
    pub const fn new() -> Self {
        Self { variables: Vec::new() }
    }

    /// With an object, which is read as the type that the environment declares for the variable.
    #[must_use]
    pub fn with_json(mut self, name: &'v str, json: &'v Json) -> Self {
        self.variables.push((name, LoopBinding::Json(json)));
        self
    }

    /// With an optional object, which is read as the type that the environment declares to be in the optional.
    #[must_use]
    pub fn with_optional_json(mut self, name: &'v str, json: Option<&'v Json>) -> Self {
        self.variables.push((name, LoopBinding::OptionalJson(json)));
        self
    }

    /// With a value.
    #[must_use]
    pub fn with_value(mut self, name: &'v str, value: Value<'v>) -> Self {
        self.variables.push((name, LoopBinding::Value(value)));
        self
    }
}

/// One evaluation of a plan.
pub(crate) struct Evaluation<'v, 'a> {
    pub(crate) environment: &'v Environment,
    pub(crate) activation: &'a Activation<'v>,
    /// Values of the expression's own variables, the innermost last.
    pub(crate) locals: Vec<Value<'v>>,
    pub(crate) meter: Meter,
}

impl<'v> Evaluation<'v, '_> {
    pub(crate) fn eval(&mut self, node: &'v PlanNode) -> EvalResult<'v> {
        match node {
            PlanNode::Constant(value) => Ok(value.clone()),
            PlanNode::Variable(name) => self.variable(name),
            PlanNode::Local(at) => self.local(*at),
            PlanNode::Select(select) => self.select(select),
            PlanNode::Has(select) => self.has(select),
            PlanNode::Index(index) => self.index(index),
            PlanNode::And(terms) => self.logical(terms, false),
            PlanNode::Or(terms) => self.logical(terms, true),
            PlanNode::Conditional(parts) => self.conditional(parts),
            PlanNode::Call(call) => self.call(call),
            PlanNode::List(items, optional) => self.list(items, optional),
            PlanNode::Map(entries) => self.map(entries),
            PlanNode::Struct(created) => self.structure(created),
            PlanNode::Fold(fold) => self.fold(fold),
            PlanNode::OptionalMap(mapped) => self.optional_map(mapped),
            PlanNode::Bind(parts) => self.bind(parts),
        }
    }

    fn variable(&mut self, name: &'v str) -> EvalResult<'v> {
        self.meter.charge(1)?;
        let mut variables = self.activation.variables.iter();
        match variables.find(|(bound, _)| *bound == name) {
            Some((_, LoopBinding::Value(value))) => Ok(value.clone()),
            Some((_, LoopBinding::Json(json))) => Ok(Value::of_json(json, self.json_type(name))),
            Some((_, LoopBinding::OptionalJson(json))) => {
                let value = json.map(|json| Value::of_json(json, self.json_type(name)));
                Ok(Value::Optional(value.map(Arc::new)))
            }
            None => Err(EvalError::failed(format!("no such attribute(s): {name}"))),
        }
    }

    /// The type by which the JSON of a variable is read.
    fn json_type(&self, variable: &str) -> &'v Type {
        match self.environment.variable(variable) {
            Some(Type::Optional(inner)) => inner,
            Some(kind) => kind,
            None => &Type::Dyn,
        }
    }

    fn local(&mut self, at: usize) -> EvalResult<'v> {
        self.meter.charge(1)?;
        self.locals.get(at).cloned().ok_or(NO_SUCH_OVERLOAD)
    }

    /// `&&` and `||`: a term that decides wins over terms that fail.
    fn logical(&mut self, terms: &'v [PlanNode], deciding: bool) -> EvalResult<'v> {
        let mut failed = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == deciding => return Ok(Value::Bool(deciding)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(NO_SUCH_OVERLOAD)),
                Err(error) if error.is_final() => return Err(error),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(Value::Bool(!deciding)), Err)
    }

    fn conditional(&mut self, [condition, truthy, falsy]: &'v [PlanNode; 3]) -> EvalResult<'v> {
        let branch = match self.eval(condition)? {
            Value::Bool(true) => truthy,
            Value::Bool(false) => falsy,
            _ => return Err(NO_SUCH_OVERLOAD),
        };
        match branch {
            // cel-go resolves a name in a branch without a step of its own.
            PlanNode::Local(at) => self.locals.get(*at).cloned().ok_or(NO_SUCH_OVERLOAD),
            branch => self.eval(branch),
        }
    }

    fn call(&mut self, call: &'v CallNode) -> EvalResult<'v> {
        match call.args.as_slice() {
            [] => self.run(call, &[]),
            [one] => {
                let args = [self.eval(one)?];
                self.run(call, &args)
            }
            [one, two] => {
                let args = [self.eval(one)?, self.eval(two)?];
                self.run(call, &args)
            }
            many => {
                let mut args = Vec::with_capacity(many.len());
                for argument in many {
                    args.push(self.eval(argument)?);
                }
                self.run(call, &args)
            }
        }
    }

    fn run(&mut self, call: &'v CallNode, args: &[Value<'v>]) -> EvalResult<'v> {
        if !call.is_free {
            call.function.charge(args, &mut self.meter)?;
        }
        let mut context = CallContext {
            environment: self.environment,
            meter: &mut self.meter,
            pattern: call.pattern.as_ref(),
        };
        call.function.run(args, &mut context)
    }

    fn list(&mut self, items: &'v [PlanNode], optional: &[usize]) -> EvalResult<'v> {
        let mut values = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let value = self.eval(item)?;
            if optional.contains(&at) {
                values.extend(without_optional(value, "list element")?);
            } else {
                values.push(value);
            }
        }
        self.meter.charge(LIST_COST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, nodes: &'v [EntryNode]) -> EvalResult<'v> {
        let mut fields = MapEntries::default();
        for node in nodes {
            let key = self.eval(&node.key)?;
            let key = MapKey::of(&key).ok_or_else(|| EvalError::fixed("unsupported key type"))?;
            let mut value = Some(self.eval(&node.value)?);
            if let Some(inner) = value.take_if(|_| node.optional) {
                value = without_optional(inner, "map entry")?;
            }
            if let Some(value) = value {
                fields.entries.insert(key, value);
            }
        }
        self.meter.charge(MAP_COST)?;
        Ok(Value::Map(Map::Made(Arc::new(fields))))
    }

    fn structure(&mut self, created: &'v StructNode) -> EvalResult<'v> {
        let mut fields = MapEntries {
            name: Some(Arc::clone(&created.name)),
            ..MapEntries::default()
        };
        for (name, node, optional) in &created.fields {
            let mut value = Some(self.eval(node)?);
            if let Some(inner) = value.take_if(|_| *optional) {
                value = without_optional(inner, "field")?;
            }
            if let Some(value) = value {
                fields
                    .entries
                    .insert(MapKey::String(Text::Shared(Arc::clone(name))), value);
            }
        }
        self.meter.charge(STRUCT_COST)?;
        Ok(Value::Map(Map::Made(Arc::new(fields))))
    }

    fn optional_map(&mut self, mapped: &'v OptionalMapNode) -> EvalResult<'v> {
        let before = self.meter.cost();
        let Value::Optional(target) = self.eval(&mapped.target)? else {
            return Err(NO_SUCH_OVERLOAD);
        };
        // cel-go asks for `hasValue()`, and evaluates the target again for `value()`.
        let of_target = self.meter.cost() - before;
        self.meter.charge(1)?;
        let Some(inner) = target else {
            self.meter.charge(1)?;
            return Ok(Value::Optional(None));
        };
        self.meter.charge(of_target + 1)?;
        let result = self.with_locals([inner.as_ref().clone()], &mapped.body)?;
        if mapped.flat {
            return Ok(result);
        }
        self.meter.charge(1)?;
        Ok(result.some())
    }

    fn bind(&mut self, [value, body]: &'v [PlanNode; 2]) -> EvalResult<'v> {
        let value = self.eval(value)?;
        self.with_locals([value], body)
    }

    pub(crate) fn with_locals<const N: usize>(&mut self, values: [Value<'v>; N], body: &'v PlanNode) -> EvalResult<'v> {
        let depth = self.locals.len();
        self.locals.extend(values);
        let result = self.eval(body);
        self.locals.truncate(depth);
        result
    }
}

/// The value in an optional that is written with a question mark.
fn without_optional<'v>(value: Value<'v>, what: &str) -> Result<Option<Value<'v>>, EvalError> {
    match value {
        Value::Optional(inner) => Ok(inner.map(|inner| inner.as_ref().clone())),
        other => {
            let kind = other.kind_name();
            let text = format!("cannot initialize optional {what} from non-optional value of type {kind}");
            Err(EvalError::failed(text))
        }
    }
}
