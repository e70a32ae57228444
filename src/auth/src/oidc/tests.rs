//! Configurations as users write them, and the errors of bad ones.

use expect_test::{Expect, expect};

use super::*;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";

fn check(text: &str, expected: Expect) {
    let disallowed = ["https://kubernetes.default.svc".to_owned()];
    let shown = match AuthenticationConfiguration::parse(format!("{HEAD}{text}").as_bytes(), &disallowed) {
        Ok(configuration) => format!(
            "{} issuers, anonymous {:?}",
            configuration.issuers.len(),
            configuration.anonymous
        ),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

#[test]
fn configurations_that_are_in_order_are_taken() {
    check("", expect!["0 issuers, anonymous None"]);
    check(
        "anonymous: {enabled: true, conditions: [{path: /livez}]}",
        expect![[r#"0 issuers, anonymous Some(AnonymousAuth { enabled: true, paths: ["/livez"] })"#]],
    );
    check(
        r#"
jwt:
- issuer: {url: "https://a", audiences: [x, y], audienceMatchPolicy: MatchAny}
  claimMappings: {username: {claim: sub, prefix: ""}, uid: {expression: "claims.sub"}}
- issuer: {url: "https://b", discoveryURL: "https://c/d", audiences: [x]}
  claimMappings:
    username: {expression: "claims.email"}
    extra: [{key: acme.io/a, valueExpression: "claims.?email_verified.orValue('')"}]
  userValidationRules: [{expression: "user.groups.all(g, g != '') && size(user.extra) < 5"}]
"#,
        expect!["strict decoding error: cannot unmarshal bool into field jwt[0].issuer.audiences[1] of type string"],
    );
}

#[test]
fn all_errors_are_worded_as_upstream() {
    check(
        "jwt: [{issuer: {uri: x}, more: 1}]",
        expect![[r#"strict decoding error: unknown field "jwt[0].more", unknown field "jwt[0].issuer.uri""#]],
    );
    check(
        "jwt: [{issuer: {url: 5}}]",
        expect!["strict decoding error: cannot unmarshal number into field jwt[0].issuer.url of type string"],
    );
    check(
        "jwt: [{}]",
        expect![
            "invalid authentication configuration: [jwt[0].issuer.url: Required value, jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required, jwt[0].claimMappings.username: Required value: claim or expression is required]"
        ],
    );
    check(
        r#"
jwt:
- issuer: {url: "http://u:p@a?b#c", audiences: [x, x]}
  claimMappings: {username: {claim: sub}, groups: {claim: g, expression: e}}
- issuer: {url: "https://kubernetes.default.svc", discoveryURL: "https://kubernetes.default.svc/", audiences: [x], audienceMatchPolicy: All, certificateAuthority: no, egressSelectorType: cluster}
  claimMappings: {username: {claim: sub, prefix: a}}
"#,
        expect![
            "strict decoding error: cannot unmarshal bool into field jwt[1].issuer.certificateAuthority of type string"
        ],
    );
    check(
        "anonymous: {enabled: false, conditions: [{path: /a}]}",
        expect![[
            r#"invalid authentication configuration: anonymous.conditions: Invalid value: [{"Path":"/a"}]: enabled should be set to true when conditions are defined"#
        ]],
    );
}

#[test]
fn expressions_are_compiled_when_the_configuration_is_read() {
    check(
        r#"
jwt:
- issuer: {url: "https://a", audiences: [x]}
  claimValidationRules:
  - {claim: a, expression: "true"}
  - {expression: "claims.a", requiredValue: b}
  - {expression: "1 +"}
  claimMappings:
    username: {expression: "claims.email"}
    extra: [{key: K8s.io/a, valueExpression: "''"}, {key: plain}]
  userValidationRules: [{expression: "user.name == ''"}, {}]
"#,
        expect![[r#"
            invalid authentication configuration: [jwt[0].claimValidationRules[0]: Invalid value: "a": claim and expression can't both be set, jwt[0].claimValidationRules[1].requiredValue: Invalid value: "b": may not be specified when expression is set, jwt[0].claimValidationRules[1].expression: Invalid value: "claims.a": must evaluate to bool, jwt[0].claimValidationRules[2].expression: Invalid value: "1 +": compilation failed: ERROR: <input>:1:4: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}
             | 1 +
             | ...^, jwt[0].claimMappings.extra[0].key: Invalid value: "K8s.io/a": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*'), jwt[0].claimMappings.extra[0].key: Invalid value: "K8s.io/a": must be lowercase, jwt[0].claimMappings.extra[1].key: Invalid value: "plain": must be a domain-prefixed path (such as "acme.io/foo"), jwt[0].claimMappings.extra[1].valueExpression: Required value, jwt[0].claimMappings.username.expression: Invalid value: "claims.email": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression, jwt[0].userValidationRules[0].expression: Invalid value: "user.name == ''": compilation failed: ERROR: <input>:1:5: undefined field 'name'
             | user.name == ''
             | ....^, jwt[0].userValidationRules[1].expression: Required value]"#]],
    );
}

#[test]
fn files_of_another_kind_are_refused() {
    let error = |text: &str| {
        AuthenticationConfiguration::parse(text.as_bytes(), &[])
            .expect_err("it is none")
            .to_string()
    };
    assert_eq!(error(""), "empty config data");
    let other = "no kind \"Config\" is registered for version \"v1\"; give AuthenticationConfiguration of apiserver.config.k8s.io/v1";
    assert_eq!(error("apiVersion: v1\nkind: Config\n"), other);
    assert_eq!(
        error(&format!("{HEAD}jwt: []\njwt: []\n")),
        "strict decoding error: line 4: key \"jwt\" already set in map"
    );
}

#[test]
fn flags_are_a_configuration_of_one_issuer() {
    let flags = OidcFlags {
        issuer_url: "https://a".to_owned(),
        client_id: "x".to_owned(),
        username_claim: "sub".to_owned(),
        signing_algs: vec!["RS256".to_owned()],
        ..OidcFlags::default()
    };
    assert_eq!(
        flags.configuration(&[]).expect("in order").issuers[0].address.issuer,
        "https://a"
    );
    let unsupported = OidcFlags {
        signing_algs: vec!["HS256".to_owned()],
        ..flags.clone()
    };
    let error = unsupported.configuration(&[]).expect_err("it is refused");
    assert_eq!(error.to_string(), "oidc: unsupported signing alg: \"HS256\"");
    assert!(
        flags.configuration(&["https://a".to_owned()]).is_err(),
        "the issuer of service accounts"
    );
}

#[test]
fn anonymous_requests_are_admitted_only_on_configured_paths() {
    let somewhere = AnonymousAuth {
        enabled: true,
        paths: vec!["/livez".to_owned()],
    };
    assert!(somewhere.admits("/livez") && !somewhere.admits("/livez/") && !somewhere.admits("/"));
    assert!(AnonymousAuth::everywhere(true).admits("/any") && !AnonymousAuth::everywhere(false).admits("/any"));
}
