//! Every recorded exchange in scope gets the recorded answer, on both stores, but for the listed differences.

#[path = "reference/with_files.rs"]
mod with_files;

#[path = "reference/asked_for.rs"]
mod asked_for;

#[path = "reference/audited.rs"]
mod audited;

#[path = "reference/extended.rs"]
mod extended;

#[path = "reference/dual_stack.rs"]
mod dual_stack;

#[path = "reference/flow_control.rs"]
mod flow_control;

#[path = "reference/gated.rs"]
mod gated;

#[path = "reference/in_scope.rs"]
mod in_scope;

#[path = "reference/served.rs"]
mod served;

#[path = "reference/share.rs"]
mod share;

use std::path::PathBuf;

use in_scope::IN_SCOPE;
use trireme_tests::certificates::Ca;
use trireme_tests::identity_peer::IdentityPeer;
use trireme_tests::recorded::known::KnownDifferences;
use trireme_tests::recorded::{AuditTape, Peers, load, replay_with};
use trireme_tests::review_hook::ReviewHook;
use trireme_tests::server::ALL_PLUGINS;
use trireme_tests::{Server, StoreChoice, folder};

/// The number of recorded scenarios.
const RECORDED: usize = 1677;
/// The share of the replayed scenarios that must match in every step or be answered better, in per cent.
const LEAST_MATCHING_PERCENT: usize = 97;
/// The same of those with all admission plugins on.
const LEAST_WITH_PLUGINS_PERCENT: usize = 97;
/// The same of the optional plugins.
const LEAST_WITH_OPTIONAL_PLUGINS_PERCENT: usize = 97;

/// The same of all versions.
const LEAST_OF_ALL_VERSIONS_PERCENT: usize = 91;
/// The same of policies.
const LEAST_OF_POLICIES_PERCENT: usize = 97;
/// The same of users with certificates and of front proxies.
const LEAST_OF_USERS_PERCENT: usize = 96;
/// The same of the modes of authentication and authorization: few scenarios.
const LEAST_OF_MODES_PERCENT: usize = 80;

/// As of the recorded server.
const SERVICE_RANGE: &str = "--service-cluster-ip-range=10.96.0.0/16";
const NODE_AND_RBAC: &str = "--authorization-mode=Node,RBAC";

/// The files to replay: those in scope, or what `REFERENCE_FILES` names, separated by blanks, to look at others by hand.
fn files(in_scope: &[&str]) -> Vec<String> {
    match std::env::var("REFERENCE_FILES") {
        Ok(named) => named.split_whitespace().map(str::to_owned).collect(),
        Err(_) => in_scope.iter().map(|file| (*file).to_owned()).collect(),
    }
}

/// Recorded files of admission plugins, with all of them on.
const WITH_PLUGINS: &[&str] = &[
    "admission/certificateapproval",
    "admission/certificatesigning",
    "admission/certificatesubjectrestriction",
    "admission/defaultingressclass",
    "admission/defaultstorageclass",
    "admission/defaulttolerationseconds",
    "admission/limitranger",
    "admission/namespacelifecycle",
    "admission/nodedeclaredfeaturevalidator",
    "admission/order",
    "admission/persistentvolumeclaimresize",
    "admission/podresizevalidator",
    "admission/podsecurity",
    "admission/podtopologylabels",
    "admission/priority",
    "admission/resourcequota",
    "admission/runtimeclass",
    "admission/serviceaccount",
    "admission/storageobjectinuseprotection",
    "admission/subresources",
    "admission/taintnodesbycondition",
    "auth/impersonation",
    "auth/node",
    "auth/rbac",
    "auth/reviews",
];

/// Recorded files of what users have the server ask about writes.
const POLICIES: &[&str] = &[
    "hooks/mutating-admission-policies",
    "hooks/validating-admission-policies",
];
/// Recorded files of other API servers, which a scripted one stands for.
const AGGREGATION: &[&str] = &["hooks/aggregation"];
/// Recorded files of nodes that are restricted; the first are the scenarios of `auth/node` once more.
const WITH_NODE_RESTRICTION: &[&str] = &["admission/nodeauthorizer-noderestriction", "admission/noderestriction"];
/// Recorded files of optional plugins, with these on, too.
const WITH_OPTIONAL_PLUGINS: &[&str] = &[
    "admission-optional/alwayspullimages",
    "admission-optional/denyserviceexternalips",
    "admission-optional/extendedresourcetoleration",
    "admission-optional/limitpodhardantiaffinitytopology",
    "admission-optional/ownerreferencespermissionenforcement",
    "admission-optional/podnodeselector",
    "admission-optional/podsecurity",
    "admission-optional/podtolerationrestriction",
];
const OPTIONAL_PLUGINS: &str = "--enable-admission-plugins=DenyServiceExternalIPs,AlwaysPullImages,PodNodeSelector,\
    PodTolerationRestriction,ExtendedResourceToleration,LimitPodHardAntiAffinityTopology,\
    OwnerReferencesPermissionEnforcement";
/// Recorded files of versions that are neither all stable nor served by default.
const WITH_ALL_VERSIONS: &[&str] = &[
    "versions/across",
    "versions/admissionregistration",
    "versions/autoscaling",
    "versions/beta-and-alpha-kinds",
    "versions/events",
    "versions/networking",
    "versions/resource",
    "versions/storage-and-coordination",
];
const ALL_VERSIONS: &str = "--runtime-config=api/all=true";
/// Recorded files of the plugin that makes namespaces.
const WITH_AUTO_PROVISION: &[&str] = &["admission-autoprovision/namespaceautoprovision"];
/// Recorded files of the plugin that asks for namespaces and lets them end as they like.
const WITH_NAMESPACE_EXISTS: &[&str] = &["admission-nsexists/namespaceexists"];

/// Recorded files of issuers of JWTs.
const WITH_ISSUERS: &[&str] = &["auth-modes/jwt"];
/// Recorded files of users with certificates and of front proxies.
const WITH_CLIENT_CA: &[&str] = &["auth/authn"];
/// Recorded files of webhooks that authenticate and authorize, each with flags of its own.
const WITH_REVIEW_WEBHOOKS: &[&str] = &["auth-modes/authz-webhook", "auth-modes/webhook-flags"];
/// Recorded files of the mode ABAC.
const WITH_ABAC: &[&str] = &["auth-modes/abac"];

/// The managed fields of reviews and of what plugins change are not compared yet.
fn compares_managers(file: &str) -> bool {
    !file.starts_with("auth") && !file.starts_with("admission")
}

/// Replays files against servers with these flags.
fn check(store: StoreChoice, files: &[String], flags: &[&str], least: usize) {
    check_with((None, None, None), store, files, flags, least);
}

/// The same with servers that the server asks, and a CA of its clients.
fn check_with(
    (hook, issuers, ca): (Option<&ReviewHook>, Option<&IdentityPeer>, Option<&Ca>),
    store: StoreChoice,
    files: &[String],
    flags: &[&str],
    least: usize,
) {
    let server =
        Server::try_start(store, &[flags, &[SERVICE_RANGE]].concat()).unwrap_or_else(|error| panic!("{error}"));
    println!("{store:?}:");
    check_server((hook, issuers, ca), &server, files, least);
}

/// Replays files against a server that runs.
fn check_server(
    peers: (Option<&ReviewHook>, Option<&IdentityPeer>, Option<&Ca>),
    server: &Server,
    files: &[String],
    least: usize,
) {
    check_audited(peers, None, server, files, least);
}

/// The same; `audit` has the events of their requests.
fn check_audited(
    (hook, issuers, ca): (Option<&ReviewHook>, Option<&IdentityPeer>, Option<&Ca>),
    audit: Option<&AuditTape<'_>>,
    server: &Server,
    files: &[String],
    least: usize,
) {
    let reference = folder().join("reference");
    let known = KnownDifferences::load(&reference.join("known-differences.txt"));
    let client = server.client().keeping_connections();
    let mut errors = Vec::new();
    let (mut matching, mut better, mut all) = (0, 0, 0);
    for file in files {
        let scenarios = load(&reference.join(format!("{file}.jsonl")));
        let peers = Peers {
            client: &client,
            hook,
            issuers,
            ca,
            receiver: None,
            audit,
        };
        let replayed = replay_with(&peers, &scenarios, compares_managers(file));
        let (good, others) = (replayed.matching.len(), replayed.mismatches.len());
        let is_better = |mismatch: &&_| known.is_better(file, mismatch);
        let checked = replayed.mismatches.iter().filter(is_better).count();
        println!(
            "{file}: {good} match, {checked} are better, {} differ",
            others - checked
        );
        (matching, better, all) = (matching + good, better + checked, all + good + others);
        errors.extend(known.judge(file, &replayed));
    }
    let percentage = (100 * (matching + better)).checked_div(all).unwrap_or_default();
    println!("in all: of {all} scenarios {matching} match and {better} are better, {percentage} %");
    assert!(errors.is_empty(), "{} errors:\n{}", errors.len(), errors.join("\n"));
    assert!(
        percentage >= least,
        "only {percentage} % match or are better; {least} % must"
    );
}

#[test]
fn answers_are_those_of_kube_apiserver_over_the_embedded_store() {
    check(StoreChoice::Embedded, &files(IN_SCOPE), &[], LEAST_MATCHING_PERCENT);
}

#[test]
fn answers_are_those_of_kube_apiserver_over_etcd() {
    check(StoreChoice::Etcd, &files(IN_SCOPE), &[], LEAST_MATCHING_PERCENT);
}

#[test]
fn admission_plugins_answer_as_those_of_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(WITH_PLUGINS),
        &[ALL_PLUGINS, NODE_AND_RBAC],
        LEAST_WITH_PLUGINS_PERCENT,
    );
}

#[test]
fn policies_answer_as_those_of_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(POLICIES),
        &[NODE_AND_RBAC],
        LEAST_OF_POLICIES_PERCENT,
    );
}

#[test]
fn requests_of_other_api_servers_are_passed_on_as_by_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(AGGREGATION),
        &[NODE_AND_RBAC],
        LEAST_MATCHING_PERCENT,
    );
}

#[test]
fn restricted_nodes_are_answered_as_by_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(WITH_NODE_RESTRICTION),
        &[ALL_PLUGINS, NODE_AND_RBAC, "--enable-admission-plugins=NodeRestriction"],
        LEAST_WITH_PLUGINS_PERCENT,
    );
}

#[test]
fn all_versions_answer_as_those_of_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(WITH_ALL_VERSIONS),
        &[ALL_VERSIONS],
        LEAST_OF_ALL_VERSIONS_PERCENT,
    );
}

#[test]
fn optional_plugins_answer_as_those_of_kube_apiserver() {
    check(
        StoreChoice::Embedded,
        &files(WITH_OPTIONAL_PLUGINS),
        &[ALL_PLUGINS, OPTIONAL_PLUGINS, "--allow-privileged=true"],
        LEAST_WITH_OPTIONAL_PLUGINS_PERCENT,
    );
    check(
        StoreChoice::Embedded,
        &files(WITH_AUTO_PROVISION),
        &[ALL_PLUGINS, "--enable-admission-plugins=NamespaceAutoProvision"],
        LEAST_WITH_PLUGINS_PERCENT,
    );
}

#[test]
fn terminating_namespaces_take_objects_without_the_admission_plugin() {
    let flags = [
        ALL_PLUGINS,
        "--enable-admission-plugins=NamespaceExists",
        "--disable-admission-plugins=NamespaceLifecycle",
    ];
    check(
        StoreChoice::Embedded,
        &files(WITH_NAMESPACE_EXISTS),
        &flags,
        LEAST_WITH_PLUGINS_PERCENT,
    );
}

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
            (Some(&hook), None, None),
            StoreChoice::Embedded,
            &files(&[file]),
            &flags,
            LEAST_OF_MODES_PERCENT,
        );
    }
}

#[test]
fn issuers_of_tokens_make_the_users_of_kube_apiserver() {
    let issuers = IdentityPeer::start();
    let configuration = std::fs::read_to_string(folder().join("reference/auth-modes/authn.yaml")).expect("it is there");
    let configuration = issuers.file("authn.yaml", &issuers.adapt(&configuration));
    let flags = [
        &format!("--authentication-config={}", configuration.display()),
        NODE_AND_RBAC,
    ];
    check_with(
        (None, Some(&issuers), None),
        StoreChoice::Embedded,
        &files(WITH_ISSUERS),
        &flags,
        LEAST_OF_MODES_PERCENT,
    );
}

#[test]
fn users_are_known_as_by_kube_apiserver() {
    let ca = Ca::new("clients");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("clients.crt");
    std::fs::write(&file, &ca.pem).expect("written");
    let flags = [
        &format!("--client-ca-file={}", file.display()),
        &format!("--requestheader-client-ca-file={}", file.display()),
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--enable-bootstrap-token-auth",
        ALL_PLUGINS,
        NODE_AND_RBAC,
    ];
    check_with(
        (None, None, Some(&ca)),
        StoreChoice::Embedded,
        &files(WITH_CLIENT_CA),
        &flags,
        LEAST_OF_USERS_PERCENT,
    );
}

/// The files of recorded scenarios.
fn recordings() -> Vec<PathBuf> {
    let reference = folder().join("reference");
    let mut recordings = vec![reference.join("protobuf/create.jsonl")];
    for group in [
        "core",
        "groups",
        "api",
        "apply",
        "auth",
        "admission",
        "admission-gates",
        "admission-optional",
        "admission-autoprovision",
        "admission-nsexists",
        "admission-alwaysdeny",
        "admission-config",
        "admission-imagepolicy",
        "audit",
        "auth-modes",
        "dualstack",
        "flowcontrol",
        "hooks",
        "kinds",
        "server",
        "versions",
    ] {
        let files = std::fs::read_dir(reference.join(group)).expect("the recordings are there");
        let files = files.map(|file| file.expect("a file").path());
        // Beside them are configurations that they were recorded with.
        recordings.extend(files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl")));
    }
    recordings
}

#[test]
fn every_recorded_file_can_be_read() {
    let scenarios: usize = recordings().iter().map(|file| load(file).len()).sum();
    assert_eq!(scenarios, RECORDED, "a recording was lost or added; say so here");
}

#[test]
fn a_step_that_is_repeated_waits_for_what_is_not_there_yet() {
    let mut not_waiting = Vec::new();
    for file in recordings() {
        for scenario in load(&file) {
            let steps = scenario.steps_that_do_not_wait();
            not_waiting.extend(
                steps
                    .iter()
                    .map(|step| format!("{}: {} [{step}]", file.display(), scenario.name)),
            );
        }
    }
    assert!(not_waiting.is_empty(), "{}", not_waiting.join("\n"));
}
