//! Every recorded exchange in scope gets the recorded answer, on both stores, but for the listed differences.

use trireme_tests::recorded::known::KnownDifferences;
use trireme_tests::recorded::{load, replay};
use trireme_tests::server::ALL_PLUGINS;
use trireme_tests::{Server, StoreChoice, folder};

/// Recorded files whose kinds and behaviours the server has.
const IN_SCOPE: &[&str] = &[
    "core/namespaces",
    "core/pods",
    "core/configmaps",
    "core/endpoints",
    "core/secrets",
    "core/services",
    "core/serviceaccounts",
    "core/nodes",
    "core/events",
    "core/limitranges",
    "core/persistentvolumeclaims",
    "core/persistentvolumes",
    "core/podsubresources",
    "core/podtemplates",
    "core/replicationcontrollers",
    "core/resourcequotas",
    "groups/admissionregistration_mutatingadmissionpolicies",
    "groups/admissionregistration_mutatingadmissionpolicybindings",
    "groups/admissionregistration_mutatingwebhookconfigurations",
    "groups/admissionregistration_validatingadmissionpolicies",
    "groups/admissionregistration_validatingadmissionpolicybindings",
    "groups/admissionregistration_validatingwebhookconfigurations",
    "groups/apiextensions_customresourcedefinitions",
    "groups/apiextensions_customresources",
    "groups/apiextensions_customresources_cel",
    "groups/apiregistration_apiservices",
    "groups/apps_controllerrevisions",
    "groups/apps_daemonsets",
    "groups/apps_deployments",
    "groups/apps_replicasets",
    "groups/apps_statefulsets",
    "groups/autoscaling_horizontalpodautoscalers",
    "groups/batch_cronjobs",
    "groups/batch_jobs",
    "groups/certificates_certificatesigningrequests",
    "groups/coordination_leases",
    "groups/discovery_endpointslices",
    "groups/flowcontrol_flowschemas",
    "groups/flowcontrol_prioritylevelconfigurations",
    "groups/networking_ingressclasses",
    "groups/networking_ingresses",
    "groups/networking_ipaddresses",
    "groups/networking_networkpolicies",
    "groups/networking_servicecidrs",
    "groups/node_runtimeclasses",
    "groups/policy_poddisruptionbudgets",
    "groups/rbac_clusterrolebindings",
    "groups/rbac_clusterroles",
    "groups/rbac_rolebindings",
    "groups/rbac_roles",
    "groups/resource_deviceclasses",
    "groups/resource_resourceclaims",
    "groups/resource_resourceclaimtemplates",
    "groups/resource_resourceslices",
    "groups/scheduling_priorityclasses",
    "groups/storage_csidrivers",
    "groups/storage_csinodes",
    "groups/storage_csistoragecapacities",
    "groups/storage_storageclasses",
    "groups/storage_volumeattachments",
    "api/apply",
    "api/auth",
    "api/create",
    "api/delete",
    "api/discovery",
    "api/field-validation",
    "api/json-patch",
    "api/list",
    "api/merge-patch",
    "api/managed-fields",
    "api/negotiation",
    "api/strategic-merge-patch",
    "api/subresources",
    "api/update",
    "api/watch",
    "apply/across-versions",
    "apply/client-side-migration",
    "apply/conflicts-of-several",
    "apply/custom-resources",
    "apply/full-objects",
    "apply/interactions",
    "apply/lists-of-kinds",
    "apply/managed-fields-given",
    "apply/ownership",
    "apply/pod-templates",
    "apply/preconditions",
    "apply/subresources",
    "apply/user-agents",
    "apply/values",
    "auth/bootstrap",
];

/// The number of recorded scenarios.
const RECORDED: usize = 1161;
/// The share of the replayed scenarios that must match in every step, in per cent.
const LEAST_MATCHING_PERCENT: usize = 89;
/// The same of those with all admission plugins on.
const LEAST_WITH_PLUGINS_PERCENT: usize = 90;
/// The same of the optional plugins: few scenarios, some of which are answered better on purpose.
const LEAST_WITH_OPTIONAL_PLUGINS_PERCENT: usize = 75;

/// The same of all versions.
const LEAST_OF_ALL_VERSIONS_PERCENT: usize = 74;

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

/// The managed fields of reviews and of what plugins change are not compared yet.
fn compares_managers(file: &str) -> bool {
    !file.starts_with("auth") && !file.starts_with("admission")
}

/// Replays files against servers with these flags.
fn check(store: StoreChoice, files: &[String], flags: &[&str], least: usize) {
    let reference = folder().join("reference");
    let known = KnownDifferences::load(&reference.join("known-differences.txt"));
    let server =
        Server::try_start(store, &[flags, &[SERVICE_RANGE]].concat()).unwrap_or_else(|error| panic!("{error}"));
    let client = server.client();
    let mut errors = Vec::new();
    let (mut matching, mut all) = (0, 0);
    for file in files {
        let scenarios = load(&reference.join(format!("{file}.jsonl")));
        let replayed = replay(&client, &scenarios, compares_managers(file));
        let (good, bad) = (replayed.matching.len(), replayed.mismatches.len());
        println!("{store:?} {file}: {good} match, {bad} do not");
        (matching, all) = (matching + good, all + good + bad);
        errors.extend(known.judge(file, &replayed));
    }
    let percentage = (100 * matching).checked_div(all).unwrap_or_default();
    println!("{store:?} in all: {matching} of {all} scenarios match, {percentage} %");
    assert!(
        errors.is_empty(),
        "{} errors over {store:?}:\n{}",
        errors.len(),
        errors.join("\n")
    );
    assert!(percentage >= least, "only {percentage} % match; {least} % must");
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
fn every_recorded_file_can_be_read() {
    let reference = folder().join("reference");
    let mut scenarios = 0;
    for group in [
        "core",
        "groups",
        "api",
        "apply",
        "auth",
        "admission",
        "admission-optional",
        "admission-autoprovision",
        "hooks",
        "versions",
    ] {
        let files = std::fs::read_dir(reference.join(group)).expect("the recordings are there");
        for file in files.map(|file| file.expect("a file").path()) {
            scenarios += load(&file).len();
        }
    }
    assert_eq!(scenarios, RECORDED, "a recording was lost or added; say so here");
}

#[test]
fn the_readme_says_how_much_is_replayed() {
    let reference = folder().join("reference");
    let replayed: usize = IN_SCOPE
        .iter()
        .chain(WITH_PLUGINS)
        .chain(POLICIES)
        .chain(WITH_NODE_RESTRICTION)
        .chain(WITH_OPTIONAL_PLUGINS)
        .chain(WITH_AUTO_PROVISION)
        .chain(WITH_ALL_VERSIONS)
        .map(|file| load(&reference.join(format!("{file}.jsonl"))).len())
        .sum();
    let readme = std::fs::read_to_string(folder().join("../README.md")).expect("the README is there");
    let readme = readme.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        format!("{replayed} of {RECORDED} scenarios"),
        format!(
            "At least {LEAST_MATCHING_PERCENT} % of them ({LEAST_WITH_PLUGINS_PERCENT} % of those with all admission plugins on) must match"
        ),
    ] {
        assert!(readme.contains(&said), "the README does not say {said:?}");
    }
}
