//! What a user of kubectl sees, on both stores: every script under `tests/kubectl`.

use trireme_tests::kubectl::{Script, scripts};
use trireme_tests::{Server, StoreChoice};

fn check(store: StoreChoice) {
    let server = Server::start(store);
    let differences: Vec<String> = scripts("kubectl")
        .iter()
        .flat_map(|path| Script::load(path).run(&server))
        .collect();
    let count = differences.len();
    assert!(
        count == 0,
        "{count} commands print something else over {store:?}:\n{}",
        differences.join("\n")
    );
}

#[test]
fn a_user_sees_what_kube_apiserver_shows_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn a_user_sees_what_kube_apiserver_shows_over_etcd() {
    check(StoreChoice::Etcd);
}
