//! The values that a policy's expressions speak of, for one request and one object of parameters.
//!
//! Variables are evaluated when they are first asked for and then remembered. Their costs count for the expression that asked,
//! as `k8s.io/apiserver/pkg/admission/plugin/cel/composition.go` does it.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use trireme_cel::{Activation, Budget, EvalError, LazyFields, Map, RUNTIME_BUDGET, Value};

use super::policy::Variable;
use crate::expression::{CompiledExpression, EvaluationFailure};

/// The values of one evaluation. Bound to itself by [`bind`](Self::bind): variables may speak of those before them.
pub(super) struct EvaluationScope<'v> {
    variables: &'v [Variable],
    remembered: Vec<OnceLock<Result<Value<'v>, EvalError>>>,
    base: Activation<'v>,
    activation: OnceLock<Activation<'v>>,
    /// The costs of variables that are not yet counted.
    cost: AtomicU64,
}

/// The variable `variables`.
pub(super) struct Variables<'v>(pub(super) &'v EvaluationScope<'v>);

impl<'v> EvaluationScope<'v> {
    pub(super) fn new(base: Activation<'v>, variables: &'v [Variable]) -> Self {
        Self {
            variables,
            remembered: variables.iter().map(|_| OnceLock::new()).collect(),
            base,
            activation: OnceLock::new(),
            cost: AtomicU64::new(0),
        }
    }

    /// Makes `variables` known to the expressions.
    pub(super) fn bind(&self, variables: &'v Variables<'v>) {
        self.activation.get_or_init(|| {
            self.base
                .clone()
                .with_value("variables", Value::Map(Map::Lazy(variables)))
        });
    }

    fn activation(&self) -> &Activation<'v> {
        self.activation.get().unwrap_or(&self.base)
    }

    /// Evaluates an expression at the cost of a budget.
    pub(super) fn evaluate(
        &self,
        expression: &'v CompiledExpression,
        budget: &mut Budget,
    ) -> Result<Value<'v>, EvaluationFailure> {
        let evaluated = expression.evaluate(self.activation(), budget);
        match budget.spend(self.cost.swap(0, Ordering::Relaxed)) {
            Ok(()) => evaluated,
            Err(_) => Err(EvaluationFailure::OutOfBudget),
        }
    }

    fn variable(&self, name: &str) -> Option<Result<Value<'v>, EvalError>> {
        let index = self.variables.iter().position(|variable| variable.name == name)?;
        let (variable, remembered) = (self.variables.get(index)?, self.remembered.get(index)?);
        Some(remembered.get_or_init(|| self.value_of(variable)).clone())
    }

    fn value_of(&self, variable: &'v Variable) -> Result<Value<'v>, EvalError> {
        let name = &variable.name;
        let program =
            variable.expression.program.as_ref().map_err(|error| {
                EvalError::failed(format!("composited variable \"{name}\" fails to compile: {error}"))
            })?;
        // Its evaluation has the limit of every one; what it costs is taken from the budget of who asks for it.
        let evaluated = program.evaluate(self.activation(), &mut Budget::new(RUNTIME_BUDGET));
        self.cost.fetch_add(evaluated.cost, Ordering::Relaxed);
        evaluated
            .result
            .map_err(|error| EvalError::failed(format!("composited variable \"{name}\" fails to evaluate: {error}")))
    }
}

impl LazyFields for Variables<'_> {
    fn field(&self, name: &str) -> Option<Result<Value<'_>, EvalError>> {
        self.0.variable(name)
    }
}
