//! CEL expressions about claims and users: compiled once, evaluated for every token
//! (`k8s.io/apiserver/pkg/authentication/cel`).

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use trireme_cel::{self as cel, Activation, Budget, Environment, Program, RUNTIME_BUDGET, Type};
use trireme_machinery::field::{self, Path};

/// The variable of expressions about claims.
pub(super) const CLAIMS: &str = "claims";
/// The variable of expressions about the user.
const USER: &str = "user";
const NO_TEXTS: &str = "expression must return a string or a list of strings";

static CLAIMS_ENVIRONMENT: LazyLock<Arc<Environment>> = LazyLock::new(|| Arc::new(Environment::claims()));
static USER_ENVIRONMENT: LazyLock<Arc<Environment>> = LazyLock::new(|| Arc::new(Environment::user()));

/// A compiled expression with its source.
#[derive(Debug)]
pub(super) struct IdentityExpression {
    pub(super) source: String,
    variable: &'static str,
    program: Program,
}

impl IdentityExpression {
    /// An expression about claims, which may give anything.
    pub(super) fn of_claims(source: &str, path: &Path<'_>) -> Result<Self, field::Error> {
        Self::compile(source, path, CLAIMS, &CLAIMS_ENVIRONMENT)
    }

    /// An expression about claims that is true or false.
    pub(super) fn claim_rule(source: &str, path: &Path<'_>) -> Result<Self, field::Error> {
        Self::of_claims(source, path)?.must_be_bool(path)
    }

    /// An expression about a user that is true or false.
    pub(super) fn user_rule(source: &str, path: &Path<'_>) -> Result<Self, field::Error> {
        Self::compile(source, path, USER, &USER_ENVIRONMENT)?.must_be_bool(path)
    }

    fn compile(
        source: &str,
        path: &Path<'_>,
        variable: &'static str,
        environment: &Arc<Environment>,
    ) -> Result<Self, field::Error> {
        let program = Program::new(Arc::clone(environment), source);
        let program = program
            .map_err(|error| field::Error::invalid_str(path, source, &format!("compilation failed: {error}")))?;
        Ok(Self {
            source: source.to_owned(),
            variable,
            program,
        })
    }

    fn must_be_bool(self, path: &Path<'_>) -> Result<Self, field::Error> {
        if self.program.output() == &Type::Bool {
            return Ok(self);
        }
        Err(field::Error::invalid_str(path, &self.source, "must evaluate to bool"))
    }

    fn evaluate<'v>(&'v self, subject: &'v Value) -> Result<cel::Value<'v>, String> {
        let activation = Activation::new().with_json(self.variable, subject);
        let evaluated = self.program.evaluate(&activation, &mut Budget::new(RUNTIME_BUDGET));
        evaluated
            .result
            .map_err(|error| format!("expression '{}' resulted in error: {error}", self.source))
    }

    /// The text that it gives; none if it gives something else.
    pub(super) fn text(&self, subject: &Value) -> Result<Option<String>, String> {
        let value = self.evaluate(subject)?;
        Ok(value.as_str().map(str::to_owned))
    }

    /// The texts that it gives. Empty ones count for nothing.
    pub(super) fn texts(&self, subject: &Value) -> Result<Result<Vec<String>, &'static str>, String> {
        let texts = match self.evaluate(subject)? {
            cel::Value::Null => Some(Vec::new()),
            cel::Value::String(text) => Some(vec![text.as_str().to_owned()]),
            cel::Value::List(list) => list.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            _ => None,
        };
        let filled = |texts: Vec<String>| texts.into_iter().filter(|text| !text.is_empty()).collect();
        Ok(texts.map(filled).ok_or(NO_TEXTS))
    }
}

/// An expression that must be true, and the message if it is not.
#[derive(Debug)]
pub(super) struct ValidationRule {
    pub(super) expression: IdentityExpression,
    pub(super) message: String,
}

impl ValidationRule {
    /// Holds all rules against a subject. All are evaluated before one is judged, as upstream.
    pub(super) fn check(rules: &[Self], subject: &Value) -> Result<(), String> {
        let evaluate = |rule: &Self| rule.expression.evaluate(subject).map(|value| value.as_bool());
        let verdicts: Vec<Option<bool>> = rules.iter().map(evaluate).collect::<Result<_, _>>()?;
        for (rule, verdict) in rules.iter().zip(verdicts) {
            match verdict {
                Some(true) => {}
                None => return Err("validation expression must return a boolean".to_owned()),
                Some(false) => {
                    let (source, message) = (&rule.expression.source, &rule.message);
                    return Err(format!("validation expression '{source}' failed: {message}"));
                }
            }
        }
        Ok(())
    }
}
