//! Expressions: each line is one. It compiles or gets errors; what compiles evaluates within its budget.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};
use trireme_cel::{Activation, AdmissionVariables, Budget, Environment, Program};

use crate::input::text_lines;

static ENVIRONMENT: LazyLock<Arc<Environment>> = LazyLock::new(|| {
    Arc::new(Environment::admission(AdmissionVariables {
        params: true,
        authorizer: false,
        patch_types: true,
    }))
});
static OBJECT: LazyLock<Value> = LazyLock::new(
    || json!({"metadata": {"name": "web", "labels": {"a": "b"}}, "spec": {"replicas": 3, "items": [1, "x", null, {"y": 0.5}]}}),
);

/// So little that an input stays well below a second.
const BUDGET: u64 = 20_000;
/// The last step may cost as much as its arguments are large.
const LAST_STEP: u64 = 10_000_000;

/// Checks each line.
pub fn check(data: &[u8]) {
    for expression in text_lines(data) {
        match Program::new(Arc::clone(&ENVIRONMENT), expression) {
            Ok(program) => evaluate(&program, expression),
            Err(error) => assert!(!error.issues().is_empty(), "{expression}"),
        }
    }
}

fn evaluate(program: &Program, expression: &str) {
    let activation = ["object", "oldObject", "params"]
        .into_iter()
        .fold(Activation::new(), |activation, name| {
            activation.with_json(name, &OBJECT)
        });
    let mut budget = Budget::new(BUDGET);
    let evaluated = program.evaluate(&activation, &mut budget);
    assert!(evaluated.cost <= BUDGET + LAST_STEP, "{expression}: {}", evaluated.cost);
    assert!(evaluated.cost <= BUDGET || evaluated.result.is_err(), "{expression}");
    assert_eq!(budget.left(), BUDGET.saturating_sub(evaluated.cost));
}
