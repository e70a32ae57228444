//! Costs of rules: the figures of upstream's tests, what is refused for them, and what is not.

use serde_json::{Value, json};
use trireme_machinery::field::{ErrorList, Path};

use super::TotalCost;
use crate::{
    definition::{rules::validate_rules, spec::validate_spec},
    rules::examine_rules,
    structural::Structural,
};

const HINT: &str = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, \
                    and strings are declared)";
const CONTRIBUTED: &str =
    "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";

fn rule_cost(schema: &Value) -> u64 {
    let findings = examine_rules(&Structural::parse(schema), false).expect("a visible value");
    match findings.first().map(|found| &found.rule) {
        Some(Ok(cost)) => *cost,
        other => panic!("{schema}: {other:?}"),
    }
}

fn with_rule(mut schema: Value, rule: &str) -> Value {
    schema["x-kubernetes-validations"] = json!([{ "rule": rule }]);
    schema
}

/// The errors of a schema whose property `f` is given, by their paths below it.
fn errors_of(field: &Value) -> Vec<String> {
    errors_of_all(&json!({ "f": field }))
        .iter()
        .map(|error| error.replace("schema.properties[f]", "f"))
        .collect()
}

fn errors_of_all(properties: &Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": properties});
    let mut errors = ErrorList::new();
    validate_rules(&schema, false, &Path::new("schema"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn estimates_are_those_of_upstreams_tests() {
    let mut compared = 0;
    for line in include_str!("estimates.jsonl").lines() {
        let row: Value = serde_json::from_str(line).expect("a row of JSON");
        let found = rule_cost(&row["schema"]);
        match (row["cost"].as_u64(), row["over"].as_u64()) {
            (Some(cost), _) => assert_eq!(found, cost, "{line}"),
            (_, Some(over)) => assert!(found > over, "{found}: {line}"),
            _ => panic!("no figure: {line}"),
        }
        compared += 1;
    }
    assert!(compared >= 110, "only {compared} rows were read");
}

#[test]
fn fields_of_resources_are_as_long_as_a_request() {
    let root = |rule| {
        with_rule(
            json!({"type": "object", "properties": {"spec": {"type": "object"}}}),
            rule,
        )
    };
    let cost = |schema: &Value| {
        let findings = examine_rules(&Structural::parse(schema), true).expect("a visible value");
        findings[0].rule.clone().expect("a rule that compiles")
    };
    // 3145726 bytes, a tenth of which each comparison costs.
    assert_eq!(cost(&root("self.metadata.name == self.kind")), 314_573 + 5);
    assert_eq!(cost(&root("self.metadata.name == 'x'")), 1 + 3);
    assert_eq!(cost(&root("self.metadata.generateName.size() > 3")), 5);
}

#[test]
fn a_rule_that_costs_too_much_is_refused() {
    let list = |max: Value| {
        let mut list = json!({"type": "array", "items": {"type": "number"}});
        list["maxItems"] = max;
        with_rule(list, "self.all(x, self.all(y, true))")
    };
    assert_eq!(
        errors_of(&list(Value::Null)),
        [
            format!(
                "f.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more \
                 than 100x {HINT}"
            ),
            format!("f.x-kubernetes-validations[0].rule: {CONTRIBUTED}"),
            format!(
                "schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema \
                 exceeds budget by factor of more than 100x {HINT}"
            ),
        ]
    );
    assert_eq!(errors_of(&list(json!(1000))), Vec::<String>::new());
    // 3 n² + 5 n + 2
    let factor_of = |items: u64| {
        errors_of(&list(json!(items)))[0]
            .split_whitespace()
            .nth(10)
            .map(str::to_owned)
    };
    assert_eq!(factor_of(2000).as_deref(), Some("1.201000x"));
    assert_eq!(factor_of(3000).as_deref(), Some("2.7x"));
}

#[test]
fn costs_are_multiplied_by_what_is_around() {
    let text = |max: u64| {
        let text = json!({"type": "string", "maxLength": max});
        with_rule(text, "self.contains('keyword')")
    };
    let errors = errors_of_all(&json!({
        "list": {"type": "array", "maxItems": 100_000, "items": text(5000)},
        "map": {"type": "object", "maxProperties": 1000, "additionalProperties": text(5000)},
        "field": with_rule(json!({"type": "integer"}), "self > 50 && self < 100"),
    }));
    let list = "schema.properties[list].items.x-kubernetes-validations[0].rule";
    let map = "schema.properties[map].additionalProperties.x-kubernetes-validations[0].rule";
    assert_eq!(errors.len(), 4, "{errors:?}");
    assert!(
        errors[0].starts_with(&format!("{list}: Forbidden: estimated rule cost")),
        "{errors:?}"
    );
    assert_eq!(errors[1], format!("{list}: {CONTRIBUTED}"));
    assert_eq!(errors[2], format!("{map}: {CONTRIBUTED}"));
    assert!(
        errors[3].starts_with("schema: Forbidden: x-kubernetes-validations"),
        "{errors:?}"
    );
    // Lists in a list.
    let inner = json!({"type": "array", "items": {"type": "string"}});
    let inner = with_rule(inner, "self.all(s, s == 'string constant')");
    let errors = errors_of(&json!({"type": "array", "items": inner}));
    assert!(
        errors[0].contains("exceeds budget by factor of more than 100x"),
        "{errors:?}"
    );
    // What is bounded by nothing occurs as often as a request has room for it: 3145728 / 3 times, at 3.
    let unbounded = json!({"type": "array", "items": with_rule(json!({"type": "string"}), "self != 'a'")});
    assert_eq!(errors_of(&unbounded), Vec::<String>::new());
    let unbounded = json!({"type": "array", "items": with_rule(json!({"type": "string"}), "self.contains('a')")});
    assert_eq!(errors_of(&unbounded).len(), 3);
}

#[test]
fn double_nested_lists_need_limits() {
    let nested = |items: Option<u64>, entries: Option<u64>| {
        let key = json!({"type": "string", "maxLength": 10});
        let value = json!({"type": "object", "required": ["key"], "properties": {"key": key}});
        let mut map = json!({"type": "object", "additionalProperties": value});
        map["maxProperties"] = json!(entries);
        let mut list = json!({"type": "array", "items": map});
        list["maxItems"] = json!(items);
        errors_of(&with_rule(list, "self.all(x, x.all(y, x[y].key == x[y].key))")).len()
    };
    assert_eq!(nested(None, None), 3);
    assert_eq!(nested(Some(10), Some(10)), 0);
}

#[test]
fn messages_have_costs_of_their_own() {
    let with_message = |message: &str| {
        let mut list = json!({"type": "array", "items": {"type": "string"}});
        list["x-kubernetes-validations"] = json!([{"rule": "true", "messageExpression": message}]);
        errors_of(&list)
    };
    let at = "f.x-kubernetes-validations[0].messageExpression";
    let sum = (0..8).map(|at| format!("self[{at}]")).collect::<Vec<_>>().join(" + ");
    let errors = with_message(&sum);
    assert_eq!(errors.len(), 1, "{errors:?}");
    let expected = format!("{at}: Forbidden: estimated messageExpression cost exceeds budget by factor of 1.1");
    assert!(errors[0].starts_with(&expected), "{errors:?}");
    let errors = with_message("string(self[0]) + string(self[1]) + string(self[2])");
    assert_eq!(errors.len(), 3, "{errors:?}");
    // It is made once, however often the rule is evaluated.
    let item =
        json!({"type": "string", "x-kubernetes-validations": [{"rule": "true", "messageExpression": "self + 'a'"}]});
    assert_eq!(
        errors_of(&json!({"type": "array", "items": item})),
        Vec::<String>::new()
    );
}

#[test]
fn the_dearest_rules_are_named() {
    let named = |costs: &[u64]| {
        let mut total = TotalCost::default();
        for cost in costs {
            total.observe(&Path::new(&cost.to_string()), *cost);
        }
        let mut errors = ErrorList::new();
        let sum = total.total;
        total.validate(&Path::new("schema"), &mut errors);
        let fields: Vec<String> = errors.iter().map(|error| error.field.clone()).collect();
        (sum, fields.join(" "))
    };
    for (costs, sum, fields) in [
        (&[][..], 0, ""),
        (&[100_000_000][..], 100_000_000, ""),
        (&[100_000_001], 100_000_001, "100000001 schema"),
        (
            &[5_000_000, 125_000_000, 900_000],
            130_900_000,
            "125000000 5000000 schema",
        ),
        (
            &[16_000_000, 50_000_000, 900_000, 34_000_000, 49_000_000, 50_000_001],
            199_900_001,
            "50000001 50000000 49000000 34000000 schema",
        ),
    ] {
        assert_eq!(named(costs), (sum, fields.to_owned()));
    }
    assert_eq!(named(&[u64::MAX / 2, u64::MAX / 2, 1, 10, 100]).0, u64::MAX);
}

#[test]
fn an_update_is_not_held_against_the_limit_of_rules_that_it_leaves() {
    let definition = |schemas: &[Value]| {
        let version = |(index, schema): (usize, &Value)| {
            json!({"name": format!("v{}", index + 1), "served": true, "storage": index == 0,
                   "schema": {"openAPIV3Schema": {"type": "object", "properties": {"f": schema}}}})
        };
        let versions: Vec<Value> = schemas.iter().enumerate().map(version).collect();
        json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        }})
    };
    let errors = |new: &Value, old: Option<&Value>| {
        let mut errors = ErrorList::new();
        validate_spec(new, old, false, None, &mut errors);
        errors.iter().map(|error| error.field.clone()).collect::<Vec<_>>()
    };
    let list = |max: u64| {
        let list = json!({"type": "array", "maxItems": max, "items": {"type": "number"}});
        with_rule(list, "self.all(x, self.all(y, true))")
    };
    let (costly, changed) = (list(2000), list(2001));
    let small = definition(&[json!({"type": "string"}), json!({"type": "number"})]);
    let one = definition(std::slice::from_ref(&costly));
    let rule = |version: &str| format!("spec.{version}.openAPIV3Schema.properties[f].x-kubernetes-validations[0].rule");
    assert_eq!(errors(&one, None), [rule("validation")]);
    assert_eq!(errors(&one, Some(&small)), [rule("validation")]);
    assert_eq!(errors(&one, Some(&one)), Vec::<String>::new());
    assert_eq!(
        errors(&definition(std::slice::from_ref(&changed)), Some(&one)),
        [rule("validation")]
    );
    // Each version is what it was or not.
    let two = definition(&[costly.clone(), json!({"type": "string"})]);
    assert_eq!(errors(&two, Some(&one)), Vec::<String>::new());
    let both = definition(&[costly, changed]);
    assert_eq!(errors(&both, Some(&two)), [rule("versions[1].schema")]);
    // The limit of the whole schema holds all the same.
    let dear = definition(&[list(10_000)]);
    assert_eq!(errors(&dear, Some(&dear)).len(), 2);
}

#[test]
fn rules_like_those_of_operators_in_use_are_within_the_limits() {
    let text = |most: u64| json!({"type": "string", "maxLength": most});
    let list = |most: u64, item: Value, rules: &[&str]| {
        let rules: Vec<Value> = rules.iter().map(|rule| json!({ "rule": rule })).collect();
        json!({"type": "array", "maxItems": most, "items": item, "x-kubernetes-validations": rules})
    };
    let object = |properties: Value, rules: &[&str]| {
        let rules: Vec<Value> = rules.iter().map(|rule| json!({ "rule": rule })).collect();
        json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
    };
    let reference = json!({"type": "object", "required": ["name"], "properties": {
        "group": text(253), "kind": text(63), "namespace": text(63), "name": text(253), "sectionName": text(253),
    }});
    let same = "a.name == b.name && (((!has(a.__namespace__) || a.__namespace__ == '') && (!has(b.__namespace__) || \
                b.__namespace__ == '')) || (has(a.__namespace__) && has(b.__namespace__) && a.__namespace__ == \
                b.__namespace__))";
    let listener = object(
        json!({"name": text(253), "hostname": text(253), "port": {"type": "integer"}, "protocol": text(255)}),
        &[],
    );
    for field in [
        // Routes: each parent once.
        list(
            32,
            reference,
            &[
                &format!("self.all(a, self.all(b, {same} ? has(a.sectionName) == has(b.sectionName) : true))"),
                &format!("self.all(a, self.exists_one(b, {same} && a.group == b.group && a.kind == b.kind))"),
            ],
        ),
        // Gateways: names and ports of listeners are unique.
        list(
            64,
            listener,
            &[
                "self.all(l, l.protocol in ['HTTP', 'TCP', 'UDP'] ? !has(l.hostname) || l.hostname == '' : true)",
                "self.all(a, self.exists_one(b, a.name == b.name))",
                "self.all(a, self.exists_one(b, a.port == b.port && a.protocol == b.protocol && (has(a.hostname) && \
                 has(b.hostname) ? a.hostname == b.hostname : !has(a.hostname) && !has(b.hostname))))",
            ],
        ),
        // Clusters: what was set stays.
        object(
            json!({"topology": {"type": "object", "properties": {"class": text(253)}}, "paused": {"type": "boolean"}}),
            &[
                "!has(oldSelf.topology) || has(self.topology)",
                "[has(self.topology), has(self.paused)].filter(x, x == true).size() <= 1",
                "self.?topology.class.optMap(c, c.size() > 0).orValue(true)",
            ],
        ),
        // Networks and quantities.
        object(
            json!({"cidr": text(43), "memory": {"x-kubernetes-int-or-string": true, "maxLength": 20}, "url": text(2048)}),
            &[
                "isCIDR(self.cidr) && cidr(self.cidr).ip().family() == 4 && cidr(self.cidr).prefixLength() <= 24",
                "isQuantity(self.memory) && quantity(self.memory).isGreaterThan(quantity('1Gi'))",
                "isURL(self.url) && url(self.url).getScheme() in ['http', 'https']",
                "self.url.matches('^https?://[a-z0-9.-]+(:[0-9]+)?(/.*)?$') && !format.dns1123Label().validate(self.cidr).hasValue()",
            ],
        ),
    ] {
        assert_eq!(errors_of(&field), Vec::<String>::new(), "{field}");
    }
}
