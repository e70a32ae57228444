use super::*;

fn parse(text: &str) -> Result<AuthorizationConfiguration, String> {
    let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
    AuthorizationConfiguration::parse(format!("{head}{text}").as_bytes())
}

const WEBHOOK: &str = "
authorizers:
- type: Webhook
  name: first
  webhook:
    timeout: 2s
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /proc/self/status}
- {type: RBAC, name: rbac}
";

#[test]
fn webhooks_have_defaults_and_an_order() {
    let read = parse(WEBHOOK).expect("it is good");
    let [webhook, rbac] = read.authorizers.as_slice() else {
        panic!("{read:?}");
    };
    assert_eq!((rbac.kind, rbac.name.as_str()), (AuthorizerType::Rbac, "rbac"));
    let webhook = webhook.webhook.as_ref().expect("it is a webhook");
    let seconds = std::time::Duration::from_secs;
    let settings = &webhook.settings;
    assert_eq!(
        [settings.timeout, settings.authorized_ttl, settings.unauthorized_ttl],
        [seconds(2), seconds(300), seconds(30)]
    );
    assert!(settings.fails_closed);
    let never = WEBHOOK.replace("timeout: 2s", "timeout: 2s\n    cacheAuthorizedRequests: false");
    let read = parse(&never).expect("it is good");
    let webhook = read.authorizers[0].webhook.as_ref().expect("it is a webhook");
    assert!(webhook.settings.authorized_ttl.is_zero());
}

#[test]
fn errors_are_worded_as_in_kube_apiserver() {
    let check = |text: &str, expected: &str| assert_eq!(parse(text).expect_err("it is bad"), expected);
    check(
        "authorizers: []",
        "authorizers: Required value: at least one authorization mode must be defined",
    );
    check(
        "authorizers: [{type: Nope, name: a}, {name: b}]",
        "[authorizers[0].type: Unsupported value: \"Nope\": supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \
         \"Node\", \"RBAC\", \"Webhook\", authorizers[1].type: Required value]",
    );
    check(
        "authorizers: [{type: RBAC, name: rbac}, {type: RBAC, name: rbac}]",
        "authorizers[1].type: Duplicate value: \"RBAC\"",
    );
    check(
        "authorizers: [{type: RBAC, name: other}]",
        "expected name rbac for authorizer RBAC instead of other",
    );
    check(
        "authorizers: [{type: Webhook, name: w}]",
        "authorizers[0].webhook: Required value: required when type=Webhook",
    );
    check(
        &WEBHOOK.replace("timeout: 2s", "timeout: 31s"),
        "authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s",
    );
    check(
        &WEBHOOK.replace(
            "timeout: 2s",
            "timeout: 2s\n    matchConditions: [{expression: 'true'}]",
        ),
        "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
    );
    check(
        &WEBHOOK.replace("/proc/self/status", "relative"),
        "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"relative\": must be an absolute path",
    );
    check(
        &WEBHOOK.replace("failurePolicy: Deny", "failurePolicy: Ignore"),
        "authorizers[0].failurePolicy: Unsupported value: \"Ignore\": supported values: \"NoOpinion\", \"Deny\"",
    );
}

#[test]
fn a_misspelt_field_is_an_error() {
    let error = parse(&WEBHOOK.replace("failurePolicy", "failPolicy")).expect_err("it is bad");
    let load = "failed to load AuthorizationConfiguration from file: ";
    let expected = format!("{load}strict decoding error: unknown field \"authorizers[0].webhook.failPolicy\"");
    assert_eq!(error, expected);
}
