//! Recorded scenarios of kinds behind feature gates, and of the admission plugins that come with them.

use trireme_tests::{
    Server, StoreChoice,
    server::{ALL_PLUGINS, GATES_OF_KINDS},
};

use super::{ALL_VERSIONS, NODE_AND_RBAC, check_server, files};

/// Recorded files of the kinds.
pub(super) const WITH_GATES: &[&str] = &[
    "versions/gated-certificates",
    "versions/gated-scheduling",
    "versions/gated-storagemigration",
];
/// Recorded files of the plugins.
pub(super) const WITH_GATED_PLUGINS: &[&str] = &[
    "admission-gates/clustertrustbundleattest",
    "admission-gates/podgroupprotection",
    "admission-gates/podgroupworkloadexists",
];
const GATES_OF_PLUGINS: [&str; 2] = [
    "--feature-gates=GenericWorkload=true,GangScheduling=true,ClusterTrustBundle=true,ClusterTrustBundleProjection=true",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true,certificates.k8s.io/v1beta1=true",
];

/// All of these few scenarios match.
const LEAST_PERCENT: usize = 100;

#[test]
fn kinds_behind_gates_answer_as_those_of_kube_apiserver() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let server = Server::try_start(store, &[GATES_OF_KINDS, ALL_VERSIONS, NODE_AND_RBAC]);
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        check_server((None, None, None), &server, &files(WITH_GATES), LEAST_PERCENT);
    }
}

#[test]
fn plugins_behind_gates_answer_as_those_of_kube_apiserver() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let flags = [&GATES_OF_PLUGINS[..], &[ALL_PLUGINS, NODE_AND_RBAC]].concat();
        let server = Server::try_start(store, &flags).unwrap_or_else(|error| panic!("{error}"));
        check_server((None, None, None), &server, &files(WITH_GATED_PLUGINS), LEAST_PERCENT);
    }
}
