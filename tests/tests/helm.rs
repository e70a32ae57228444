//! Tests of a chart's life with helm 4, on both stores: the script `tests/helm/chart.txt`.

use trireme_tests::kubectl;
use trireme_tests::process::find_program;
use trireme_tests::{Server, StoreChoice, folder};

fn check(store: StoreChoice) {
    assert!(
        find_program("helm").is_some(),
        "helm is missing; run: scripts/install-tools test"
    );
    kubectl::check(&[folder().join("helm/chart.txt")], &Server::start(store));
}

#[test]
fn a_chart_is_installed_upgraded_rolled_back_and_uninstalled_over_the_embedded_store() {
    check(StoreChoice::Embedded);
}

#[test]
fn a_chart_is_installed_upgraded_rolled_back_and_uninstalled_over_etcd() {
    check(StoreChoice::Etcd);
}
