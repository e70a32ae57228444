//! Match conditions: expressions that say which of the matching requests a webhook or a policy is asked about
//! (`k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions`). Compiled once per change of a configuration.

use std::sync::Arc;

use serde_json::Value;
use trireme_cel::{Activation, Budget, Environment, MATCH_CONDITIONS_BUDGET};

use crate::{
    expression::{CompiledExpression, EvaluationFailure},
    expression_input::ExpressionInput,
};

/// The conditions of a webhook or a policy.
pub(crate) struct MatchConditions {
    expressions: Vec<CompiledExpression>,
    /// One of them speaks of `request`.
    name_request: bool,
}

/// The result of match conditions for a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConditionOutcome {
    /// All of them hold.
    Hold,
    /// One is false, whatever errors others have.
    Fail,
    /// Some have errors, and none is false.
    Errors(String),
}

impl MatchConditions {
    /// Compiles `matchConditions`.
    pub(crate) fn compile(environment: &Arc<Environment>, conditions: Option<&Value>) -> Self {
        let items = conditions.and_then(Value::as_array).into_iter().flatten();
        let texts = items.filter_map(|item| item.get("expression")?.as_str());
        let expressions: Vec<_> = texts
            .map(|text| CompiledExpression::compile(environment, text))
            .collect();
        Self {
            name_request: expressions
                .iter()
                .any(|expression| expression.text().contains("request")),
            expressions,
        }
    }

    /// Reports whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Evaluates the conditions for a request.
    pub(crate) fn evaluate(&self, input: &ExpressionInput<'_>, params: &Value) -> ConditionOutcome {
        if self.is_empty() {
            return ConditionOutcome::Hold;
        }
        self.outcome(&input.activation_of_conditions(params, self.name_request))
    }

    fn outcome<'v>(&'v self, activation: &Activation<'v>) -> ConditionOutcome {
        let mut budget = Budget::new(MATCH_CONDITIONS_BUDGET);
        let mut errors = Vec::new();
        for expression in &self.expressions {
            match expression.evaluate(activation, &mut budget) {
                Ok(value) if value.as_bool() == Some(false) => return ConditionOutcome::Fail,
                Ok(_) => {}
                Err(EvaluationFailure::OutOfBudget) => {
                    return ConditionOutcome::Errors(EvaluationFailure::OutOfBudget.text());
                }
                Err(failure) => errors.push(failure.text()),
            }
        }
        match errors.as_slice() {
            [] => ConditionOutcome::Hold,
            [one] => ConditionOutcome::Errors(one.clone()),
            several => ConditionOutcome::Errors(format!("[{}]", several.join(", "))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trireme_cel::{AdmissionVariables, AuthorizerCheck, CheckAuthorizer, CheckDecision, authority};

    use super::*;

    /// Allows to get, and nothing else.
    struct Reader;

    impl CheckAuthorizer for Reader {
        fn authorize(&self, check: &AuthorizerCheck) -> CheckDecision {
            CheckDecision {
                allowed: format!("{check:?}").contains("\"get\""),
                ..CheckDecision::default()
            }
        }
    }

    #[test]
    fn one_that_is_false_decides_whatever_errors_others_have() {
        let outcome = |expressions: &[&str]| {
            let items: Value = expressions
                .iter()
                .map(|text| json!({"name": "n", "expression": text}))
                .collect();
            let variables = AdmissionVariables {
                authorizer: true,
                ..AdmissionVariables::default()
            };
            let environment = Arc::new(Environment::admission(variables));
            let (object, request) = (json!({"data": {"a": "1"}}), json!({"operation": "CREATE"}));
            let activation = Activation::new()
                .with_json("object", &object)
                .with_json("oldObject", &Value::Null)
                .with_json("request", &request)
                .with_value("authorizer", authority(&Reader, AuthorizerCheck::default()));
            MatchConditions::compile(&environment, Some(&items)).outcome(&activation)
        };
        assert_eq!(
            outcome(&["object.data.a == '1'", "request.operation == 'CREATE'"]),
            ConditionOutcome::Hold
        );
        assert_eq!(outcome(&["object.data.b == '1'", "false"]), ConditionOutcome::Fail);
        let error = "expression 'object.data.b == '1'' resulted in error: no such key: b";
        assert_eq!(
            outcome(&["object.data.b == '1'", "true"]),
            ConditionOutcome::Errors(error.to_owned())
        );
        assert_eq!(outcome(&["oldObject == null"]), ConditionOutcome::Hold);
        let check = |verb: &str| format!("authorizer.group('').resource('pods').check('{verb}').allowed()");
        assert_eq!(outcome(&[&check("get")]), ConditionOutcome::Hold);
        assert_eq!(outcome(&[&check("delete")]), ConditionOutcome::Fail);
    }
}
