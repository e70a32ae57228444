//! Tests of kubectl, on both stores: every script under `tests/kubectl`.

use trireme_tests::kubectl::{check, scripts};
use trireme_tests::{Server, StoreChoice};

#[test]
fn a_user_sees_what_kube_apiserver_shows_over_the_embedded_store() {
    check(&scripts("kubectl"), &Server::start(StoreChoice::Embedded));
}

#[test]
fn a_user_sees_what_kube_apiserver_shows_over_etcd() {
    check(&scripts("kubectl"), &Server::start(StoreChoice::Etcd));
}
