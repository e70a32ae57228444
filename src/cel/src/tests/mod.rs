//! Types and errors of expressions; the texts are those of kube-apiserver 1.36 and cel-go.

use super::*;

mod evaluation;
mod programs;

fn policy() -> Environment {
    Environment::admission(AdmissionVariables {
        params: true,
        authorizer: true,
        patch_types: true,
    })
}

fn outcome(environment: &Environment, expression: &str) -> String {
    match compile(environment, expression) {
        Ok(output) => output.to_string(),
        Err(error) => error.to_string(),
    }
}

fn check(environment: &Environment, cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(outcome(environment, expression), *expected, "{expression}");
    }
}

const OPERAND: &str = "expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}";

#[test]
fn syntax_errors_are_marked() {
    let mismatched = format!("ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' {OPERAND}\n | 1 +\n | ...^");
    let empty = format!("ERROR: <input>:1:0: Syntax error: mismatched input '<EOF>' {OPERAND}");
    check(
        &policy(),
        &[
            ("1 +", &mismatched),
            ("", &empty),
            (
                "object.spec.x.all(a, a",
                "ERROR: <input>:1:23: Syntax error: missing ')' at '<EOF>'\n | object.spec.x.all(a, a\n | ......................^",
            ),
        ],
    );
}

#[test]
fn reserved_identifiers_are_told_beside_syntax_errors() {
    let text = "ERROR: <input>:1:1: reserved identifier: namespace\n | namespace is immutable\n | ^\n\
                ERROR: <input>:1:11: Syntax error: mismatched input 'is' expecting <EOF>\n | namespace is immutable\n | \
                ..........^";
    check(&policy(), &[("namespace is immutable", text)]);
}

#[test]
fn expressions_have_the_types_that_cel_gives_them() {
    check(
        &policy(),
        &[
            ("true", "bool"),
            ("object.spec.replicas > 3 && request.operation == 'CREATE'", "bool"),
            ("object.spec.x", "dyn"),
            ("request.userInfo.groups", "list(string)"),
            ("request.userInfo.groups.exists(g, g == 'admin')", "bool"),
            ("request.userInfo.extra['x'][0] + 'y'", "string"),
            ("[1, 2, 3].map(x, string(x))", "list(string)"),
            ("[1, 2].filter(x, x > 1)[0]", "int"),
            ("{'a': 1}", "map(string, int)"),
            ("[]", "list(dyn)"),
            ("null", "null_type"),
            ("type(1) == int", "bool"),
            ("has(object.spec.x) ? object.spec.x : 'y'", "dyn"),
            ("object.?spec.?x.orValue('y') == 'y'", "bool"),
            (
                "authorizer.group('apps').resource('deployments').check('create').allowed()",
                "bool",
            ),
            ("authorizer.requestResource.check('get').reason()", "string"),
            ("quantity('1Gi').isLessThan(quantity('2Gi'))", "bool"),
            ("duration('1h') + duration('2h')", "google.protobuf.Duration"),
            ("'a b'.split(' ').join('-').upperAscii()", "string"),
            ("'%s-%s'.format(['a', 'b'])", "string"),
            (
                "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.1.1.1')",
                "bool",
            ),
            ("format.dns1123Label().validate('x').hasValue()", "bool"),
            ("sets.contains([1], [1]) && url('http://x').getHost() == 'x'", "bool"),
            ("[1, 2].all(i, v, i < v)", "bool"),
            ("[1, 2].transformList(i, v, i * v)", "list(int)"),
            ("optional.of(1).optMap(x, x + 1)", "optional_type(int)"),
            ("namespaceObject.metadata.labels['a']", "string"),
            ("Object{spec: Object.spec{replicas: 3}}", "Object"),
            (
                "[JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('b/c'), value: 1}]",
                "list(JSONPatch)",
            ),
        ],
    );
}

#[test]
fn type_errors_are_shown_at_their_place() {
    check(
        &policy(),
        &[
            (
                "x.y",
                "ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x.y\n | ^",
            ),
            (
                "authorizer.nope()",
                "ERROR: <input>:1:16: undeclared reference to 'nope' (in container '')\n | authorizer.nope()\n | ...............^",
            ),
            (
                "1 + 'a'",
                "ERROR: <input>:1:3: found no matching overload for '_+_' applied to '(int, string)'\n | 1 + 'a'\n | ..^",
            ),
            (
                "request.nope == 1",
                "ERROR: <input>:1:8: undefined field 'nope'\n | request.nope == 1\n | .......^",
            ),
            (
                "true && 1",
                "ERROR: <input>:1:9: expected type 'bool' but found 'int'\n | true && 1\n | ........^",
            ),
            (
                "'a'.startsWith(1)",
                "ERROR: <input>:1:15: found no matching overload for 'startsWith' applied to 'string.(int)'\n | 'a'.startsWith(1)\n | ..............^",
            ),
            (
                "[1, 'a']",
                "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, 'a']\n | ....^",
            ),
            (
                "1.x",
                "ERROR: <input>:1:2: type 'int' does not support field selection\n | 1.x\n | .^",
            ),
            (
                "request.name.x",
                "ERROR: <input>:1:13: type 'string' does not support field selection\n | request.name.x\n | ............^",
            ),
            (
                "request.name.all(x, x)",
                "ERROR: <input>:1:8: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)\n | request.name.all(x, x)\n | .......^",
            ),
            (
                "a &&\n b",
                "ERROR: <input>:1:1: undeclared reference to 'a' (in container '')\n | a &&\n | ^\nERROR: <input>:2:2: undeclared reference to 'b' (in container '')\n |  b\n | .^",
            ),
            (
                "'é' + x",
                "ERROR: <input>:1:7: undeclared reference to 'x' (in container '')\n | 'é' + x\n | .\u{ff0e}....^",
            ),
        ],
    );
}

#[test]
fn literals_are_what_they_are_taken_for() {
    let error = |text: &str| format!("ERROR: <input>:1:{text}");
    check(
        &policy(),
        &[
            ("timestamp('2024-01-01T00:00:00Z')", "google.protobuf.Timestamp"),
            (
                "duration('1x') > duration('1h')",
                &error("10: invalid duration argument\n | duration('1x') > duration('1h')\n | .........^"),
            ),
            ("timestamp(0)", "google.protobuf.Timestamp"),
            ("duration(-1)", "google.protobuf.Duration"),
            (
                "timestamp(-62135596801)",
                &error("11: invalid timestamp argument\n | timestamp(-62135596801)\n | ..........^"),
            ),
            (
                "timestamp(253402300800)",
                &error("11: invalid timestamp argument\n | timestamp(253402300800)\n | ..........^"),
            ),
            (
                "timestamp('0000-12-31T23:59:59Z')",
                &error("11: invalid timestamp argument\n | timestamp('0000-12-31T23:59:59Z')\n | ..........^"),
            ),
            (
                "timestamp('x')",
                &error("11: invalid timestamp argument\n | timestamp('x')\n | ..........^"),
            ),
        ],
    );
}

#[test]
fn format_strings_fit_their_arguments() {
    let strings = "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps";
    check(
        &policy(),
        &[
            (
                "'%d'.format(['x'])",
                "ERROR: <input>:1:14: error during formatting: decimal clause can only be used on integers, was given string\n | '%d'.format(['x'])\n | .............^",
            ),
            (
                "'%s'.format(['a','b'])",
                "ERROR: <input>:1:12: too many arguments supplied to string.format (expected 1, got 2)\n | '%s'.format(['a','b'])\n | ...........^",
            ),
            (
                "'%s %d'.format(['%d'.format(['x']), 'y'])",
                "ERROR: <input>:1:30: error during formatting: decimal clause can only be used on integers, was given string\n | '%s %d'.format(['%d'.format(['x']), 'y'])\n | .............................^\nERROR: <input>:1:37: error during formatting: decimal clause can only be used on integers, was given string\n | '%s %d'.format(['%d'.format(['x']), 'y'])\n | ....................................^",
            ),
            (
                "'%d'.format(['x', duration('x')])",
                "ERROR: <input>:1:14: error during formatting: decimal clause can only be used on integers, was given string\n | '%d'.format(['x', duration('x')])\n | .............^\nERROR: <input>:1:28: invalid duration argument\n | '%d'.format(['x', duration('x')])\n | ...........................^",
            ),
            (
                "'%s'.format([{'a': quantity('1Gi')}])",
                &format!(
                    "ERROR: <input>:1:28: error during formatting: {strings}, was given kubernetes.Quantity\n | '%s'.format([{{'a': quantity('1Gi')}}])\n | ...........................^"
                ),
            ),
            (
                "'%d'.format([x])",
                "ERROR: <input>:1:14: undeclared reference to 'x' (in container '')\n | '%d'.format([x])\n | .............^",
            ),
            ("'%d'.format([object.spec.x])", "string"),
        ],
    );
    check(
        &Environment::claims(),
        &[
            (
                "'%s'.format([claims.sub])",
                &format!(
                    "ERROR: <input>:1:20: error during formatting: {strings}, was given google.protobuf.Any\n | '%s'.format([claims.sub])\n | ...................^"
                ),
            ),
            ("'%s'.format([string(claims.sub)])", "string"),
            ("'%s'.format([claims])", "string"),
        ],
    );
}

#[test]
fn a_place_has_its_own_variables() {
    let bare = Environment::admission(AdmissionVariables::default());
    let undeclared = |name: &str| {
        format!("ERROR: <input>:1:1: undeclared reference to '{name}' (in container '')\n | {name}.x\n | ^")
    };
    for name in ["params", "authorizer", "variables", "device"] {
        assert_eq!(outcome(&bare, &format!("{name}.x")), undeclared(name));
    }
    assert!(
        compile(&bare, "cel.bind(x, 1, x > 0)").is_err(),
        "it is there for devices alone"
    );
    let composed = bare.with_composed(&[("a".to_owned(), Type::Int)]);
    check(
        &composed,
        &[
            ("variables.a", "int"),
            (
                "variables.b",
                "ERROR: <input>:1:10: undefined field 'b'\n | variables.b\n | .........^",
            ),
        ],
    );
    let with_lists = DeviceVariables {
        list_attributes: true,
        ..DeviceVariables::default()
    };
    check(
        &Environment::device(with_lists),
        &[
            ("device.attributes['d'].ok", "dyn"),
            ("device.attributes['d'].names.exists(name, name == 'x')", "bool"),
            (
                "device.allowMultipleAllocations",
                "ERROR: <input>:1:7: undefined field 'allowMultipleAllocations'\n | device.allowMultipleAllocations\n | ......^",
            ),
        ],
    );
    let with_shares = DeviceVariables {
        multiple_allocations: true,
        ..DeviceVariables::default()
    };
    check(
        &Environment::device(with_shares),
        &[
            ("device.allowMultipleAllocations == true", "bool"),
            (
                "device.attributes['d'].a.all(x, x)",
                "ERROR: <input>:1:23: expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)\n | device.attributes['d'].a.all(x, x)\n | ......................^",
            ),
            ("device.driver == 'd' && device.attributes['d'].model == 'x'", "bool"),
            ("device.attributes['d'].ok", "any"),
            ("device.capacity['d'].memory.compareTo(quantity('1Gi')) >= 0", "bool"),
            ("cel.bind(d, device.attributes['d'], d.a && d.b)", "bool"),
            ("device.attributes['d'].v.isGreaterThan(semver('1.2.3'))", "bool"),
        ],
    );
}

#[test]
fn expressions_that_go_too_deep_are_refused() {
    let limit = "ERROR: <input>:-1:0: expression recursion limit exceeded: 250";
    for expression in [
        "(".repeat(90_000),
        format!("a{}", ".b".repeat(40_000)),
        format!("a{}", " + a".repeat(10_000)),
        format!("{}true{}", "!(".repeat(300), ")".repeat(300)),
        "a ? b : ".repeat(300) + "c",
        "[".repeat(400),
        "x.all(a,".repeat(300),
    ] {
        assert_eq!(outcome(&policy(), &expression), limit);
    }
    assert_eq!(
        outcome(&policy(), &"a".repeat(100_001)),
        "ERROR: <input>:-1:0: expression code point size exceeds limit: size: 100001, limit 100000"
    );
    assert_eq!(outcome(&policy(), &format!("object{}", ".b".repeat(250))), "dyn");
    assert_eq!(outcome(&policy(), &format!("1{}", " + 1".repeat(250))), "int");
    assert_eq!(
        outcome(&policy(), &format!("true{}", " && true".repeat(10_000))),
        "bool"
    );
    assert_eq!(
        outcome(&policy(), &format!("{}1{}", "(".repeat(249), ")".repeat(249))),
        "int"
    );
}

#[test]
fn bad_input_ends_in_an_error_not_in_a_panic() {
    for expression in [
        "\"\\z\"",
        "'abc",
        "has(a)",
        "a.exists(1, x)",
        "9999999999999999999999",
        "for",
        "{'a': }",
        "?a",
        "a.b ? c",
        "\u{0}",
        "é",
        "'\\ud800'",
        "b'\\xff",
        "1e999999",
        "-9223372036854775809",
        "x{",
        "x{y:1",
        "[?1",
        "a[?",
        "a.?",
        "``",
        "x.`a",
        "cel.bind(1, 2, 3)",
        "[1].transformMap(1, 2, 3)",
        "[1].optMap(x, x)",
        "@",
        "a@b",
        "#",
        "a#",
    ] {
        assert!(compile(&policy(), expression).is_err(), "{expression}");
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Whatever is written gets an answer of the compiler; a panic would be told as its failure.
    #[test]
    fn every_text_gets_an_answer(parts in proptest::collection::vec(proptest::sample::select(PARTS), 0..12)) {
        let expression = parts.concat();
        let told = outcome(&policy(), &expression);
        proptest::prop_assert!(!told.contains("the compiler failed"), "{expression}: {told}");
    }
}

const PARTS: &[&str] = &[
    "object",
    ".",
    "spec",
    "?",
    "[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ":",
    ",",
    "1",
    "-",
    "!",
    "'a'",
    "\"",
    "\\",
    "&&",
    "||",
    "==",
    "in",
    " ",
    "\n",
    "x",
    "all(",
    "map(x, ",
    "has(",
    "Object",
    "b'",
    "\u{e9}",
    "0x",
    "1u",
    "1e9",
    "null",
    "`",
    "@",
    "optMap(",
    "cel.bind(",
    "transformMap(i, v, ",
    "//",
    "r'",
    "\"\"\"",
    "request",
    "size(",
];
