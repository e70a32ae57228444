//! Programs: budgets, sharing, the cache, and that nothing that can be written makes an evaluation fail or run away.

use std::{sync::Arc, thread};

use proptest::prelude::{ProptestConfig, prop_assert, proptest};
use serde_json::{Value as Json, json};

use super::{
    PARTS,
    evaluation::{activation, objects, policy},
};
use crate::{
    Activation, AdmissionVariables, Budget, Environment, EvalError, PER_CALL_LIMIT, Program, ProgramCache,
    RUNTIME_BUDGET, Type,
};

fn program(expression: &str) -> Program {
    Program::new(policy(), expression).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn an_evaluation_that_costs_too_much_is_ended() {
    let list = json!({"items": vec![1; 2_000]});
    let expensive = program("object.items.all(x, object.items.all(y, x == y))");
    let activation = Activation::new().with_json("object", &list);
    let mut budget = Budget::new(RUNTIME_BUDGET);
    let evaluated = expensive.evaluate(&activation, &mut budget);
    assert_eq!(evaluated.result.err(), Some(EvalError::CostLimitExceeded));
    assert!(
        evaluated.cost > PER_CALL_LIMIT && evaluated.cost < PER_CALL_LIMIT + 10,
        "{}",
        evaluated.cost
    );
    assert_eq!(budget.left(), RUNTIME_BUDGET - evaluated.cost);
}

#[test]
fn a_budget_is_shared_and_runs_out() {
    let list = json!({"items": vec![1; 100]});
    let activation = Activation::new().with_json("object", &list);
    let cheap = program("object.items.all(x, x == 1)");
    let mut budget = Budget::new(1_200);
    let results: Vec<_> = (0..4)
        .map(|_| cheap.evaluate(&activation, &mut budget).result.is_ok())
        .collect();
    assert_eq!(results, [true, true, false, false]);
    assert_eq!(budget.left(), 0);
    let last = cheap.evaluate(&activation, &mut budget);
    assert_eq!(
        last.result.err().map(|error| error.to_string()).as_deref(),
        Some("validation failed due to running out of cost budget, no further validation rules will be run")
    );
}

#[test]
fn work_that_has_no_cost_is_bounded_too() {
    let large = json!({"a": vec![vec![1; 100]; 100], "items": vec![1; 20_000]});
    let activation = Activation::new().with_json("object", &large);
    for expression in [
        "object.items.all(x, object.a == object.a)",
        "['x'].map(x, 'aaaaaaaaaaaaaaaaaaaaaaaa').all(x, object.items.map(y, x).join(x).replace('', object.items.map(y, x).join(x)) != '')",
    ] {
        let program = program(expression);
        let evaluated = program.evaluate(&activation, &mut Budget::new(RUNTIME_BUDGET));
        assert_eq!(
            evaluated.result.err(),
            Some(EvalError::CostLimitExceeded),
            "{expression}"
        );
    }
}

#[test]
fn a_program_is_shared_by_threads() {
    let program = Arc::new(program(
        "object.spec.template.containers.all(c, c.name.matches('^[a-z]+$'))",
    ));
    let objects = objects();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let activation = activation(&objects);
                    let evaluated = program.evaluate(&activation, &mut Budget::new(RUNTIME_BUDGET));
                    assert_eq!(evaluated.result.ok().and_then(|value| value.as_bool()), Some(true));
                }
            });
        }
    });
}

#[test]
fn a_cache_compiles_an_expression_once_for_an_environment() {
    let cache = ProgramCache::new(16 * 1024);
    let environment = policy();
    let first = cache.program(&environment, "object.a == 1").expect("it compiles");
    let again = cache.program(&environment, "object.a == 1").expect("it compiles");
    assert!(Arc::ptr_eq(&first, &again));
    let composed = Environment::clone(&environment).with_composed(&[("a".to_owned(), Type::Int)]);
    let elsewhere = cache
        .program(&Arc::new(composed), "object.a == 1")
        .expect("it compiles");
    assert!(!Arc::ptr_eq(&first, &elsewhere));
    assert!(cache.program(&environment, "nope").is_err());
    for number in 0..100 {
        cache
            .program(&environment, &format!("object.a == {number}"))
            .expect("it compiles");
    }
    let later = cache.program(&environment, "object.a == 1").expect("it compiles");
    assert!(!Arc::ptr_eq(&first, &later), "the cache is bounded");
}

#[test]
fn deep_expressions_evaluate_on_a_small_stack() {
    let deep = [
        format!("1{}", " + 1".repeat(250)),
        format!("{}1{}", "(".repeat(240), ")".repeat(240)),
        format!("{}1{}", "[".repeat(240), "]".repeat(240)),
        format!("{}true{}", "!(".repeat(190), ")".repeat(190)),
        format!("{}true{}", "[1].all(x, ".repeat(190), ")".repeat(190)),
        format!("true{}", " && true".repeat(10_000)),
    ];
    for expression in deep {
        let program = program(&expression);
        let evaluated = program.evaluate(&Activation::new(), &mut Budget::new(RUNTIME_BUDGET));
        assert!(
            evaluated.result.is_ok(),
            "{}: {:?}",
            expression.get(..20).unwrap_or_default(),
            evaluated.result
        );
    }
}

/// Functions and operators with values that many of them take.
const CALLS: &[&str] = &[
    "object.spec",
    "object.metadata.labels",
    "'a b c'",
    "'(a+)+$'",
    "[1, 2, 3]",
    "['x', 'y']",
    "-1",
    "9223372036854775807",
    "1.5",
    "duration('1h')",
    "timestamp('9999-12-31T23:59:59Z')",
    "b'\\xff'",
    "dyn(object.spec.replicas)",
];
const OPERATORS: &[&str] = &[" + ", " - ", " * ", " / ", " % ", " == ", " < ", " in ", " && ", " || "];
const METHODS: &[&str] = &[
    ".size()",
    ".map(x, x)",
    ".filter(x, dyn(x) == dyn(1))",
    ".matches('a')",
    ".split('')",
    ".join('-')",
    ".substring(1, 9)",
    ".replace('', 'xyz')",
    ".min()",
    ".sum()",
    ".getHours()",
    ".format([1])",
    "[0]",
    ".spec",
    ".?spec.?x",
    ".transformMap(k, v, v)",
];

#[test]
fn keys_of_claims_and_of_users_may_be_escaped() {
    let claims = json!({
        "sub": "ann",
        "kubernetes.io": {"namespace": "default", "__odd__": "odd", "a__b": "kept"},
        "list": [[{"x.y/z": 1}]],
    });
    let user = json!({"username": "ann", "extra": {"example.com/role": ["admin"]}});
    let value = |environment: Environment, variable: &str, json: &Json, expression: &str| {
        let program = Program::new(Arc::new(environment), expression).expect("it compiles");
        let activation = Activation::new().with_json(variable, json);
        let evaluated = program.evaluate(&activation, &mut Budget::new(RUNTIME_BUDGET));
        evaluated
            .result
            .map(|value| value.to_json())
            .map_err(|error| error.to_string())
    };
    for (expression, expected) in [
        ("'sa:' + claims.kubernetes__dot__io.namespace", Ok(json!("sa:default"))),
        ("claims['kubernetes.io'].namespace", Ok(json!("default"))),
        ("claims['kubernetes__dot__io']['namespace']", Ok(json!("default"))),
        ("claims.list[0][0].x__dot__y__slash__z", Ok(json!(1))),
        (
            "has(claims.kubernetes__dot__io) && !has(claims.other__dot__io)",
            Ok(json!(true)),
        ),
        (
            "claims.?kubernetes__dot__io.namespace.orValue('')",
            Ok(json!("default")),
        ),
        ("claims['kubernetes.io'].__odd__", Ok(json!("odd"))),
        ("{'a.b': 1}.a__dot__b", Err("no such key: a__dot__b".to_owned())),
    ] {
        let got = value(Environment::claims(), "claims", &claims, expression);
        assert_eq!(got, expected.map(Some), "{expression}");
    }
    let role = value(
        Environment::user(),
        "user",
        &user,
        "user.extra.example__dot__com__slash__role[0]",
    );
    assert_eq!(role, Ok(Some(json!("admin"))));
    let policy = Environment::admission(AdmissionVariables::default());
    let got = value(policy, "object", &claims, "object.kubernetes__dot__io");
    assert_eq!(got, Err("no such key: kubernetes__dot__io".to_owned()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever stands in a format string is formatted or is an error.
    #[test]
    fn every_format_string_ends(
        format in "[%.0-9sdfebxXoqé]{0,12}",
        values in proptest::collection::vec(proptest::sample::select(CALLS), 0..4),
    ) {
        let expression = format!("'{format}'.format(dyn([{}]))", values.join(", "));
        let checked = format!("'{format}'.format([{}])", values.join(", "));
        let objects = objects();
        for expression in [expression, checked] {
            if let Ok(program) = Program::new(policy(), &expression) {
                let _ = program.evaluate(&activation(&objects), &mut Budget::new(10_000));
            }
        }
    }

    /// Operators and functions on whatever values end in a value or an error, within the limit and one step.
    #[test]
    fn evaluations_end(
        parts in proptest::collection::vec((
            proptest::sample::select(CALLS), proptest::sample::select(METHODS), proptest::sample::select(OPERATORS),
        ), 1..6),
        limit in 1_u64..2_000,
    ) {
        let mut expression = String::new();
        for (at, (call, method, operator)) in parts.iter().enumerate() {
            let operator = if at > 0 { operator } else { "" };
            expression.push_str(&format!("{operator}dyn(dyn({call}){method})"));
        }
        let Ok(program) = Program::new(policy(), &expression) else { return Ok(()) };
        let objects = objects();
        let mut budget = Budget::new(limit);
        let evaluated = program.evaluate(&activation(&objects), &mut budget);
        if evaluated.cost > limit {
            prop_assert!(evaluated.result.is_err(), "{expression}");
        }
        prop_assert!(evaluated.cost <= limit + 1_000, "{expression}: {}", evaluated.cost);
    }

    /// Whatever compiles can be evaluated.
    #[test]
    fn every_program_ends(parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..8)) {
        let expression = parts.concat();
        if let Ok(program) = Program::new(policy(), &expression) {
            let objects = objects();
            let evaluated = program.evaluate(&activation(&objects), &mut Budget::new(RUNTIME_BUDGET));
            prop_assert!(evaluated.cost <= RUNTIME_BUDGET, "{expression}");
        }
    }
}
