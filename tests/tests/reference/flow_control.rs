//! Recorded scenarios of priority and fairness, each store with a server of its own: their schemas catch users of others.

use trireme_tests::StoreChoice;

use super::{NODE_AND_RBAC, check, files};

/// Recorded files of flow schemas and priority levels.
pub(super) const FLOW_CONTROL: &[&str] = &[
    "flowcontrol/defaults",
    "flowcontrol/dumps",
    "flowcontrol/mapping",
    "flowcontrol/objects",
    "flowcontrol/rules",
];

/// The share of the scenarios that must match in every step, in per cent.
const LEAST_PERCENT: usize = 94;

#[test]
fn requests_flow_as_in_kube_apiserver() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        check(store, &files(FLOW_CONTROL), &[NODE_AND_RBAC], LEAST_PERCENT);
    }
}
