//! Programs: expressions that were parsed, checked and planned once, and are evaluated many times from many threads.

use std::{fmt, sync::Arc};

use crate::{
    authorizer::{AuthorizerCheck, AuthorizerRef, CheckAuthorizer},
    check,
    environment::Environment,
    error::{CompileError, Issue},
    estimate::{self, BoundSizes, Estimate},
    eval::{Activation, Evaluation},
    meter::{Budget, EvalError, Meter, PER_CALL_LIMIT},
    plan::{self, PlanNode},
    syntax::{self, MAX_DEPTH, SyntaxError, ast::Expression},
    types::Type,
    value::{AuthorizerValue, Opaque, Value},
};

/// The most characters of an expression (cel-go's `expressionSizeCodePointLimit`).
const MAX_CHARACTERS: usize = 100_000;

/// A compiled expression.
pub struct Program {
    environment: Arc<Environment>,
    output: Type,
    plan: PlanNode,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("output", &self.output)
            .finish_non_exhaustive()
    }
}

/// The result of an evaluation, and its cost.
#[derive(Debug)]
pub struct Evaluated<'v> {
    /// The value, or why there is none.
    pub result: Result<Value<'v>, EvalError>,
    /// The cost, also of an evaluation without a value.
    pub cost: u64,
}

/// The type that an expression evaluates to in an environment.
///
/// # Errors
/// All errors that were found, if the expression cannot be parsed or does not fit the environment.
pub fn compile(environment: &Environment, expression: &str) -> Result<Type, CompileError> {
    checked(environment, expression).map(|(_, output)| output)
}

impl Program {
    /// Compiles an expression.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn new(environment: Arc<Environment>, expression: &str) -> Result<Self, CompileError> {
        let (checked, output) = checked(&environment, expression)?;
        Self::planned(environment, expression, &checked, output)
    }

    /// Compiles an expression and estimates what an evaluation costs, for values no larger than `sizes` tells.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn with_estimate(
        environment: Arc<Environment>,
        expression: &str,
        sizes: &dyn BoundSizes,
    ) -> Result<(Self, Estimate), CompileError> {
        let parsed = parsed(&environment, expression)?;
        let mut checker = check::TypeChecker::recording(&environment);
        let output = checked_type(&mut checker, expression, &parsed)?;
        let cost = estimate::estimate(&checker, &parsed, sizes);
        drop(checker);
        Ok((Self::planned(environment, expression, &parsed, output)?, cost))
    }

    fn planned(
        environment: Arc<Environment>,
        expression: &str,
        checked: &Expression,
        output: Type,
    ) -> Result<Self, CompileError> {
        let plan = plan::plan(&environment, checked).map_err(|text| CompileError::whole(expression, text))?;
        Ok(Self {
            environment,
            output,
            plan,
        })
    }

    /// The type that the expression evaluates to.
    pub const fn output(&self) -> &Type {
        &self.output
    }

    /// Evaluates the expression; it may cost [`PER_CALL_LIMIT`], and no more than is left of the budget, from which its
    /// cost is taken.
    pub fn evaluate<'v>(&'v self, activation: &Activation<'v>, budget: &mut Budget) -> Evaluated<'v> {
        let limit = budget.left().min(PER_CALL_LIMIT);
        let mut evaluation = Evaluation {
            environment: &self.environment,
            activation,
            locals: Vec::new(),
            meter: Meter::new(limit),
        };
        let mut result = evaluation.eval(&self.plan);
        let cost = evaluation.meter.cost();
        let is_spent = budget.spend(cost).is_err();
        if is_spent && matches!(result, Err(EvalError::CostLimitExceeded)) {
            result = Err(EvalError::BudgetExhausted);
        }
        Evaluated { result, cost }
    }
}

/// The value of the variable `authorizer`, and with a resource that of `authorizer.requestResource`.
pub fn authority<'v>(authorizer: &'v dyn CheckAuthorizer, check: AuthorizerCheck) -> Value<'v> {
    let authorizer = AuthorizerRef(authorizer);
    Value::Opaque(Opaque::Authority(Arc::new(AuthorizerValue { authorizer, check })))
}

fn checked(environment: &Environment, expression: &str) -> Result<(Expression, Type), CompileError> {
    let parsed = parsed(environment, expression)?;
    let output = checked_type(&mut check::TypeChecker::new(environment), expression, &parsed)?;
    Ok((parsed, output))
}

fn parsed(environment: &Environment, expression: &str) -> Result<Expression, CompileError> {
    let characters = expression.chars().count();
    if characters > MAX_CHARACTERS {
        let text = format!("expression code point size exceeds limit: size: {characters}, limit {MAX_CHARACTERS}");
        return Err(CompileError::whole(expression, text));
    }
    syntax::parse(expression, environment.has_bindings()).map_err(|error| match error {
        SyntaxError::TooDeep => {
            CompileError::whole(expression, format!("expression recursion limit exceeded: {MAX_DEPTH}"))
        }
        SyntaxError::At(offset, text) => syntax::describe(expression, offset, text),
    })
}

fn checked_type(
    checker: &mut check::TypeChecker<'_>,
    expression: &str,
    parsed: &Expression,
) -> Result<Type, CompileError> {
    let output = checker.check(parsed);
    let output = checker.resolved(&output);
    let mut errors = std::mem::take(&mut checker.errors);
    if errors.is_empty() {
        checker.check_formats();
        errors = std::mem::take(&mut checker.literal_errors);
    }
    if errors.is_empty() {
        return Ok(output);
    }
    let issue = |(offset, text)| Issue::at_offset(expression, usize::try_from(offset).unwrap_or(0), text);
    Err(CompileError::new(expression, errors.into_iter().map(issue).collect()))
}
