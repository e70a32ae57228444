//! The settings of authorizers.

use trireme_auth::AuthorizerType;

use super::*;

/// A kubeconfig of a webhook.
const KUBECONFIG: &str = "
clusters: [{name: c, cluster: {server: 'http://a:1/b'}}]
contexts: [{name: x, context: {cluster: c}}]
current-context: x
";

fn names(settings: &AuthorizationSettings) -> Vec<(AuthorizerType, &str)> {
    let all = settings.authorizers.iter();
    all.map(|it| (it.kind, it.name.as_str())).collect()
}

#[test]
fn a_webhook_goes_with_its_mode_and_its_kubeconfig() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("webhook.kubeconfig");
    fs::write(&file, KUBECONFIG).expect("written");
    let file = format!("--authorization-webhook-config-file={}", file.display());
    let read = serve(&format!("trireme serve --authorization-mode=Webhook,RBAC {file}"), &[]).authorization;
    assert_eq!(
        names(&read),
        [(AuthorizerType::Webhook, "default"), (AuthorizerType::Rbac, "rbac")]
    );
    let (server, _) = read.authorizers[0].webhook.as_ref().expect("it is a webhook");
    assert_eq!(format!("{server:?}"), "RemoteServer(http://a:1/b)");
    check_errors(
        "trireme serve --authorization-mode=Webhook --authorization-webhook-version=v2",
        &[],
        expect![[r#"
            2 errors in the settings
              --authorization-webhook-version: "v2": give v1 or v1beta1
              --authorization-mode: "Webhook": authorization-mode Webhook's authorization config file not passed"#]],
    );
    let error = read_line(&format!("trireme serve {file}"), &[]).expect_err("no such mode");
    let expected = "cannot specify --authorization-webhook-config-file without mode Webhook";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_configuration_takes_the_place_of_flags() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("authz.yaml");
    let kubeconfig = dir.path().join("webhook.kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG).expect("written");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: first
  webhook:
    timeout: 2s
    subjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}
- {{type: RBAC, name: rbac}}
",
        kubeconfig.display()
    );
    fs::write(&file, &text).expect("written");
    let line = format!("trireme serve --authorization-config={}", file.display());
    let read = serve(&line, &[]).authorization;
    assert_eq!(
        names(&read),
        [(AuthorizerType::Webhook, "first"), (AuthorizerType::Rbac, "rbac")]
    );
    let error = |line: &str| read_line(line, &[]).expect_err("the settings are bad").to_string();
    let exclusive = "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* \
        flags are defined";
    assert!(error(&format!("{line} --authorization-mode=RBAC")).contains(exclusive));
    fs::write(&file, text.replace("first", "First")).expect("written");
    assert!(error(&line).contains("authorizers[0].name: Invalid value: \"First\": authorizer name is invalid: "));
    fs::write(&kubeconfig, "clusters: []").expect("written");
    fs::write(&file, &text).expect("written");
    assert!(error(&line).contains("is no kubeconfig"));
}
