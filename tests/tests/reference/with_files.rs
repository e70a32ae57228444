//! Recorded scenarios of servers that have more to read than flags: configurations, policies, kubeconfigs of webhooks.

use trireme_tests::review_hook::ReviewHook;
use trireme_tests::server::ALL_PLUGINS;
use trireme_tests::{Server, StoreChoice};

use super::{
    LEAST_OF_ALWAYS_DENY_PERCENT, LEAST_OF_CONFIGURED_PERCENT, LEAST_OF_MODES_PERCENT, NODE_AND_RBAC, SERVICE_RANGE,
    WITH_ABAC, WITH_ALWAYS_DENY, WITH_IMAGE_POLICY, WITH_PLUGIN_CONFIGURATION, WITH_REVIEW_WEBHOOKS, check,
    check_server, check_with, files,
};

/// The recorded configuration of plugins.
const PLUGINS: &str = r#"apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - {type: Namespace, qps: 1, burst: 3, cacheSize: 100}
    - {type: Server, qps: 1000, burst: 1000}
- name: PodNodeSelector
  configuration:
    podNodeSelectorPluginConfig:
      clusterDefaultNodeSelector: "env=default"
      ref-listed: "team=x,disk=ssd"
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default:
    - {key: cluster-default, operator: Exists, effect: NoSchedule}
    whitelist:
    - {key: cluster-default, operator: Exists}
    - {key: allowed, operator: Exists}
    - {key: node.kubernetes.io/not-ready, operator: Exists}
    - {key: node.kubernetes.io/unreachable, operator: Exists}
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: pods
      matchScopes:
      - {scopeName: PriorityClass, operator: In, values: [ref-limited]}
    - resource: persistentvolumeclaims
      matchContains: [gold.storageclass.storage.k8s.io/requests.storage]
    - resource: limitranges
      matchContains: [count/limitranges]
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: latest, audit: restricted, audit-version: latest, warn: restricted, warn-version: v1.30}
    exemptions: {usernames: [bob], runtimeClasses: [ref-exempt], namespaces: [ref-exempt-ns]}
"#;

#[test]
fn configured_plugins_answer_as_those_of_kube_apiserver() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("admission.yaml");
    std::fs::write(&file, PLUGINS).expect("written");
    let file = format!("--admission-control-config-file={}", file.display());
    let flags = [
        ALL_PLUGINS,
        NODE_AND_RBAC,
        "--enable-admission-plugins=EventRateLimit,PodNodeSelector,PodTolerationRestriction",
        file.as_str(),
    ];
    check(
        StoreChoice::Embedded,
        &files(WITH_PLUGIN_CONFIGURATION),
        &flags,
        LEAST_OF_CONFIGURED_PERCENT,
    );
}

#[test]
fn images_are_asked_about_as_by_kube_apiserver() {
    let hook = ReviewHook::start().unwrap_or_else(|error| panic!("{error}"));
    let dir = tempfile::tempdir().expect("a directory");
    let (file, kubeconfig) = (dir.path().join("admission.yaml"), dir.path().join("images.kubeconfig"));
    std::fs::write(&kubeconfig, hook.kubeconfig("/images")).expect("written");
    let policy = format!(
        "kubeConfigFile: {}, allowTTL: 1, denyTTL: 1, retryBackoff: 50",
        kubeconfig.display()
    );
    let plugin =
        format!("{{name: ImagePolicyWebhook, configuration: {{imagePolicy: {{{policy}, defaultAllow: false}}}}}}");
    let text = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{plugin}]\n");
    std::fs::write(&file, text).expect("written");
    let file = format!("--admission-control-config-file={}", file.display());
    let flags = [
        ALL_PLUGINS,
        NODE_AND_RBAC,
        "--enable-admission-plugins=ImagePolicyWebhook",
        file.as_str(),
    ];
    check(
        StoreChoice::Embedded,
        &files(WITH_IMAGE_POLICY),
        &flags,
        LEAST_OF_CONFIGURED_PERCENT,
    );
}

#[test]
fn every_write_is_refused_as_by_kube_apiserver() {
    let filled = Server::try_start(StoreChoice::Etcd, &[SERVICE_RANGE]).unwrap_or_else(|error| panic!("{error}"));
    let flags = [
        ALL_PLUGINS,
        SERVICE_RANGE,
        "--enable-admission-plugins=AlwaysDeny,AlwaysAdmit",
    ];
    let server = filled.start_beside(&flags).unwrap_or_else(|error| panic!("{error}"));
    check_server(None, &server, &files(WITH_ALWAYS_DENY), LEAST_OF_ALWAYS_DENY_PERCENT);
}

/// The recorded policies.
const POLICIES_OF_A_FILE: &str = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"alice","namespace":"*","resource":"pods","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"bob","namespace":"default","resource":"*","apiGroup":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"ops","namespace":"*","resource":"deployments","apiGroup":"apps"}}
# a comment line

{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"system:authenticated","nonResourcePath":"/version","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"prom","nonResourcePath":"/livez/*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"system:kube-proxy","namespace":"*","resource":"*","apiGroup":"*","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/healthz"}}
{"user":"legacy-user","resource":"services"}
"#;

/// The recorded configuration of authorizers.
const AUTHORIZERS: &str = r#"
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: first
  webhook:
    authorizedTTL: 3s
    unauthorizedTTL: 3s
    timeout: 2s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: FOLDER/authorize.kubeconfig}
    matchConditions:
    - expression: "request.user.startsWith('h1-')"
    - expression: "!has(request.resourceAttributes) || request.resourceAttributes.resource != 'configmaps'"
- type: Webhook
  name: second
  webhook:
    authorizedTTL: 3s
    unauthorizedTTL: 3s
    timeout: 2s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: NoOpinion
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: FOLDER/authorize2.kubeconfig}
    matchConditions:
    - expression: "request.user.startsWith('h2-') || 'both' in request.groups"
- {type: Node, name: node}
- {type: RBAC, name: rbac}
"#;

#[test]
fn webhooks_that_authenticate_and_authorize_are_asked_as_by_kube_apiserver() {
    let hook = ReviewHook::start().unwrap_or_else(|error| panic!("{error}"));
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().display().to_string();
    for path in ["authorize", "authorize2", "authenticate"] {
        let kubeconfig = hook.kubeconfig(&format!("/{path}"));
        std::fs::write(dir.path().join(format!("{path}.kubeconfig")), kubeconfig).expect("written");
    }
    std::fs::write(dir.path().join("authz.yaml"), AUTHORIZERS.replace("FOLDER", &folder)).expect("written");
    let tokens = format!("--authentication-token-webhook-config-file={folder}/authenticate.kubeconfig");
    let by_file = [
        format!("--authorization-config={folder}/authz.yaml"),
        "--authentication-token-webhook-version=v1".to_owned(),
    ];
    let by_flags = [
        "--authorization-mode=Webhook,RBAC".to_owned(),
        format!("--authorization-webhook-config-file={folder}/authorize.kubeconfig"),
        "--authorization-webhook-cache-authorized-ttl=3s".to_owned(),
        "--authorization-webhook-cache-unauthorized-ttl=3s".to_owned(),
        "--api-audiences=https://kubernetes.default.svc,extra".to_owned(),
    ];
    for (file, flags) in WITH_REVIEW_WEBHOOKS
        .iter()
        .zip([by_file.as_slice(), by_flags.as_slice()])
    {
        let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        flags.extend([
            ALL_PLUGINS,
            tokens.as_str(),
            "--authentication-token-webhook-cache-ttl=3s",
        ]);
        check_with(
            Some(&hook),
            StoreChoice::Embedded,
            &files(&[file]),
            &flags,
            LEAST_OF_MODES_PERCENT,
        );
    }
}

#[test]
fn policies_of_a_file_authorize_as_in_kube_apiserver() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.jsonl");
    std::fs::write(&file, POLICIES_OF_A_FILE).expect("written");
    let policies = format!("--authorization-policy-file={}", file.display());
    let flags = [ALL_PLUGINS, "--authorization-mode=ABAC", policies.as_str()];
    check(StoreChoice::Embedded, &files(WITH_ABAC), &flags, LEAST_OF_MODES_PERCENT);
}
