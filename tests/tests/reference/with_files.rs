//! Recorded scenarios of servers that have more to read than flags: configurations, policies, kubeconfigs of webhooks.

use trireme_tests::review_hook::ReviewHook;
use trireme_tests::server::ALL_PLUGINS;
use trireme_tests::{Server, StoreChoice};

use super::{LEAST_OF_MODES_PERCENT, NODE_AND_RBAC, SERVICE_RANGE, WITH_ABAC, check, check_server, files};

/// Recorded files of plugins with a configuration.
pub(super) const WITH_PLUGIN_CONFIGURATION: &[&str] = &[
    "admission-config/eventratelimit",
    "admission-config/podnodeselector",
    "admission-config/podsecurity",
    "admission-config/podtolerationrestriction",
    "admission-config/resourcequota",
];
/// Recorded files of the plugin that asks about images.
pub(super) const WITH_IMAGE_POLICY: &[&str] = &["admission-imagepolicy/imagepolicywebhook"];
/// Recorded files of the plugin that refuses every write, on a store that was filled before.
pub(super) const WITH_ALWAYS_DENY: &[&str] = &["admission-alwaysdeny/alwaysdeny"];

/// The same of plugins with a configuration.
const LEAST_OF_CONFIGURED_PERCENT: usize = 97;
/// The same of the plugin that refuses every write, connections and reviews among them.
const LEAST_OF_ALWAYS_DENY_PERCENT: usize = 100;

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

#[test]
fn policies_of_a_file_authorize_as_in_kube_apiserver() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("policy.jsonl");
    std::fs::write(&file, POLICIES_OF_A_FILE).expect("written");
    let policies = format!("--authorization-policy-file={}", file.display());
    let flags = [ALL_PLUGINS, "--authorization-mode=ABAC", policies.as_str()];
    check(StoreChoice::Embedded, &files(WITH_ABAC), &flags, LEAST_OF_MODES_PERCENT);
}

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
    check_server(
        (None, None, None),
        &server,
        &files(WITH_ALWAYS_DENY),
        LEAST_OF_ALWAYS_DENY_PERCENT,
    );
}
