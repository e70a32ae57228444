use super::*;
use crate::level::AuditStage;

const MIXED: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: None, users: [bob], verbs: [get], resources: [{group: "", resources: [configmaps]}]}
- {level: Metadata, omitStages: [ResponseStarted], resources: [{group: "", resources: [secrets, serviceaccounts/token]}]}
- {level: RequestResponse, resources: [{group: "", resources: [configmaps], resourceNames: [special]}]}
- {level: Metadata, resources: [{group: "", resources: [pods/status]}]}
- {level: None, resources: [{group: "", resources: ["pods/*"]}]}
- {level: Request, resources: [{group: "*", resources: ["*/scale"]}]}
- {level: None, nonResourceURLs: ["/version", "/livez*"]}
- {level: Metadata, nonResourceURLs: ["*"]}
- {level: RequestResponse, omitManagedFields: true, namespaces: [ops]}
- {level: Request, userGroups: [dev], users: [alice]}
"#;

fn evaluate(user: &str, groups: &[&str], verb: &str, subject: AuditedSubject<'_>) -> RequestAuditConfig {
    let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
    let request = AuditedRequest {
        user,
        groups: &groups,
        verb,
        subject,
    };
    AuditPolicy::parse(MIXED.as_bytes())
        .expect("it is a policy")
        .evaluate(&request)
}

/// `group/namespace/resource/name/subresource`
fn object(place: &str) -> AuditedSubject<'_> {
    let mut parts = place.split('/');
    let mut next = || parts.next().unwrap_or_default();
    let (group, namespace, resource, name, subresource) = (next(), next(), next(), next(), next());
    AuditedSubject::Resource {
        group,
        resource,
        subresource,
        namespace,
        name,
    }
}

#[test]
fn the_first_rule_that_matches_counts() {
    let level = |user: &str, place: &str| evaluate(user, &["dev"], "get", object(place)).level;
    for (user, place, expected) in [
        ("bob", "/n/configmaps/special", AuditLevel::None),
        ("eve", "/n/configmaps/special", AuditLevel::RequestResponse),
        ("eve", "/n/configmaps/other", AuditLevel::None),
        ("eve", "/n/secrets/s", AuditLevel::Metadata),
        ("eve", "/n/serviceaccounts/default", AuditLevel::None),
        ("eve", "/n/serviceaccounts/default/token", AuditLevel::Metadata),
        ("eve", "/n/pods/p/status", AuditLevel::Metadata),
        ("eve", "/ops/pods/p/log", AuditLevel::None),
        ("eve", "/ops/pods/p", AuditLevel::None),
        ("eve", "apps/n/deployments/d/scale", AuditLevel::Request),
        ("eve", "apps/n/deployments/d", AuditLevel::None),
        ("eve", "apps/ops/deployments/d", AuditLevel::RequestResponse),
        ("alice", "apps/n/deployments/d", AuditLevel::Request),
    ] {
        assert_eq!(level(user, place), expected, "{user} {place}");
    }
    assert_eq!(
        evaluate("alice", &["ops"], "get", object("apps/n/x")).level,
        AuditLevel::None
    );
    assert_eq!(
        evaluate("bob", &[], "list", object("/n/configmaps/special")).level,
        AuditLevel::RequestResponse
    );
}

#[test]
fn other_paths_have_rules_of_their_own() {
    let level = |path: &str| evaluate("eve", &[], "get", AuditedSubject::Path(path)).level;
    for (path, expected) in [
        ("/version", AuditLevel::None),
        ("/version/", AuditLevel::Metadata),
        ("/livez/ping", AuditLevel::None),
        ("/apis", AuditLevel::Metadata),
    ] {
        assert_eq!(level(path), expected, "{path}");
    }
}

#[test]
fn stages_of_policy_and_rule_add_up_and_a_rule_decides_about_managed_fields() {
    let config = evaluate("eve", &[], "watch", object("/n/secrets"));
    assert!(config.omit_stages.contains(AuditStage::RequestReceived));
    assert!(config.omit_stages.contains(AuditStage::ResponseStarted));
    assert!(!config.omit_stages.contains(AuditStage::ResponseComplete));
    assert!(!config.omit_managed_fields);
    assert!(evaluate("eve", &[], "get", object("/ops/x")).omit_managed_fields);
}

#[test]
fn a_policy_is_refused_in_the_words_of_kube_apiserver() {
    let check = |text: &str, expected: &str| {
        let refused = AuditPolicy::parse(text.as_bytes()).expect_err(text);
        assert_eq!(refused, expected, "{text}");
    };
    let rules = |rules: &str| format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n{rules}");
    check(
        "",
        "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy",
    );
    check(
        "apiVersion: audit.k8s.io/v1\nkind: Policy",
        "loaded illegal policy with 0 rules",
    );
    check(
        "apiVersion: audit.k8s.io/v1beta1\nkind: Policy",
        "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \
         \"pkg/audit/scheme.go:30\"",
    );
    check(
        "apiVersion: audit.k8s.io/v1\nkind: Event",
        "failed decoding: converting (v1.Event) to (audit.Policy): unknown conversion",
    );
    check(&rules("- users: [a]"), "rules[0].level: Required value");
    check(
        &rules("- level: Foo\n- level: Bar\n"),
        "[rules[0].level: Unsupported value: \"Foo\": supported values: \"None\", \"Metadata\", \"Request\", \
         \"RequestResponse\", rules[1].level: Unsupported value: \"Bar\": supported values: \"None\", \"Metadata\", \
         \"Request\", \"RequestResponse\"]",
    );
    check(
        &rules("- level: Metadata\n  omitStages: [Nope]"),
        "rules[0].omitStages[0]: Invalid value: \"Nope\": allowed stages are \
         RequestReceived,ResponseStarted,ResponseComplete,Panic",
    );
    check(
        &rules("- {level: Metadata, nonResourceURLs: ['/a'], namespaces: [x]}"),
        "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
         non-resource URLs",
    );
    check(
        &rules("- {level: Metadata, nonResourceURLs: ['a*b']}"),
        "[rules[0].nonResourceURLs[0]: Invalid value: \"a*b\": non-resource URL rules must begin with a '/' character, \
         rules[0].nonResourceURLs[0]: Invalid value: \"a*b\": non-resource URL wildcards '*' must be the final character \
         of the rule]",
    );
    check(
        &rules("- {level: Metadata, resources: [{group: '', resourceNames: [a]}]}"),
        "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource",
    );
}

#[test]
fn unknown_fields_and_nulls_are_absent() {
    let text =
        "apiVersion: audit.k8s.io/v1\nkind: Policy\nrulez: []\nrules:\n- {level: Metadata, userz: [a], users: null}";
    let policy = AuditPolicy::parse(text.as_bytes()).expect("it is a policy");
    let request = AuditedRequest {
        user: "",
        groups: &[],
        verb: "get",
        subject: AuditedSubject::Path("/x"),
    };
    assert_eq!(policy.evaluate(&request).level, AuditLevel::Metadata);
}
