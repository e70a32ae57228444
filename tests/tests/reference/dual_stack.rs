//! Recorded scenarios of a cluster with two IP families.

use trireme_tests::{Server, StoreChoice};

use super::{check_server, files};

/// Recorded files of services with addresses of two families.
pub(super) const WITH_TWO_FAMILIES: &[&str] = &["dualstack/services"];

const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";
const LEAST_PERCENT: usize = 100;

#[test]
fn services_of_two_families_are_those_of_kube_apiserver() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let server = Server::try_start(store, &[RANGES]).unwrap_or_else(|error| panic!("{error}"));
        check_server((None, None, None), &server, &files(WITH_TWO_FAMILIES), LEAST_PERCENT);
    }
}
