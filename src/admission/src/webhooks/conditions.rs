//! Match conditions: expressions that say which of the matching requests a webhook is asked about
//! (`k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions`). Compiled once per change of a configuration.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use trireme_cel::{
    Activation, AdmissionVariables, AuthorizerCheck, Budget, CheckAuthorizer, Environment, EvalError,
    MATCH_CONDITIONS_BUDGET, Program, authority,
};

/// The conditions of a webhook.
pub(super) struct MatchConditions(Vec<MatchCondition>);

struct MatchCondition {
    text: String,
    /// The program, or why there is none: what was stored may have been checked by another release.
    program: Result<Program, String>,
}

/// The result of match conditions for a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConditionOutcome {
    /// All of them hold.
    Hold,
    /// One is false, whatever errors others have.
    Fail,
    /// Some have errors, and none is false.
    Errors(String),
}

static ENVIRONMENT: LazyLock<Arc<Environment>> = LazyLock::new(|| {
    let variables = AdmissionVariables {
        authorizer: true,
        ..AdmissionVariables::default()
    };
    Arc::new(Environment::admission(variables))
});

impl MatchConditions {
    /// Compiles `matchConditions`.
    pub(super) fn read(conditions: Option<&Value>) -> Self {
        let items = conditions.and_then(Value::as_array).into_iter().flatten();
        let texts = items.filter_map(|item| item.get("expression")?.as_str());
        let compile = |text: &str| MatchCondition {
            text: text.to_owned(),
            program: Program::new(Arc::clone(&ENVIRONMENT), text).map_err(|error| error.to_string()),
        };
        Self(texts.map(compile).collect())
    }

    /// Reports whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Evaluates the conditions of a request, given as it is in a review. `resource` is what the request is for.
    pub(super) fn evaluate(
        &self,
        request: &Value,
        authorizer: &dyn CheckAuthorizer,
        resource: AuthorizerCheck,
    ) -> ConditionOutcome {
        let object = |name: &str| request.get(name).unwrap_or(&Value::Null);
        let activation = Activation::new()
            .with_json("object", object("object"))
            .with_json("oldObject", object("oldObject"))
            .with_json("request", request)
            .with_value("authorizer", authority(authorizer, AuthorizerCheck::default()))
            .with_value("authorizer.requestResource", authority(authorizer, resource));
        let mut budget = Budget::new(MATCH_CONDITIONS_BUDGET);
        let mut errors = Vec::new();
        for condition in &self.0 {
            match condition.evaluate(&activation, &mut budget) {
                Ok(true) => {}
                Ok(false) => return ConditionOutcome::Fail,
                Err((text, true)) => return ConditionOutcome::Errors(text),
                Err((text, false)) => errors.push(text),
            }
        }
        match errors.as_slice() {
            [] => ConditionOutcome::Hold,
            [one] => ConditionOutcome::Errors(one.clone()),
            several => ConditionOutcome::Errors(format!("[{}]", several.join(", "))),
        }
    }
}

impl MatchCondition {
    /// The value, or the error, and whether it ends the evaluation of all conditions.
    fn evaluate<'v>(&'v self, activation: &Activation<'v>, budget: &mut Budget) -> Result<bool, (String, bool)> {
        let program = match &self.program {
            Ok(program) => program,
            Err(error) => return Err((format!("compilation error: {error}"), false)),
        };
        match program.evaluate(activation, budget).result {
            Ok(value) => Ok(value.as_bool() != Some(false)),
            Err(error @ EvalError::BudgetExhausted) => Err((error.to_string(), true)),
            Err(error) => Err((format!("expression '{}' resulted in error: {error}", self.text), false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use trireme_cel::CheckDecision;

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
            let request = json!({"operation": "CREATE", "object": {"data": {"a": "1"}}});
            MatchConditions::read(Some(&items)).evaluate(&request, &Reader, AuthorizerCheck::default())
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
