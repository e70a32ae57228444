//! Recorded scenarios of a cluster with two IP families.

use std::time::Duration;

use trireme_tests::group::until;
use trireme_tests::{Server, StoreChoice};

use super::{check_server, files};

/// Recorded files of services with addresses of two families.
pub(super) const WITH_TWO_FAMILIES: &[&str] = &["dualstack/services"];

const RANGES: &str = "--service-cluster-ip-range=10.96.0.0/16,fd00:10:96::/112";
const LEAST_PERCENT: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);
/// A scenario asks for its address, which is taken as soon as it is there.
const FIRST_SERVICE: &str = "/api/v1/namespaces/default/services/kubernetes";

#[test]
fn services_of_two_families_are_those_of_kube_apiserver() {
    for store in [StoreChoice::Embedded, StoreChoice::Etcd] {
        let server = Server::try_start(store, &[RANGES]).unwrap_or_else(|error| panic!("{error}"));
        until("the Service kubernetes is there", PATIENCE, || {
            server
                .client()
                .get(FIRST_SERVICE)
                .is_ok_and(|answer| answer.code == 200)
        });
        check_server((None, None, None), &server, &files(WITH_TWO_FAMILIES), LEAST_PERCENT);
    }
}
