//! What a user of helm 4 sees of a chart's life, on both stores: the script `tests/helm/chart.txt`.

use trireme_tests::kubectl::Script;
use trireme_tests::process::find_program;
use trireme_tests::{Server, StoreChoice, folder};

fn check(store: StoreChoice) {
    assert!(
        find_program("helm").is_some(),
        "helm is missing; run: scripts/install-tools test"
    );
    let server = Server::start(store);
    let differences = Script::load(&folder().join("helm/chart.txt")).run(&server);
    let count = differences.len();
    assert!(
        count == 0,
        "{count} commands print something else over {store:?}:\n{}",
        differences.join("\n")
    );
}

#[test]
fn a_chart_is_installed_upgraded_rolled_back_and_uninstalled_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn a_chart_is_installed_upgraded_rolled_back_and_uninstalled_over_etcd() {
    check(StoreChoice::Etcd);
}
