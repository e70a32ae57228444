//! Tests of the matches and errors of selectors.

use serde_json::{Value, json};

use super::*;
use crate::field::Path;

fn table(cases: &str) -> impl Iterator<Item = (&str, &str)> {
    cases
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| line.split_once(" => ").expect("a case and its outcome"))
}

#[test]
fn label_selectors_select() {
    let items: Vec<Value> = (0..5)
        .map(|i| json!({"i": i.to_string(), "p": if i % 2 == 0 { "even" } else { "odd" }, "in": "x"}))
        .collect();
    let cases = "
        i=1 => 1
        i==1 => 1
        i!=1 => 0234
        i in (1,2) => 12
        i notin (1,2) => 034
        p => 01234
        !zz => 01234
        !p => \n        i=1,p=odd => 1
        i in (1,2),p=even => 2
        i>2 => 34
        i<2 => 01
        p>2 => \n        zz!=1 => 01234
        zz notin (a) => 01234
        zz= => \n        zz in (,a) => \n        i in (,1,) => 1
        in in (x) => 01234
        in=x => 01234
        \x20i = 1\t => 1
        ";
    for (text, expected) in table(&cases.replace("=> \n", "=> -\n")) {
        let selector = LabelSelector::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let hits: String = (0..5)
            .filter(|&i| selector.matches(items[i].as_object()))
            .map(|i| i.to_string())
            .collect();
        assert_eq!(hits, expected.trim_matches('-'), "{text}");
    }
    assert!(LabelSelector::parse("").expect("empty").matches(None));
    assert!(!LabelSelector::nothing().matches(items[0].as_object()));
}

#[test]
fn label_selectors_are_refused_in_the_words_of_kubernetes() {
    let cases = "
        = => found '=', expected: !, identifier, or 'end of string'
        a=b=c => found '=', expected: ',' or 'end of string'
        a in b => unable to parse requirement: found 'b' expected: '('
        a in (b => unable to parse requirement: found '', expected: ',' or ')'
        in (a) => unable to parse requirement: found '(', expected: in, notin, =, ==, !=, gt, lt
        a b => unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt
        ! => unable to parse requirement: found '', expected: identifier
        !a=b => found '=', expected: ',' or 'end of string'
        a= b c => found 'c', expected: ',' or 'end of string'
        , => found ',', expected: !, identifier, or 'end of string'
        a,,b => found ',', expected: identifier after ','
        a=b, => found '', expected: identifier after ','
        -a=b => unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of
        a=-b => unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be
        a> x => unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer
        a>=b => unable to parse requirement: found '=', expected: identifier
        (a) => found '(', expected: !, identifier, or 'end of string'
        a notin (b,!) => unable to parse requirement: found '!', expected: ',', or identifier
        ";
    for (text, expected) in table(cases) {
        let error = LabelSelector::parse(text).expect_err(text).to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
}

#[test]
fn label_selectors_print_canonically() {
    let cases = "
        b=1,a => a,b=1
        a==1 => a==1
        a in (y , x,x) => a in (x,y)
        !a, b notin(), c!=d => !a,b notin (),c!=d
        !a,b notin (z),c!=d => !a,b notin (z),c!=d
        a>1,b<2 => a>1,b<2
        ";
    for (text, expected) in table(cases) {
        let printed = LabelSelector::parse(text).map_or("ERROR".to_owned(), |s| s.to_string());
        assert_eq!(printed, expected, "{text}");
    }
}

#[test]
fn exact_lookups_are_found() {
    let labels = LabelSelector::parse("a=1,b in (2),c in (3,4)").expect("a good selector");
    assert_eq!(labels.requires_exact_match("a"), Some("1"));
    assert_eq!(labels.requires_exact_match("b"), Some("2"));
    assert_eq!(labels.requires_exact_match("c"), None);
    let fields = FieldSelector::parse("metadata.name=a,spec.x!=b").expect("a good selector");
    assert_eq!(fields.requires_exact_match("metadata.name"), Some("a"));
    assert_eq!(fields.requires_exact_match("spec.x"), None);
}

#[test]
fn field_selectors_parse_and_print() {
    let cases = r"
        metadata.name=a => metadata.name=a
        b==1,a!=2 => a!=2,b=1
        ,a=1, => a=1
        a= => a=
        a=x\,y\=z\\ => a=x\,y\=z\\
        metadata.name => ERROR invalid selector: 'metadata.name'; can't understand 'metadata.name'
        a=1,b => ERROR invalid selector: 'a=1,b'; can't understand 'b'
        a=b=c => ERROR invalid field selector: unescaped character in value: 61
        a=\x => ERROR invalid field selector: invalid escape sequence: \x
        a=x\ => ERROR invalid field selector: invalid escape sequence: \
        ";
    for (text, expected) in table(cases) {
        let printed = FieldSelector::parse(text).map_or_else(|e| format!("ERROR {e}"), |s| s.to_string());
        assert_eq!(printed, expected, "{text}");
    }
}

#[test]
fn field_selectors_select_with_absent_fields_empty() {
    let field = |name: &str| (name == "status.phase").then_some("Running");
    for (text, expected) in [
        ("status.phase=Running", true),
        ("status.phase!=Running", false),
        ("spec.nodeName=", true),
        ("spec.nodeName!=", false),
        ("", true),
    ] {
        let selector = FieldSelector::parse(text).expect(text);
        assert_eq!(selector.matches_with(field), expected, "{text}");
    }
}

#[test]
fn the_object_form_is_checked_and_compiled() {
    let bad = json!({
        "matchLabels": {"a": "b c"},
        "matchExpressions": [
            {"key": "k", "operator": "In"},
            {"key": "k", "operator": "Exists", "values": ["x"]},
            {"key": "bad key", "operator": "Odd", "values": ["-"]},
        ],
    });
    let errors = validate_label_selector(bad.as_object().expect("object"), false, &Path::new("spec.selector"));
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let expected = [
        "spec.selector.matchLabels: Invalid value: \"b c\": a valid label must be",
        "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or",
        "spec.selector.matchExpressions[2].operator: Invalid value: \"Odd\": not a valid selector operator",
        "spec.selector.matchExpressions[2].key: Invalid value: \"bad key\": name part must consist of",
        "spec.selector.matchExpressions[2].values[0]: Invalid value: \"-\": a valid label must be",
    ];
    assert_eq!(texts.len(), expected.len(), "{texts:#?}");
    for (text, start) in texts.iter().zip(expected) {
        assert!(text.starts_with(start), "{text}");
    }

    let good = json!({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]});
    let selector = compile_label_selector(good.as_object()).expect("a good selector");
    assert_eq!(selector.to_string(), "a=1,!b");
    assert!(compile_label_selector(None).expect("absent").is_nothing());
    assert!(
        compile_label_selector(Some(&crate::Object::new()))
            .expect("empty")
            .is_everything()
    );
    let odd = json!({"matchExpressions": [{"key": "b", "operator": "Odd"}]});
    let error = compile_label_selector(odd.as_object()).expect_err("an odd operator");
    assert_eq!(error.to_string(), "\"Odd\" is not a valid label selector operator");
}
