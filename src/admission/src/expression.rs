//! Expressions as they are compiled once per policy or webhook, and the evaluation of one.

use std::sync::Arc;

use trireme_cel::{Activation, Budget, Environment, EvalError, Program, Type, Value};

/// An expression and its program.
pub(crate) struct CompiledExpression {
    text: String,
    /// The program, or why there is none: what was stored may have been checked by another release.
    pub(crate) program: Result<Program, String>,
}

/// The reason that an expression has no value.
pub(crate) enum EvaluationFailure {
    /// The budget is spent: no further expression is evaluated.
    OutOfBudget,
    /// The expression has no value.
    Expression(String),
}

impl EvaluationFailure {
    pub(crate) fn text(self) -> String {
        match self {
            Self::OutOfBudget => EvalError::BudgetExhausted.to_string(),
            Self::Expression(text) => text,
        }
    }
}

impl CompiledExpression {
    pub(crate) fn compile(environment: &Arc<Environment>, text: &str) -> Self {
        let program = Program::new(Arc::clone(environment), text);
        Self {
            text: text.to_owned(),
            program: program.map_err(|error| error.to_string()),
        }
    }

    /// The expression as it was written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The type of its values.
    pub(crate) fn output(&self) -> Type {
        self.program
            .as_ref()
            .map_or(Type::Dyn, |program| program.output().clone())
    }

    /// Its value, at the cost of a budget.
    pub(crate) fn evaluate<'v>(
        &'v self,
        activation: &Activation<'v>,
        budget: &mut Budget,
    ) -> Result<Value<'v>, EvaluationFailure> {
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return Err(EvaluationFailure::Expression(format!("compilation error: {error}"))),
        };
        program
            .evaluate(activation, budget)
            .result
            .map_err(|error| match error {
                EvalError::BudgetExhausted => EvaluationFailure::OutOfBudget,
                error => {
                    EvaluationFailure::Expression(format!("expression '{}' resulted in error: {error}", self.text))
                }
            })
    }
}
