//! Policies evaluated without a server.

use std::sync::Arc;

use serde_json::{Value, json};
use trireme_cel::{Activation, Budget};

use super::{
    policy::Policy,
    scope::{EvaluationScope, Variables},
    validation::Validations,
};

fn policy(spec: Value) -> Policy<Validations> {
    Policy::compile(&json!({ "metadata": { "name": "p" }, "spec": spec }))
}

/// The failed validations of an object: their messages.
fn messages(spec: Value, object: &Value) -> Vec<String> {
    let policy = policy(spec);
    let base = Activation::new().with_json("object", object);
    let scope = EvaluationScope::new(base, &policy.variables);
    let variables = Variables(&scope);
    scope.bind(&variables);
    match policy.validations(&scope) {
        Ok(validated) => validated.failed.into_iter().map(|failed| failed.message).collect(),
        Err(error) => vec![error],
    }
}

#[test]
fn a_variable_is_evaluated_when_it_is_asked_for() {
    let spec = json!({
        "variables": [
            { "name": "n", "expression": "object.n" },
            { "name": "twice", "expression": "variables.n * 2" },
            { "name": "unused", "expression": "object.missing" },
        ],
        "validations": [
            { "expression": "variables.twice < 5", "messageExpression": "'twice is ' + string(variables.twice)" },
            { "expression": "variables.n < 10 || variables.unused == 1" },
        ],
    });
    assert_eq!(messages(spec.clone(), &json!({"n": 3})), ["twice is 6"]);
    assert!(messages(spec.clone(), &json!({"n": 1})).is_empty());
    let missing = messages(spec, &json!({"n": 11}));
    let expected = "expression 'variables.n < 10 || variables.unused == 1' resulted in error: composited variable \
                    \"unused\" fails to evaluate: no such key: missing";
    assert_eq!(missing, ["twice is 22", expected]);
}

#[test]
fn a_message_falls_back_to_the_expression() {
    let message = |validation: Value| {
        let messages = messages(json!({ "validations": [validation] }), &json!({}));
        messages.concat()
    };
    assert_eq!(message(json!({ "expression": " false " })), "failed expression: false");
    let fallback = json!({ "expression": "false", "message": " no ", "messageExpression": "object.x" });
    assert_eq!(message(fallback), "no");
    let lines = json!({ "expression": "false", "message": "no", "messageExpression": "'a\\nb'" });
    assert_eq!(message(lines), "no");
}

#[test]
fn all_expressions_of_a_policy_share_a_budget() {
    let costly = "[1,2,3,4,5,6,7,8,9].all(a, [1,2,3,4,5,6,7,8,9].all(b, [1,2,3,4,5,6,7,8,9].all(c, \
                  [1,2,3,4,5,6,7,8,9].all(d, [1,2,3,4,5,6,7,8,9].all(e, a + b + c + d + e > 0)))))";
    let validations = vec![json!({ "expression": costly }); 20];
    let found = messages(json!({ "validations": validations }), &json!({}));
    let expected = "validation failed due to running out of cost budget, no further validation rules will be run";
    assert_eq!(found, [expected]);
}

#[test]
fn variables_cost_what_their_evaluation_costs() {
    let spec = json!({
        "variables": [{ "name": "v", "expression": "[1, 2, 3].all(n, n > 0)" }],
        "validations": [{ "expression": "variables.v" }],
    });
    let policy = policy(spec);
    let scope = EvaluationScope::new(Activation::new(), &policy.variables);
    let variables = Variables(&scope);
    scope.bind(&variables);
    let expression = policy.rules.expression(0);
    let mut budget = Budget::new(1_000);
    let evaluate = |budget: &mut Budget| {
        let before = budget.left();
        let value = scope
            .evaluate(expression, budget)
            .ok()
            .and_then(|value| value.as_bool());
        assert_eq!(value, Some(true));
        before - budget.left()
    };
    let (first, second) = (evaluate(&mut budget), evaluate(&mut budget));
    assert!(first > second, "a variable is evaluated once: {first}, {second}");
}

#[test]
fn a_compiled_policy_is_shared_by_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&Arc::new(policy(json!({}))));
}
