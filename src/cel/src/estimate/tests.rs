//! Estimates against the figures of upstream's tests, and the oddities that they have on purpose.

use std::collections::HashMap;

use super::{BoundSizes, Estimate};
use crate::{AdmissionVariables, Environment, Program, types::Type};

/// Sizes by the steps below a variable, joined with dots; all variables are alike.
#[derive(Debug, Default)]
struct Sizes(HashMap<String, u64>);

impl BoundSizes for Sizes {
    fn most_elements(&self, steps: &[&str]) -> Option<u64> {
        self.0.get(&steps.join(".")).copied()
    }
}

fn estimated(expression: &str, context: &str) -> Estimate {
    let mut environment = Environment::admission(AdmissionVariables {
        params: false,
        authorizer: true,
        patch_types: true,
    });
    let mut sizes = Sizes::default();
    for word in context.split_whitespace() {
        match (word.split_once('='), word.split_once(':')) {
            (Some((steps, size)), _) => {
                sizes.0.insert(steps.to_owned(), size.parse().expect("a size"));
            }
            (None, Some((name, kind))) => environment.declare(name, Type::parse(kind)),
            (None, None) => panic!("neither a variable nor a size: {word}"),
        }
    }
    match Program::with_estimate(environment.into(), expression, &sizes) {
        Ok((_, cost)) => cost,
        Err(error) => panic!("{expression}: {error}"),
    }
}

#[test]
fn estimates_are_those_of_upstreams_tests() {
    let rows = include_str!("costs.txt").lines().filter(|line| !line.starts_with('#'));
    let mut compared = 0;
    let mut differences = Vec::new();
    for row in rows {
        let (figures, context) = row.split_once(" | ").unwrap_or((row, ""));
        let mut parts = figures.splitn(3, ' ');
        let mut number = || {
            parts
                .next()
                .and_then(|part| part.parse().ok())
                .expect("two costs first")
        };
        let expected = Estimate {
            min: number(),
            max: number(),
        };
        let expression = parts.next().expect("an expression");
        let found = estimated(expression, context);
        compared += 1;
        if found != expected {
            differences.push(format!("{expression}: {found:?}, not {expected:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(compared >= 200, "only {compared} rows were read");
}

#[test]
fn paths_that_share_an_array_are_read_as_upstream_reads_them() {
    let fields = "self:map(string,list(map(string,list(int)))) list=10 list.@items.a=5 list.@items.b=100";
    let cost = |expression| estimated(expression, fields).max;
    // Five items of `a`, each at 5, ten times.
    assert_eq!(cost("self.list.all(x, x.a.all(y, y > 1))"), 313);
    // A hundred of them: the size of `b` was written over that of `a`.
    assert_eq!(cost("self.list.all(x, x.a.all(y, x.b.size() > y))"), 8063);
}

#[test]
fn optional_values_and_bindings_cost_what_they_expand_to() {
    let fields = "self:map(string,string) =10 @values=20 @keys=0";
    let cost = |expression| estimated(expression, fields).max;
    // An empty list for the binding, the target twice, `hasValue`, `value`, `of` and the body.
    assert_eq!(cost("self[?'a'].optMap(v, v.size()).hasValue()"), 20);
    assert_eq!(cost("self[?'a'].orValue('')"), 3);
    assert_eq!(cost("self.?a.orValue('')"), 3);
    // A list and a call, and what makes the optional ones.
    assert_eq!(cost("['a'].first().hasValue() && ['b'].last().hasValue()"), 24);
    assert_eq!(cost("[optional.of(1)].unwrapOpt().size() == 1"), 14);
    assert_eq!(cost("optional.unwrap([optional.of(1)]).size() == 1"), 14);
    assert_eq!(cost("[3, 1, 2].sortBy(x, x).size()"), 102);
}
